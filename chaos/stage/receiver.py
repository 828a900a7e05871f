"""The outside witness: an HTTP server in a process of its own that writes down every delivery, then answers it.

``python -m chaos.stage.receiver PORT_FILE LOG ADDRESS``. The query says what it must do: ``target`` and ``seconds`` as
in ``history.JobMade``, ``failures``; for tasks of workflows also ``lists`` and ``only`` (``history.WorkflowMade``), and
``by=number``: requests are counted by the run's number, and not by the trigger. A line is on file before a request is
answered, and one when its client is gone.
"""

import asyncio
import gzip
import json
import sys
import time
from collections import Counter
from contextlib import suppress
from datetime import datetime
from itertools import count
from pathlib import Path

from aiohttp import web

from chaos.history import Brought, Ended, Journal, Started
from chaos.history.workflows import OF_RUN
from chaos.stage.outside import hasten

GIB = 1 << 30
#: Made once: a witness that is busy with compressing sees other requests late.
BOMB = gzip.compress(bytes(100 << 20), compresslevel=1)


class Receiver:
    """Answers each request as its query asks."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._numbers = count(1)
        self._requests: Counter[str] = Counter()

    async def receive(self, request: web.Request) -> web.StreamResponse:
        started = self._started(request)
        number, status, sent = started.delivery, 0, False
        self._journal.note(started)
        counted = started.trigger_id
        self._requests[counted] += 1
        query = request.query
        try:
            body, nth = await request.read(), ""
            if started.key.startswith(OF_RUN) and body:
                brought = Brought(delivery=number, values=json.loads(body))
                self._journal.note(brought)
                nth = str(brought.values.get("nth", ""))
                if query.get("by") == "number":
                    counted = f"{request.path} {brought.values['number']}"
                    self._requests[counted] += 1
            if query.get("target") == "sink":
                status = 200
                return await misbehave(request, query["mode"])
            await asyncio.sleep(float(query.get("seconds", 0)))
            spared = "only" in query and nth not in query["only"].split(",")
            status = 200 if spared else self._status(query, self._requests[counted])
            if query.get("target") == "dropping" and status != 200 and request.transport:
                sent = True  # its client must know that it must try again
                request.transport.abort()
                return web.Response(status=status)
            said = {"delivery": number}
            items = [f"{number}.{nth}" for nth in range(int(query.get("lists", 0)))]
            answer = web.json_response(said | {"items": items} if items else said, status=status)
            await answer.prepare(request)
            await answer.write_eof()
            sent = request.transport is not None and not request.transport.is_closing()
            return answer
        finally:
            self._journal.note(Ended(at=time.time(), delivery=number, status=status, sent=sent))

    def _started(self, request: web.Request) -> Started:
        headers = request.headers
        return Started(
            at=time.time(),
            delivery=next(self._numbers),
            job_id=headers["X-Carillon-Job"],
            trigger_id=headers["X-Carillon-Trigger"],
            scheduled_for=datetime.fromisoformat(headers["X-Carillon-Scheduled-For"]),
            attempt=int(headers["X-Carillon-Attempt"]),
            fence=int(headers["X-Fence-Token"]),
            execution_id=headers["X-Execution-Id"],
            key=headers["Idempotency-Key"],
        )

    def _status(self, query: object, requests: int) -> int:
        match query.get("target"):  # type: ignore[attr-defined]
            case "flaky" | "dropping":
                return 503 if requests <= int(query.get("failures", 1)) else 200  # type: ignore[attr-defined]
            case "failing":
                return 500
            case "refusing":
                return 400
        return 200


async def misbehave(request: web.Request, mode: str) -> web.StreamResponse:
    """Everything a bad target may do to its caller."""
    if mode == "redirect":
        return web.Response(status=302, headers={"Location": str(request.rel_url)})
    if mode == "retry-after":
        return web.Response(status=503, headers={"Retry-After": "9" * 9})
    headers = {"Content-Encoding": "gzip"} if mode == "bomb" else {}
    answer = web.StreamResponse(headers=headers)
    if mode == "hang":
        await asyncio.sleep(600)
    await answer.prepare(request)
    with suppress(OSError):
        if mode == "drip":
            for _ in range(600):
                await answer.write(b".")
                await asyncio.sleep(1)
        elif mode == "flood":
            for _ in range(GIB // 65_536):
                await answer.write(bytes(65_536))
        elif mode == "bomb":
            await answer.write(BOMB)
    return answer


async def serve(port_file: Path, log: Path, address: str) -> None:
    application = web.Application()
    application.router.add_route("*", "/{job}", Receiver(Journal(log)).receive)
    # A client that dies ends its delivery at once.
    runner = web.AppRunner(application, access_log=None, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, address, 0, backlog=1024).start()
    draft = port_file.with_suffix(".new")
    draft.write_text(str(runner.addresses[0][1]))
    draft.rename(port_file)
    await asyncio.Event().wait()


if __name__ == "__main__":
    hasten()
    asyncio.run(serve(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
