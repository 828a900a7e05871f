"""The targets that webhooks call: they echo all that they are sent, and break off in each way there is."""

import asyncio
import base64
import html
import json
from typing import Any
from urllib.parse import quote, unquote

from aiohttp import web

#: 2,048 bytes of an answer are kept, so each echo shows another part of the whole.
EXCERPT, ECHOES = 1500, 10


async def _echo(request: web.Request) -> web.Response:
    """Echo the request, in every way in which a target may show it."""
    raw = f"{request.raw_path} {request.path} {dict(request.headers)}"
    sent = " ".join(
        [raw, unquote(raw), quote(raw), quote(unquote(raw), safe=""), html.escape(raw), json.dumps(raw)]
        + [base64.b64encode(b"\0" * lead + raw.encode()).decode() for lead in range(3)]
    )
    sent += f" {raw.encode().hex()}"
    part = int(request.query.get("part", 0)) * EXCERPT
    return web.Response(status=400, text=sent[part:], headers={"X-Echo": quote(raw)})


async def _raw(request: web.Request, answer: bytes) -> web.StreamResponse:
    assert request.transport
    request.transport.write(answer)
    await asyncio.sleep(0.02)
    request.transport.close()
    return web.Response()


async def _malformed(request: web.Request) -> web.StreamResponse:
    return await _raw(request, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n")


async def _cut(request: web.Request) -> web.StreamResponse:
    token = request.headers["Authorization"].encode()[:18]
    return await _raw(request, b"HTTP/1.1 500 No\r\nContent-Length: 9999\r\n\r\n" + token)


async def _long_header(request: web.Request) -> web.StreamResponse:
    token = request.headers["Authorization"].encode()
    return await _raw(request, b"HTTP/1.1 200 OK\r\nX-Echo: " + token * 600 + b"\r\n\r\n")


async def _redirect(request: web.Request) -> web.Response:
    return web.Response(status=302, headers={"Location": f"http://thief.example{request.raw_path}"})


async def _fails(request: web.Request) -> web.Response:
    return web.Response(status=503, text=f"no: {request.raw_path}")


TARGETS = {
    "echo": _echo,
    "malformed": _malformed,
    "cut": _cut,
    "long": _long_header,
    "redirect": _redirect,
    "fails": _fails,
}


class AnyPath(dict[str, Any]):
    def get(self, path: str, default: Any = None) -> Any:
        return TARGETS[path.split("/")[1]]
