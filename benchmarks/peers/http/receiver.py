"""Receives webhooks: ``python -m …receiver PORT``. Answers 204 and counts; ``GET /`` tells what it has seen."""

import asyncio
import sys
from collections import Counter

from aiohttp import web

MODULE = "benchmarks.peers.http.receiver"


async def serve(port: int) -> None:
    """Listen on loopback for ever."""
    seen: Counter[str] = Counter()

    async def answer(request: web.BaseRequest) -> web.Response:
        if request.method == "GET":
            return web.json_response(seen)
        await request.read()
        seen["requests"] += 1
        seen["signed"] += "webhook-signature" in request.headers
        return web.Response(status=204)

    runner = web.ServerRunner(web.Server(answer, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
