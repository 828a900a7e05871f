"""Receives webhooks: ``python -m …receiver PORT``. Answers 204 and counts; ``GET /`` returns the counts.

``?asked_at=<Unix seconds>`` in a webhook's URL says when the webhook was asked for; ``GET /waits`` returns, for each of
these, the ms from then to its arrival.
"""

import asyncio
import json
import sys
import time
import urllib.request
from collections import Counter
from typing import Any

from aiohttp import web

MODULE = "benchmarks.peers.http.receiver"


async def serve(port: int) -> None:
    """Listen on loopback for ever."""
    seen: Counter[str] = Counter()
    waits: list[float] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        if request.method == "GET":
            return web.json_response(waits if request.path == "/waits" else seen)
        if asked_at := request.query.get("asked_at"):
            waits.append((time.time() - float(asked_at)) * 1000)
        await request.read()
        seen["requests"] += 1
        seen["signed"] += "webhook-signature" in request.headers
        return web.Response(status=204)

    runner = web.ServerRunner(web.Server(answer, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.Event().wait()


def argv(port: int) -> tuple[str, ...]:
    return "-m", MODULE, str(port)


def told(url: str) -> Any:
    """The receiver's answer at ``url``."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
