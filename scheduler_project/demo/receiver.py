"""The demo's target: an HTTP server on loopback that answers as the scenario says and records the requests.

Its log is the only evidence for the verdict. Before a request is answered, it is kept in memory with the time of its
arrival, and in a file, one JSON object a line. A request whose Standard Webhooks signature does not verify is
logged as unsigned and refused with 401. One event loop serves all requests, so a firing's requests are numbered without
a lock.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from aiohttp import web
from standardwebhooks import Webhook, WebhookVerificationError

from scheduler_project.demo.scenario import SampleJob


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """One request as it arrived; ``status`` is the status of its answer."""

    path: str
    job_id: str
    trigger_id: str
    attempt: int
    scheduled_for: datetime
    idempotency_key: str
    received_at: datetime
    signed: bool
    status: int

    @property
    def lag_seconds(self) -> float:
        """From the nominal instant to the arrival."""
        return (self.received_at - self.scheduled_for).total_seconds()

    @property
    def scheduled(self) -> bool:
        """Whether a schedule asked for it, and not a "run now" (whose key has another form, DESIGN §5)."""
        return ":scheduled_for:" in self.idempotency_key


class Receiver(AbstractAsyncContextManager["Receiver"]):
    """Serves the jobs it was told to ``expect``, for the length of an ``async with``; ``deliveries`` grows meanwhile.

    ``secrets`` maps a tenant's slug to its signing secret; a tenant that is not in it (yet) has no valid signature.
    """

    def __init__(self, *, log_path: Path) -> None:
        self.deliveries: list[Arrival] = []
        self.first_delivery = asyncio.Event()
        self.secrets: dict[str, str] = {}
        self.url = ""
        self._samples: dict[str, SampleJob] = {}
        self._requests: Counter[str] = Counter()
        self._log_path = log_path
        self._log: TextIO | None = None
        application = web.Application()
        application.router.add_post("/{tenant}/{job}", self._receive)
        self._runner = web.AppRunner(application, access_log=None)

    def expect(self, sample: SampleJob) -> None:
        """Answer for ``sample`` from now on."""
        self._samples[sample.path] = sample

    async def __aenter__(self) -> Self:
        self._log_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._log = self._log_path.open("w", buffering=1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._runner.cleanup()
        if self._log:
            self._log.close()

    async def _receive(self, request: web.Request) -> web.Response:
        received_at = datetime.now(UTC)
        body = await request.text()
        sample = self._samples.get(request.path)
        if sample is None:
            return web.Response(status=404)
        try:
            delivery = self._delivery(request, sample, body, received_at)
        except (KeyError, ValueError) as error:
            return web.Response(status=400, text=f"Carillon's headers are missing or malformed: {error}")
        self._keep(delivery)
        return web.Response(status=delivery.status, text=f"{sample.name}: {delivery.status}")

    def _delivery(self, request: web.Request, sample: SampleJob, body: str, received_at: datetime) -> Arrival:
        headers = request.headers
        key = headers["Idempotency-Key"]
        signed = verify(self.secrets.get(sample.tenant), headers, body)
        if signed:
            self._requests[key] += 1
        return Arrival(
            path=request.path,
            job_id=headers["X-Carillon-Job"],
            trigger_id=headers["X-Carillon-Trigger"],
            attempt=int(headers["X-Carillon-Attempt"]),
            scheduled_for=datetime.fromisoformat(headers["X-Carillon-Scheduled-For"]),
            idempotency_key=key,
            received_at=received_at,
            signed=signed,
            status=sample.reception.status(request_number=self._requests[key]) if signed else 401,
        )

    def _keep(self, delivery: Arrival) -> None:
        self.deliveries.append(delivery)
        self.first_delivery.set()
        if self._log:
            self._log.write(json.dumps(asdict(delivery), default=datetime.isoformat) + "\n")


def verify(secret: str | None, headers: Mapping[str, str], body: str) -> bool:
    """Whether ``body`` was signed with ``secret`` (Standard Webhooks 1.0.0). A malformed signature is none."""
    if secret is None:
        return False
    try:
        Webhook(secret).verify(body, dict(headers), json_parse=False)
    except (WebhookVerificationError, ValueError):
        return False
    return True
