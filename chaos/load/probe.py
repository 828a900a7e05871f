"""Another tenant's calls of the API, timed: ``python -m chaos.load.probe URL FILE`` with its key in ``API_KEY``.

Calls ``GET /jobs`` and ``GET /livez`` every 200 ms, even if earlier calls have no answer yet, each over a connection of
its own. FILE gets a line of history for each. This is a process of its own, because the process that stages the run has
all links to serve.
"""

import asyncio
import os
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from chaos.history import Journal, Probed
from chaos.stage.outside import hasten

EVERY_SECONDS, TIMEOUT_SECONDS = 0.2, 8.0


async def probe(url: str, journal: Journal, *, key: str) -> None:
    """Call until it is cancelled."""
    address = urlsplit(url)
    addresses = {"/jobs": f"{url}/jobs", "/livez": f"http://{address.netloc}/livez"}
    headers = {"Authorization": f"Bearer {key}"}
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
    async with aiohttp.ClientSession(connector=connector, headers=headers, timeout=timeout) as session:

        async def ask(path: str) -> None:
            at, status = time.time(), 0
            begun = time.monotonic()
            try:
                async with session.get(addresses[path]) as answer:
                    await answer.read()
                    status = answer.status
            except (aiohttp.ClientError, OSError, TimeoutError):
                status = 0  # not answered, which the judge is told of
            journal.note(Probed(at=at, path=path, seconds=time.monotonic() - begun, status=status))

        due = time.monotonic()
        asked: set[asyncio.Task[None]] = set()
        while True:
            for path in addresses:
                task = asyncio.create_task(ask(path))
                asked.add(task)
                task.add_done_callback(asked.discard)
            due += EVERY_SECONDS
            await asyncio.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    hasten()
    asyncio.run(probe(sys.argv[1], Journal(Path(sys.argv[2])), key=os.environ["API_KEY"]))
