"""A bare aiohttp loop: ``python -m …loop PLAN`` makes the calls of a plan (JSON) and prints how long they took.

Nothing is stored, signed, checked or retried: this is the cost of sending by itself, in one process.
"""

import asyncio
import json
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import count
from typing import Any

import aiohttp

MODULE = "benchmarks.peers.http.loop"
BODY: dict[str, Any] = {"kind": "settlement", "account": 4711, "lines": [{"sku": "a-1", "count": 3}]}
WARM_UP = 200


@dataclass(frozen=True)
class Plan:
    """``calls`` to ``url``, ``clients`` at a time, after some warm-up calls that do not count.

    In a ``body`` ``{n}`` stands for the number of the call and ``{now}`` for the time (Unix seconds). ``per_second``:
    calls begin at this rate, as far as there are clients; 0: each client calls without a pause.
    """

    url: str
    calls: int
    clients: int
    body: str = json.dumps(BODY)
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    per_second: float = 0
    warm_up: int = WARM_UP

    def argv(self) -> tuple[str, ...]:
        return "-m", MODULE, json.dumps(asdict(self))


@dataclass(frozen=True)
class Times:
    """``seconds`` from the first call to the last answer, and the ``ms`` of each call."""

    seconds: float
    ms: list[float]

    @classmethod
    def printed(cls, text: str) -> "Times":
        return cls(**json.loads(text))


async def carry_out(plan: Plan) -> Times:
    """Make the calls. An answer that is an error ends the process, with the text of that answer."""
    numbers = count()
    headers = {"Content-Type": "application/json", **plan.headers}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=plan.clients)) as session:

        async def call(turns: Iterator[float], ms: list[float]) -> None:
            for begins_at in turns:
                if begins_at:
                    await asyncio.sleep(begins_at - time.perf_counter())
                body = plan.body.replace("{n}", str(next(numbers))).replace("{now}", f"{time.time():.6f}")
                began = time.perf_counter()
                async with session.request(plan.method, plan.url, data=body, headers=headers) as answer:
                    text = await answer.text()
                if not answer.ok:
                    raise SystemExit(f"{plan.url} answered {answer.status}: {text[:500]}")
                ms.append((time.perf_counter() - began) * 1000)

        async def run(calls: int) -> Times:
            ms: list[float] = []
            began = time.perf_counter()
            turns = (began + n / plan.per_second if plan.per_second else 0.0 for n in range(calls))
            await asyncio.gather(*(call(turns, ms) for _ in range(plan.clients)))
            return Times(time.perf_counter() - began, ms)

        await run(plan.warm_up)
        return await run(plan.calls)


if __name__ == "__main__":
    print(json.dumps(asdict(asyncio.run(carry_out(Plan(**json.loads(sys.argv[1])))))))
