"""Workers' presence: which worker takes from which queue (DESIGN §7). By the database's clock alone."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from jobs.store import db

_SQL = db.queries("workers")
#: How often a worker says that it is there, and how long it is silent before it counts as gone.
ANNOUNCED_EVERY = timedelta(seconds=10)
GONE_AFTER = timedelta(seconds=30)


def announce(
    *, name: str, queues: Sequence[str], concurrency: int, busy: int | None = None, process: str = ""
) -> str | None:
    """Record that the worker ``name`` takes from ``queues``; ``busy`` of its ``concurrency`` slots are at work. May be
    repeated.

    Returns the process that announced the name last, if it did so lately and is another one. It is the worker's
    predecessor or, when this process had announced the name before, a second worker of that name.
    """
    [row] = _SQL["announce"](
        name=name,
        queues=sorted(queues),
        concurrency=concurrency,
        busy=busy,
        process=process,
        silence=GONE_AFTER,
    )
    other: str | None = row.other
    return other


def own_name(name: str, process: str) -> str:
    """The name that a process is listed under while another has its name, too."""
    return f"{name} (process {process})"


def is_own_name(name: str) -> bool:
    """Whether a process is listed under this name because another has its own name."""
    return name.endswith(")") and " (process " in name


def shared_names(present: Iterable[Any]) -> list[str]:
    """Names that several workers have, in rows of ``present``."""
    marks = [(row.name, own_name("", row.process)) for row in present if row.process]
    return sorted({name.removesuffix(mark) for name, mark in marks if name.endswith(mark)})


def leave(*, name: str, process: str = "") -> None:
    """Record that the worker takes nothing more. May be repeated."""
    _SQL["leave"](name=name, process=process)


def present(*, limit: int = 1000) -> list[Any]:
    """The workers that are there, by name: rows of name, process, queues, concurrency, busy, seen_at and
    silent_seconds.
    """
    return _SQL["present"](silence=GONE_AFTER, limit=limit)


def queues_taken(queues: Sequence[str]) -> set[str]:
    """Which of these are taken from: ``jobs.a`` by a Celery worker, ``jobs.a@7`` by pull workers of tenant 7."""
    return {row.queue for row in _SQL["queues_taken"](silence=GONE_AFTER, queues=list(queues))}
