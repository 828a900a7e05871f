"""``/worker/claim``, ``/worker/heartbeat`` and ``/worker/complete``, for keys of the scope ``worker``."""

import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from drf_spectacular.utils import OpenApiExample
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.actions.pull.types import claimable
from jobs.api.schema import endpoint
from jobs.api.views.base import Endpoint
from jobs.conf import engine_settings
from jobs.core.errors import InvalidInput, NotFound
from jobs.engine import pull
from jobs.engine.traces import trace_of
from jobs.shapes.pull import (
    Claimed,
    ClaimRequest,
    CompletedShape,
    CompleteRequest,
    Heartbeat,
    HeartbeatRequest,
    Work,
)
from jobs.shapes.terms import seconds
from jobs.store.pull import Work as Taken
from jobs.telemetry.output import bounded

_TRIGGER = "018f6d3e-7c1a-7000-8000-000000000001"


class ClaimView(Endpoint):
    scope = "worker"

    @endpoint(
        "Claim triggers of your pull types, or wait for some",
        request=ClaimRequest,
        responses={200: Claimed},
        examples=[
            OpenApiExample(
                "Wait for one",
                value={
                    "worker": "render-1",
                    "job_types": ["invoice.render"],
                    "capacity": 1,
                    "wait_seconds": 20,
                },
                request_only=True,
            )
        ],
        operation_id="worker_claim",
    )
    def post(self, request: Request) -> Response:
        asked = ClaimRequest.read(self.body())
        taken = pull.claim(
            tenant_id=self.tenant.id,
            job_types=self._stored(asked.job_types),
            capacity=asked.capacity,
            worker=asked.worker,
            wait_seconds=asked.wait_seconds,
            gone=_hangs_up(request),
        )
        lease = seconds(engine_settings().worker_lease)
        return Response({"triggers": [_shown(each) for each in taken], "lease_seconds": lease})

    def _stored(self, job_types: list[str]) -> list[str]:
        try:
            return claimable(tenant=self.tenant, asked=job_types)
        except NotFound:
            known = "declare each with PUT /job-types/{name} first; GET /job-types shows those with pull"
            raise InvalidInput(
                {"job_types": f"Not all of these types are for pull workers; {known}."}
            ) from None


def _shown(taken: Taken) -> dict[str, Any]:
    trace = trace_of(taken.row)
    headers = trace.headers() if trace is not None else {}
    told = {name: headers.get(name) for name in ("traceparent", "tracestate")}
    return Work.of(taken.row, job_type=taken.job_type, **told)


class HeartbeatView(Endpoint):
    scope = "worker"
    takes_much = True

    @endpoint(
        "Renew the leases of running triggers, report progress, and learn of cancels",
        request=HeartbeatRequest,
        responses={200: Heartbeat},
        examples=[
            OpenApiExample(
                "Half way",
                value={"triggers": [{"trigger_id": _TRIGGER, "fence": 1, "progress": {"fraction": 0.5}}]},
                request_only=True,
            )
        ],
        operation_id="worker_heartbeat",
    )
    def post(self, request: Request) -> Response:
        reports = [
            pull.AttemptReport(
                sent.token,
                sent.progress.model_dump() if sent.progress else None,
                sent.checkpoint,
                bounded(sent.output or ""),
            )
            for sent in HeartbeatRequest.read(self.body()).triggers
        ]
        statuses = pull.heartbeat(tenant_id=self.tenant.id, reports=reports)
        told = [{"trigger_id": key, "status": status} for key, status in statuses.items()]
        return Response(Heartbeat.of({"triggers": told}))


class CompleteView(Endpoint):
    scope = "worker"
    takes_much = True

    @endpoint(
        "Report the outcome of an attempt",
        request=CompleteRequest,
        responses={200: CompletedShape},
        problems=(404, 409),
        examples=[
            OpenApiExample(
                "Success",
                value={"trigger_id": _TRIGGER, "fence": 1, "outcome": "succeeded", "result": {"pages": 3}},
                request_only=True,
            ),
            OpenApiExample(
                "Failure to be retried in a minute or later",
                value={
                    "trigger_id": _TRIGGER,
                    "fence": 1,
                    "outcome": "failed",
                    "error": {"message": "The printer is busy.", "code": "printer_busy"},
                    "retry_after_seconds": 60,
                },
                request_only=True,
            ),
        ],
        operation_id="worker_complete",
    )
    def post(self, request: Request) -> Response:
        sent = CompleteRequest.read(self.body()).root
        outcome = replace(sent.ended(), said=bounded(sent.output or ""))
        done = pull.complete(tenant_id=self.tenant.id, token=sent.token, outcome=outcome)
        return Response(CompletedShape.of(done))


def _hangs_up(request: Request) -> Callable[[], bool]:
    """Whether the caller has closed the connection, if the server shows that: work must not go to a lost caller."""
    peer = request.META.get("gunicorn.socket")

    def gone() -> bool:
        if not isinstance(peer, socket.socket):
            return False
        try:
            return peer.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except (BlockingIOError, ValueError):
            return False  # open and silent; or TLS, which cannot be peeked at
        except OSError:
            return True

    return gone
