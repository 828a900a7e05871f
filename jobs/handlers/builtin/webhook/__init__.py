"""``webhook``: deliver one signed HTTP request (DESIGN §10, Standard Webhooks 1.0.0).

Keeps true: bounded bytes and time, no redirects, no private addresses (``jobs.handlers.egress``), the same
``webhook-id`` on every retry. ``payload`` defines the requests that a job may ask for, ``request`` builds the request
that is sent, ``response`` interprets the answer.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from jobs.conf import engine_settings
from jobs.handlers import egress
from jobs.handlers.builtin.webhook.payload import WebhookPayload, secrets, target, target_of
from jobs.handlers.context import Context
from jobs.handlers.outcome import Response
from jobs.handlers.registry import job_type


def _max_timeout() -> timedelta:
    return engine_settings().webhook_max_timeout


# As many triggers share a message as ``AsyncRunner`` runs at once, so that all triggers of one message start together.
@job_type(
    "webhook",
    timeout_seconds=30,
    batch_size=100,
    payload=WebhookPayload,
    target=target,
    secrets=secrets,
    max_timeout=_max_timeout,
)
async def webhook(ctx: Context, payload: WebhookPayload) -> Response:
    """Send an HTTP request with a Standard Webhooks signature; any 2xx answer is a success."""
    # Imported here: these need aiohttp, and processes that only read the registry should not load it.
    from jobs.handlers.builtin.webhook.request import body_text, request_headers
    from jobs.handlers.builtin.webhook.response import outcome_of, read_bounded, result_of, translated_errors

    connection = egress.current.get()
    url = payload.url
    payload = payload.filled(lambda name: ctx.secret(name, host=target_of(url)))
    text = body_text(payload)
    with translated_errors():
        async with connection.session.request(
            payload.method,
            payload.url,
            data=None if text is None else text.encode(),
            headers=request_headers(ctx, payload, text=text, now=datetime.now(UTC)),
            allow_redirects=False,
        ) as answer:
            body = await read_bounded(answer, max_bytes=connection.rules.max_response_bytes)
    done = outcome_of(answer.status, answer.headers, body)
    # Later tasks of a workflow may take values from the answer; for a plain firing the excerpt is enough.
    return done if ctx.workflow is None else replace(done, result=result_of(answer.headers, body))
