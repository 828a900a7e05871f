"""The content of a notice: as JSON for a webhook, in words for an e-mail."""

import json
from typing import Any

from jobs.core.instants import instant_text

_SAID = {
    "succeeded": "succeeded",
    "failed": "failed and will be tried again",
    "dead": "died",
    "skipped": "was skipped",
    "paused": "was paused",
}


def webhook_body(event: Any, *, count: int) -> dict[str, Any]:
    """After Standard Webhooks: type, timestamp, data. ``count`` events of the kind are told of by their last."""
    data = {
        **event.data,
        "event_id": f"{event.xid}-{event.id}",
        "job_id": str(event.job_id),
        "trigger_id": event.trigger_id and str(event.trigger_id),
    }
    if count > 1:
        data["events"] = count
    return {"type": event.kind, "timestamp": instant_text(event.at), "data": data}


def email_payload(event: Any, *, word: str, count: int, to: str) -> dict[str, Any]:
    """The payload of a ``carillon.email``."""
    what = f"{event.data.get('job_name', event.job_id)} {_SAID[word]}"
    many = f" ({count} times)" if count > 1 else ""
    lines = [f"{what}{many} at {instant_text(event.at)}.", ""]
    lines += [
        f"{name.replace('_', ' ')}: {value if isinstance(value, str) else json.dumps(value)}"
        for name, value in webhook_body(event, count=count)["data"].items()
        if value is not None
    ]
    return {"to": to, "subject": f"[Carillon] {what}{many}"[:400], "text": "\n".join(lines)[:20_000]}
