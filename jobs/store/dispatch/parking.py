"""Parking: triggers that may not start yet leave the dispatcher's sight, and come back when they may (DESIGN §8)."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from jobs.store import db

_SQL = db.queries("parking")


def release(*, after: UUID, limit: int) -> UUID | None:
    """Show dispatch again what was parked behind another trigger of its job or concurrency key, where there is room.

    Looks at up to ``limit`` jobs by id from ``after``; returns where to go on, None at the end. May be repeated.
    """
    rows = _SQL["release"](after=after, limit=limit)
    return rows[0].job_id if rows else None


def unpark(*, limit: int) -> int:
    """Show dispatch again up to ``limit`` triggers that have waited their time for a target. Returns how many."""
    return len(_SQL["unpark"](limit=limit))


def hold(triggers: Sequence[Any]) -> None:
    """Out of sight until their job is resumed."""
    if triggers:
        _SQL["hold"](ids=[row.id for row in triggers])


def park_until(waits: Mapping[UUID, timedelta]) -> None:
    """Out of sight, each for its time from now."""
    if waits:
        _SQL["park_until"](ids=list(waits), waits=list(waits.values()))


def make_way(waiting: Sequence[Any], replacing: Sequence[Any]) -> dict[UUID, str]:
    """Park what waits; older ones of its job give way as its policy says. Returns what ended, with the reason."""
    ended: dict[UUID, str] = {}
    if parked := [row.id for row in (*waiting, *replacing)]:
        _SQL["park"](ids=parked)
    if newest := [row for row in waiting if row.overlap_policy == "collapse"]:
        rows = _SQL["collapse"](
            job_ids=[row.job_id for row in newest], scheduled_fors=[row.scheduled_for for row in newest]
        )
        ended |= {row.id: row.reason for row in rows}
    if replacing:
        rows = _SQL["replace"](ids=[row.id for row in replacing], job_ids=[row.job_id for row in replacing])
        ended |= {row.id: "superseded" for row in rows if row.state == "cancelled"}
    return ended
