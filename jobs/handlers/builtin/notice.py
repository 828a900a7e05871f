"""``carillon.notice`` and ``carillon.email`` tell people how a job's firings end. They are Carillon's own types.

A notice is a trigger like any other, with retries and dead letters of its own. A target that is gone for good (410)
buries its notice but pauses no job, since all of a tenant's notices belong to one job.
"""

from typing import Annotated, Any

from pydantic import Field

from jobs.handlers.builtin.payload import BuiltInPayload
from jobs.handlers.builtin.webhook import webhook
from jobs.handlers.builtin.webhook.payload import WebhookPayload, secrets
from jobs.handlers.context import Context
from jobs.handlers.outcome import Permanent
from jobs.handlers.registry import job_type


class EmailPayload(BuiltInPayload):
    to: Annotated[str, Field(min_length=3, max_length=254)]
    subject: Annotated[str, Field(max_length=400)]
    text: Annotated[str, Field(max_length=20_000)]


@job_type("carillon.notice", timeout_seconds=30, batch_size=50, payload=WebhookPayload, secrets=secrets)
async def notice(ctx: Context, payload: WebhookPayload) -> Any:
    """Send a notice as a signed webhook."""
    try:
        return await webhook(ctx, payload)
    except Permanent as error:
        error.pause_job = False
        raise


@job_type("carillon.email", timeout_seconds=60, payload=EmailPayload)
def email(ctx: Context, payload: EmailPayload) -> None:
    """Send a notice by e-mail."""
    from django.core.mail import EmailMessage

    # The same id on every retry: by it a mail program may drop the second copy.
    headers = {"Message-ID": f"<{ctx.trigger_id}@carillon>"}
    EmailMessage(payload.subject, payload.text, to=[payload.to], headers=headers).send()
