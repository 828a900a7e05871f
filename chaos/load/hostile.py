"""A hostile tenant at full tilt: ``python -m chaos.load.hostile URL REPORT`` with its ordinary key in ``API_KEY``.

Every attack at once until SIGTERM. REPORT then holds one JSON object: ``answers``, how often each attack was answered
in which way, and ``at_once``, how many of its slow webhooks were at work at once. Its targets are its own: it answers
them from this process, so the stage's receiver has nothing to do with them.
"""

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

from chaos.load.schemas import BOMBS, PAYLOADS, hostile

HOSTILE = "hostile"
#: Its own queue; it may not write to any other.
OWN_QUEUE = f"tenant.{HOSTILE}.flood"
FOREIGN_QUEUES = (
    "celery", "jobs.webhook", "tenant.tenant1.orders", "unacked", "_kombu.binding.x", "{carillon}:rate:key:1",
)  # fmt: skip
TIMEOUT = aiohttp.ClientTimeout(total=30)
#: Trickling for longer than a webhook may take.
TRICKLE_SECONDS, TIMEOUT_SECONDS = 60, 20
SLOW, NAMED, REFUSED, LARGE = 150, 100, 20, 10
LARGE_BYTES = 60_000
#: The fields of a complaint: as many as the call takes, for calls that take many and for calls that take fewer, and too
#: many for any.
FIELDS = {"much": 74_000, "less": 28_000, "too many": 200_000}
WRITES_PER_SECOND, WRITERS = 500, 8
COMPLAINERS, BOMBERS, INTRUDERS, CLAIMERS = 4, 4, 2, 40
CLAIM_SECONDS = 20
#: Connections by address: more than the 200 that a web process allows one address, from the address of all other
#: clients here, and from other addresses.
HALF_SENT = {"127.0.0.1": 600, **{f"127.0.0.{n}": 100 for n in range(2, 6)}}
AGAIN_SECONDS = 1.0
_NEVER = {"type": "once", "run_at": "2099-01-01T00:00:00Z"}

Answers = dict[str, Counter[str]]
ATTACKS = (
    "jobs", "complaints", "schemas", "schemas asked", "others' queues", "waiting claims", "writes", "half-sent",
)  # fmt: skip


def _half_sent() -> tuple[bytes, ...]:
    """Beginnings of requests: a head, a body, a chunk that looks like the last one."""
    host = b"Host: 127.0.0.1\r\n"
    post = b"POST /admin/login/ HTTP/1.1\r\n" + host
    return (
        b"GET /livez HTTP/1.1\r\n" + host + b"X-a: ",
        post + b"Content-Length: 100\r\n\r\nabc",
        post + b"Transfer-Encoding: chunked\r\n\r\nff\r\n0\r\n\r\n",
    )


class Target:
    """The target of its webhooks: a byte a second, and never an end."""

    def __init__(self) -> None:
        self.now = self.at_once = 0
        self.url = ""

    async def open(self) -> None:
        application = web.Application()
        application.router.add_route("*", "/{name}", self._trickle)
        # A client that gives up is gone at once, and no longer counts as at work.
        runner = web.AppRunner(application, access_log=None, handler_cancellation=True)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"

    async def _trickle(self, request: web.Request) -> web.StreamResponse:
        self.now += 1
        self.at_once = max(self.at_once, self.now)
        try:
            answer = web.StreamResponse()
            await answer.prepare(request)
            with suppress(OSError):
                for _ in range(TRICKLE_SECONDS):
                    await answer.write(b".")
                    await asyncio.sleep(1)
            return answer
        finally:
            self.now -= 1


class Attacker:
    """All attacks, by the API alone."""

    def __init__(self, *, url: str, key: str, target: Target, rng: random.Random) -> None:
        self._url, self._target, self._rng = url, target, rng
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self._numbers = count(int(time.time()) * 1000)
        self.answers: Answers = defaultdict(Counter)

    async def __aenter__(self) -> "Attacker":
        connector = aiohttp.TCPConnector(limit=0)
        self._session = aiohttp.ClientSession(connector=connector, headers=self._headers, timeout=TIMEOUT)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def call(self, attack: str, method: str, path: str, body: Any) -> Any:
        """The answer's document; None when no answer came. ``answers`` counts its status."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        try:
            async with self._session.request(method, self._url + path, data=data) as answer:
                text = await answer.read()
                self.answers[attack][str(answer.status)] += 1
                return json.loads(text or b"null")
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            self.answers[attack][type(error).__name__] += 1
            return None
        except asyncio.CancelledError:
            self.answers[attack]["unanswered"] += 1
            raise

    async def begin(self) -> None:
        """Make jobs that go on by themselves, and the objects that other attacks need; returns when all are made."""
        for jobs in (self._slow(), self._named(), self._refused(), self._large()):
            await self._make(jobs)
        await self.call("schemas", "PUT", f"/job-types/{HOSTILE}.claimed", {})
        self._written = await self._make(
            iter([self._job("message", {"queue": OWN_QUEUE, "body": 1}, _NEVER)])
        )

    def loops(self) -> Iterator[Callable[[], Awaitable[None]]]:
        """One step of each of the loops that must go round at once."""
        yield from [self._complain] * COMPLAINERS
        yield from [self._bomb] * BOMBERS
        yield from [self._intrude] * INTRUDERS
        yield from [self._claim] * CLAIMERS
        yield from [self._write] * WRITERS
        starts = _half_sent()
        for address, connections in HALF_SENT.items():
            for n in range(connections):
                yield partial(self._half_send, address, starts[n % len(starts)])

    def _job(self, job_type: str, payload: Any, schedule: Any, **more: Any) -> dict[str, Any]:
        return {
            "name": f"{HOSTILE}-{next(self._numbers)}", "job_type": job_type, "payload": payload,
            "schedule": schedule, "overlap_policy": "allow", "max_concurrent": 1000, **more,
        }  # fmt: skip

    def _slow(self) -> Iterator[dict[str, Any]]:
        every = {"type": "interval", "every_seconds": 5}
        for n in range(SLOW):
            payload = {"url": f"{self._target.url}/slow{n}"}
            yield self._job("webhook", payload, every, timeout_seconds=TIMEOUT_SECONDS)

    def _named(self) -> Iterator[dict[str, Any]]:
        """Webhooks to names that no server answers, each of a zone of its own."""
        every = {"type": "interval", "every_seconds": 10}
        for n in range(NAMED):
            payload = {"url": f"http://{HOSTILE}.z{n}.hang.test/"}
            yield self._job("webhook", payload, every, timeout_seconds=TIMEOUT_SECONDS)

    def _refused(self) -> Iterator[dict[str, Any]]:
        """Webhooks to a port without a listener, and to a forbidden address: both are retried as often as allowed."""
        every = {"type": "interval", "every_seconds": 1}
        for n in range(REFUSED):
            url = ("http://127.0.0.1:1024/", "http://localhost.localdomain:1024/")[n % 2]
            yield self._job("webhook", {"url": url}, every)

    def _large(self) -> Iterator[dict[str, Any]]:
        every = {"type": "interval", "every_seconds": 1}
        for n in range(LARGE):
            yield self._job("message", {"queue": f"{OWN_QUEUE}{n}", "body": "x" * LARGE_BYTES}, every)

    async def _make(self, jobs: Iterator[dict[str, Any]]) -> str:
        """Create them, by one call; returns the last one's id."""
        made = await self.call("jobs", "POST", "/jobs/bulk", {"jobs": list(jobs)})
        results = (made or {}).get("results", [])
        self.answers["jobs"].update(str(result["status"]) for result in results)
        return str(results[-1].get("id", "")) if results else ""

    async def _complain(self) -> None:
        method, path, body = self._rng.choice(_COMPLAINTS)
        await self.call("complaints", method, path, body)

    async def _bomb(self) -> None:
        """Declare a schema, and have a payload checked by it."""
        name = f"{HOSTILE}.s{self._rng.randrange(20)}"
        if self._rng.random() < 0.5:
            schema, payload = self._rng.choice(list(BOMBS.values()))
        else:
            schema, payload = hostile(self._rng, listener="127.0.0.1:9"), self._rng.choice(PAYLOADS)
        await self.call("schemas", "PUT", f"/job-types/{name}", {"payload_schema": schema})
        await self.call("schemas asked", "POST", "/jobs", self._job(name, payload, _NEVER))

    async def _intrude(self) -> None:
        queue = self._rng.choice(FOREIGN_QUEUES)
        job = self._job("message", {"queue": queue, "body": "x"}, {"type": "immediate"})
        await self.call("others' queues", "POST", "/jobs", job)

    async def _claim(self) -> None:
        claim = {
            "worker": HOSTILE,
            "job_types": [f"{HOSTILE}.claimed"],
            "capacity": 1,
            "wait_seconds": CLAIM_SECONDS,
        }
        if "triggers" not in (await self.call("waiting claims", "POST", "/worker/claim", claim) or {}):
            await asyncio.sleep(AGAIN_SECONDS)  # refused: it wants a waiting place

    async def _write(self) -> None:
        begun = time.monotonic()
        await self.call("writes", "POST", f"/jobs/{self._written}/run", {})
        await asyncio.sleep(max(0.0, begun + WRITERS / WRITES_PER_SECOND - time.monotonic()))

    async def _half_send(self, address: str, start: bytes) -> None:
        """Keep a half-sent request open until the server ends it."""
        server = urlsplit(self._url)
        try:
            reader, writer = await asyncio.open_connection(
                server.hostname, server.port, local_addr=(address, 0)
            )
        except OSError as error:
            self.answers["half-sent"][type(error).__name__] += 1
            await asyncio.sleep(AGAIN_SECONDS)
            return
        try:
            writer.write(start)
            said = await reader.read(64)
            self.answers["half-sent"][said[9:12].decode() or "closed"] += 1
        except OSError as error:
            self.answers["half-sent"][type(error).__name__] += 1
        except asyncio.CancelledError:
            self.answers["half-sent"]["unanswered"] += 1
            raise
        finally:
            writer.close()
        await asyncio.sleep(AGAIN_SECONDS)


def _unknown(fields: int) -> str:
    """``fields`` unknown fields, as the inside of an object."""
    return ",".join(f'"u{n}":1' for n in range(fields))


_UNKNOWN = {size: _unknown(fields) for size, fields in FIELDS.items()}
_COMPLAINTS: tuple[tuple[str, str, bytes], ...] = tuple(
    (method, path, form.replace("…", _UNKNOWN[size]).encode())
    for method, path, form, most in (
        ("POST", "/jobs", "{…}", "less"),
        ("POST", "/jobs/bulk", "{…}", "much"),
        ("POST", "/workflows", "{…}", "much"),
        ("POST", "/operations", '{"verb":"pause","filter":{…}}', "less"),
        ("POST", "/schedules/preview", '{"schedule":{…}}', "less"),
        ("PUT", f"/job-types/{HOSTILE}.x", "{…}", "less"),
        ("POST", "/worker/claim", "{…}", "less"),
        ("POST", "/worker/complete", "{…}", "much"),
    )
    for size in (most, "too many")
)


async def attack(url: str, report: Path, *, key: str, rng: random.Random) -> None:
    """Attack until SIGTERM; then the report is on file, whole."""
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    target = Target()
    await target.open()
    async with Attacker(url=url, key=key, target=target, rng=rng) as attacker:
        await attacker.begin()

        async def go_on(step: Callable[[], Awaitable[None]]) -> Any:
            while True:
                await step()

        loops = [asyncio.create_task(go_on(step)) for step in attacker.loops()]
        ended: asyncio.Task[Any] = asyncio.create_task(over.wait())
        # A loop that fails is a fault of this program: it must not look like a tenant that gave up.
        done, _ = await asyncio.wait({ended, *loops}, return_when=asyncio.FIRST_COMPLETED)
        for task in loops:
            task.cancel()
        await asyncio.wait(loops)
        for task in done:
            task.result()
    draft = report.with_suffix(".new")
    draft.write_text(json.dumps({"answers": attacker.answers, "at_once": target.at_once}))
    draft.rename(report)


if __name__ == "__main__":
    asyncio.run(attack(sys.argv[1], Path(sys.argv[2]), key=os.environ["API_KEY"], rng=random.Random(29)))
