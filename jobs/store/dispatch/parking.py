"""Parking: triggers that may not start yet leave the dispatcher's sight, and come back when they may (DESIGN §8)."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from jobs.core.policies import room_to_show
from jobs.core.workflows.states import SCHEDULE_TYPE as WORKFLOW
from jobs.store import db
from jobs.store.insight import activity

_SQL = db.queries("parking")


class Released(NamedTuple):
    """``after``: where to go on, None at the end; ``shown``: how many triggers dispatch sees again."""

    after: UUID | None
    shown: int


def release(*, after: UUID, limit: int) -> Released:
    """Show dispatch again triggers parked behind another one of their job or concurrency key, where there is room.

    Looks at up to ``limit`` jobs by id from ``after``. May be repeated. Where triggers of a job are queued between its
    two statements, dispatch parks again those that it finds no room for.
    """
    jobs = _SQL["behind"](after=after, limit=limit)
    rooms = {job.job_id: room for job in jobs if job.active and (room := room_to_show(job))}
    shown = _SQL["show"](job_ids=list(rooms), rooms=list(rooms.values())) if rooms else []
    return Released(jobs[-1].job_id if jobs else None, len(shown))


def unpark(*, limit: int) -> int:
    """Show dispatch again up to ``limit`` triggers that have waited their time for a target. Returns how many."""
    return len(_SQL["unpark"](limit=limit))


def hold(triggers: Sequence[Any]) -> None:
    """Take triggers out of sight until their job is resumed."""
    if triggers:
        _SQL["hold"](ids=[row.id for row in triggers])


def park_until(waits: Mapping[UUID, timedelta]) -> None:
    """Take triggers out of sight, each for its time from now."""
    if waits:
        _SQL["park_until"](ids=list(waits), waits=list(waits.values()))


def make_way(waiting: Sequence[tuple[Any, Any]], replacing: Sequence[tuple[Any, Any]]) -> dict[UUID, str]:
    """Park triggers that wait; older ones of their job give way as its policy says. Returns ended ones with the reason.

    Each trigger comes with its job, whose overlap policy is read.
    """
    ended: dict[UUID, str] = {}
    if parked := [row.id for row, _ in (*waiting, *replacing)]:
        _SQL["park"](ids=parked)
    if newest := [row for row, job in waiting if job.overlap_policy == "collapse"]:
        rows = _SQL["collapse"](
            job_ids=[row.job_id for row in newest], scheduled_fors=[row.scheduled_for for row in newest]
        )
        activity.count_ended(rows)
        ended |= {row.id: row.reason for row in rows}
    if replacing:
        rows = _SQL["replace"](
            ids=[row.id for row, _ in replacing], job_ids=[row.job_id for row, _ in replacing]
        )
        activity.count_cancelled(rows)
        if schedules := [row.job_id for row, job in replacing if job.job_type == WORKFLOW]:
            _SQL["replace_runs"](job_ids=schedules)
        ended |= {row.id: "superseded" for row in rows if row.state == "cancelled"}
    return ended
