"""Messages in Postgres while the broker is away: put by the dispatcher, taken by workers. May get lost, or repeated."""

import json
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from jobs.store import db
from jobs.store.execution import ClaimToken

_SQL = db.queries("messages")


class TakenMessage(NamedTuple):
    """A message as it would have come from the broker: ``items`` is JSON, ``[[trigger id, fence], …]``."""

    job_type: str
    items: Any


def put(messages: Sequence[tuple[str, Sequence[ClaimToken]]]) -> None:
    """Leave messages, each a job type and its triggers, in this order."""
    _SQL["put"](
        job_types=[job_type for job_type, _ in messages],
        items=[json.dumps([(str(token.id), token.fence) for token in tokens]) for _, tokens in messages],
    )


def take(job_types: Collection[str]) -> TakenMessage | None:
    """Take the oldest message of these job types: no other process gets it any more; None when there is none."""
    rows = _SQL["take"](job_types=sorted(job_types))
    return TakenMessage(rows[0].job_type, rows[0].items) if rows else None


def forget(*, older_than: timedelta, limit: int) -> int:
    """Drop up to ``limit`` messages that no worker took. Returns how many."""
    return len(_SQL["forget"](age=older_than, limit=limit))
