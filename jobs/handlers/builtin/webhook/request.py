"""The request of a webhook: its body, the headers of DESIGN §10 and the Standard Webhooks signature."""

from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import orjson
from multidict import CIMultiDict
from standardwebhooks import Webhook

from jobs.core.instants import instant_text
from jobs.handlers.builtin.webhook.payload import WebhookPayload
from jobs.handlers.context import Context


def body_text(payload: WebhookPayload) -> str | None:
    """The request's body as compact JSON; None when the payload names no body (``null`` is a body)."""
    if "body" not in payload.model_fields_set:
        return None
    return orjson.dumps(payload.body).decode()


def request_headers(
    ctx: Context, payload: WebhookPayload, *, text: str | None, now: datetime
) -> CIMultiDict[str]:
    """Every header of the request. The payload's headers may replace only ``User-Agent``, ``Content-Type`` and
    ``Accept…``. The trace that the attempt is part of replaces the payload's ``traceparent``.
    """
    headers = CIMultiDict({"User-Agent": user_agent(), "Content-Type": "application/json"})
    headers.update(payload.headers)
    trigger_id = str(ctx.trigger_id)
    headers.update(
        {
            "Idempotency-Key": ctx.idempotency_key,
            "X-Carillon-Job": str(ctx.job_id),
            "X-Carillon-Trigger": trigger_id,
            "X-Carillon-Attempt": str(ctx.attempt_number),
            "X-Carillon-Scheduled-For": instant_text(ctx.scheduled_for),
            "X-Fence-Token": str(ctx.fence),
            "X-Execution-Id": str(ctx.attempt_id),
            **signature_headers(ctx.signing_secret, message_id=f"trg_{trigger_id}", text=text or "", now=now),
        }
    )
    if ctx.trace is not None:
        headers.pop("tracestate", None)
        headers.update(ctx.trace.headers())
    return headers


def signature_headers(secrets: str, *, message_id: str, text: str, now: datetime) -> dict[str, str]:
    """The three headers of Standard Webhooks 1.0.0; no signature when ``secrets`` is empty.

    One signature for each of the space-separated ``secrets``, so that a receiver can rotate. ``now`` is any
    aware datetime: the library would sign a non-UTC one wrongly, so it is converted here.
    """
    now = now.astimezone(UTC)
    headers = {"webhook-id": message_id, "webhook-timestamp": str(int(now.timestamp()))}
    signatures = [Webhook(secret).sign(message_id, now, text) for secret in secrets.split()]
    if signatures:
        headers["webhook-signature"] = " ".join(signatures)
    return headers


@cache
def user_agent() -> str:
    """``Carillon/<version>``."""
    try:
        return f"Carillon/{version('carillon')}"
    except PackageNotFoundError:  # run from a checkout that was not installed
        return "Carillon/source"
