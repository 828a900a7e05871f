"""A bare aiohttp loop: ``python -m …loop URL COUNT CONCURRENCY`` posts that often and prints how long it took.

Nothing is stored, signed, checked or retried: this is what sending costs by itself, in one process.
"""

import asyncio
import json
import sys
import time
from typing import Any

import aiohttp

MODULE = "benchmarks.peers.http.loop"
BODY: dict[str, Any] = {"kind": "settlement", "account": 4711, "lines": [{"sku": "a-1", "count": 3}]}
WARM_UP = 200


async def post_all(url: str, count: int, concurrency: int) -> float:
    """Seconds for ``count`` posts, ``concurrency`` at a time."""
    data, headers = json.dumps(BODY).encode(), {"Content-Type": "application/json"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=concurrency)) as session:

        async def post(numbers: Any) -> None:
            for _ in numbers:
                async with session.post(url, data=data, headers=headers) as answer:
                    await answer.read()
                    answer.raise_for_status()

        async def run(total: int) -> float:
            numbers = iter(range(total))
            began = time.perf_counter()
            await asyncio.gather(*(post(numbers) for _ in range(concurrency)))
            return time.perf_counter() - began

        await run(WARM_UP)
        return await run(count)


if __name__ == "__main__":
    print(asyncio.run(post_all(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
