"""Messages in Postgres while the broker is away: put by the dispatcher, taken by workers. May get lost, or repeated."""

import json
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from jobs.store import db
from jobs.store.execution import Grip

_SQL = db.queries("messages")


class Taken(NamedTuple):
    """A message as it would have come from the broker: ``items`` is JSON, ``[[trigger id, fence], …]``."""

    job_type: str
    items: Any


def put(messages: Sequence[tuple[str, Sequence[Grip]]]) -> None:
    """Leave messages, each a job type and its triggers, in this order."""
    _SQL["put"](
        job_types=[job_type for job_type, _ in messages],
        items=[json.dumps([(str(grip.id), grip.fence) for grip in grips]) for _, grips in messages],
    )


def take(job_types: Collection[str]) -> Taken | None:
    """The oldest message of these job types, which is nobody else's from here on; None when there is none."""
    rows = _SQL["take"](job_types=sorted(job_types))
    return Taken(rows[0].job_type, rows[0].items) if rows else None


def forget(*, older_than: timedelta, limit: int) -> int:
    """Drop up to ``limit`` messages that nobody took. Returns how many."""
    return len(_SQL["forget"](age=older_than, limit=limit))
