"""Workers' presence: who takes from which queue (DESIGN §7). By the database's clock alone."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from jobs.store import db

_SQL = db.queries("workers")
#: A worker says this often that it is there, and is taken for gone when it was silent for that long.
ANNOUNCED_EVERY = timedelta(seconds=10)
GONE_AFTER = timedelta(seconds=30)


def announce(*, name: str, queues: Sequence[str], concurrency: int) -> None:
    """The worker ``name`` is there and takes from ``queues``. May be repeated."""
    _SQL["announce"](name=name, queues=sorted(queues), concurrency=concurrency)


def leave(*, name: str) -> None:
    """The worker takes nothing more. May be repeated."""
    _SQL["leave"](name=name)


def present(*, limit: int = 1000) -> list[Any]:
    """The workers that are there, by name: rows of ``name``, ``queues``, ``concurrency`` and ``seen_at``."""
    return _SQL["present"](silence=GONE_AFTER, limit=limit)


def queues_taken(queues: Sequence[str]) -> set[str]:
    """Who takes from these: ``jobs.a`` says that a Celery worker does, ``jobs.a@7`` that tenant 7's pull workers do."""
    return {row.queue for row in _SQL["queues_taken"](silence=GONE_AFTER, queues=list(queues))}
