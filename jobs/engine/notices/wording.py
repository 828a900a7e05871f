"""The content of a notice: as JSON for a webhook, in words for an e-mail."""

import json
from typing import Any

from jobs.core.instants import instant_text

#: The sentence about a job, or about a run of a workflow.
_SAID = {
    "trigger.succeeded": "{job_name} succeeded",
    "trigger.retrying": "{job_name} failed and will be tried again",
    "trigger.dead": "{job_name} died",
    "trigger.skipped": "{job_name} was skipped",
    "job.paused": "{job_name} was paused",
    "workflow_run.succeeded": "A run of {workflow_name} succeeded",
    "workflow_run.failed": "A run of {workflow_name} failed",
    "workflow_run.cancelled": "A run of {workflow_name} was cancelled",
}


def webhook_body(event: Any, *, count: int) -> dict[str, Any]:
    """Follows Standard Webhooks: type, timestamp, data. ``event`` is the last of ``count`` events of its kind."""
    ids = {"job_id": str(event.job_id), "trigger_id": event.trigger_id and str(event.trigger_id)}
    if event.kind.startswith("workflow_run."):
        ids = {"workflow_id": str(event.job_id)}
    data = {**event.data, "event_id": f"{event.xid}-{event.id}", **ids}
    if count > 1:
        data["events"] = count
    return {"type": event.kind, "timestamp": instant_text(event.at), "data": data}


def email_payload(event: Any, *, count: int, to: str) -> dict[str, Any]:
    """The payload of a ``carillon.email``."""
    what = _SAID[event.kind].format_map({"job_name": event.job_id, **event.data})
    many = f" ({count} times)" if count > 1 else ""
    lines = [f"{what}{many} at {instant_text(event.at)}.", ""]
    lines += [
        f"{name.replace('_', ' ')}: {value if isinstance(value, str) else json.dumps(value)}"
        for name, value in webhook_body(event, count=count)["data"].items()
        if value is not None
    ]
    return {"to": to, "subject": f"[Carillon] {what}{many}"[:400], "text": "\n".join(lines)[:20_000]}
