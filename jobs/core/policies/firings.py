"""Decisions on a trigger that is due: dispatch, wait, end with a reason, replace others (DESIGN §8, §9).

Dispatch asks ``decide``, and explain asks it too. Catch-up asks its rule on missed firings.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from jobs.core.policies.words import MisfirePolicy, OverlapPolicy


class Decision(StrEnum):
    """The decision of dispatch on a trigger that is due. The ends carry their reason (``states.REASONS``)."""

    DISPATCH = "dispatch"
    #: Not yet: hidden from dispatch until another trigger of its job, or of its concurrency key, ends.
    WAIT = "wait"
    #: Its job is not active: hidden from dispatch until the job is resumed.
    HOLD = "hold"
    #: Its job has another type by now: the trigger moves to that type's lane.
    MOVE = "move"
    #: Wait, and stop the other triggers of its job.
    REPLACE = "replace"
    SUPERSEDED = "superseded"
    #: Its job was cancelled or deleted while the trigger was made.
    JOB_CANCELLED = "job_cancelled"
    MISFIRE = "misfire"
    COALESCED = "coalesced"
    OVERLAP = "overlap"
    COLLAPSED = "collapsed"


class Firing(Protocol):
    """A trigger that is due, with the fields that the decision needs; a row of it will do."""

    @property
    def scheduled_for(self) -> datetime: ...
    @property
    def due_at(self) -> datetime: ...
    @property
    def job_type(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def origin(self) -> str: ...
    @property
    def attempt_count(self) -> int: ...
    @property
    def replay_count(self) -> int: ...


def may_skip(firing: Firing) -> bool:
    """Whether a firing may be skipped.

    A firing that was tried once, or asked for, is never skipped, even if a lost message made it pending again.
    """
    return (
        firing.attempt_count == 0
        and firing.replay_count == 0
        and firing.origin == "schedule"
        and firing.state == "pending"
    )


@dataclass(slots=True)
class JobFacts:
    """The facts of a job by which its triggers are decided: its policies, and its other triggers.

    ``active``: its triggers may start; ``ended``: they never will. ``in_flight``: queued or running; ``unfinished``:
    these, and one more if any is retrying; ``key_in_flight``: of its concurrency key. ``keep_from``: missed firings
    scheduled before it give way to later ones (None: none do). ``newest_due``, ``oldest_due``: of its scheduled firings
    that are due and pending. ``started``: how many were dispatched since the counts were read.
    """

    job_type: str
    active: bool
    ended: bool
    overlap_policy: str
    misfire_policy: str
    misfire_grace: timedelta
    catchup_window: timedelta
    max_concurrent: int
    now: datetime
    unfinished: int = 0
    in_flight: int = 0
    keyed: bool = False
    key_in_flight: int = 0
    keep_from: datetime | None = None
    newest_due: datetime | None = None
    oldest_due: datetime | None = None
    started: int = 0


def decide(firing: Firing, job: JobFacts) -> Decision:
    """Decide on a trigger that is due and whose turn has come (DESIGN §9). This is the one place that decides it."""
    if job.ended:
        return Decision.JOB_CANCELLED
    if not job.active:
        return Decision.HOLD
    if firing.job_type != job.job_type:
        return Decision.MOVE
    missed = is_missed(firing, job)
    if missed and (end := _misfire(firing, job)):
        return end
    decision = _overlap(firing, job, missed=missed)
    if decision == Decision.DISPATCH and key_is_full(job):
        return Decision.WAIT
    return decision


def decide_unkeyed(firing: Firing, job: JobFacts) -> Decision:
    """As ``decide``, if the job had no concurrency key: to tell a WAIT for its own triggers from one for the key."""
    return decide(firing, replace(job, keyed=False))


def key_is_full(job: JobFacts) -> bool:
    """Whether as many triggers of the job's concurrency key are in flight as its ``max_concurrent`` lets start."""
    return job.keyed and job.key_in_flight >= job.max_concurrent


class JobLoad(Protocol):
    """A job with triggers that are parked behind others; a row of ``parking.behind`` will do.

    It counts triggers that are not parked, as far as the number decides: ``in_flight``, ``retrying`` (0 or 1), and
    ``in_sight``: due and seen by dispatch (to ``max_concurrent``).
    """

    @property
    def overlap_policy(self) -> str: ...
    @property
    def max_concurrent(self) -> int: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def retrying(self) -> int: ...
    @property
    def in_sight(self) -> int: ...


def room_to_show(job: JobLoad) -> int:
    """How many of a job's oldest parked triggers dispatch must see again (DESIGN §8).

    Dispatch then decides on them as on any other trigger. So this only hides those that would be parked again.
    """
    # Triggers that dispatch sees already go first.
    busy = job.in_flight + job.in_sight
    if job.overlap_policy == OverlapPolicy.ALLOW:
        return max(0, job.max_concurrent - busy)
    return max(0, 1 - busy - job.retrying)


def is_missed(firing: Firing, job: JobFacts) -> bool:
    """Whether the misfire policy decides about a firing: it may be skipped, and its grace is over."""
    # As long as a firing may be skipped, its due_at is its scheduled_for plus its job's jitter.
    return may_skip(firing) and firing.due_at + job.misfire_grace < job.now


def runs_late(firing: Firing, job: JobFacts, *, missed: bool) -> bool:
    """Whether a firing runs however late it is. ``missed``: as ``is_missed`` says."""
    return firing.origin in ("catchup", "backfill") or (
        missed and job.misfire_policy in (MisfirePolicy.FIRE_ALL, MisfirePolicy.BACKFILL)
    )


def must_run(firing: Firing, *, late: bool) -> bool:
    """Whether a firing runs late or was asked for. Such a firing waits for those in flight and passes retrying ones."""
    return late or not may_skip(firing)


def ignores_overlap(firing: Firing) -> bool:
    """Whether a firing was asked to start beside others of its job.

    The others see it as any other firing, and its concurrency key still holds it.
    """
    return firing.origin == "run_beside"


def one_at_a_time(firing: Firing, job: JobFacts, *, late: bool) -> bool:
    """Whether a firing starts beside no other of its job. ``late``: as ``runs_late`` says."""
    return (
        job.overlap_policy != OverlapPolicy.ALLOW
        or firing.origin == "backfill"
        or (late and job.misfire_policy == MisfirePolicy.BACKFILL)
    )


def most_to_run(policy: str, *, max_catchup: int) -> int:
    """How many of the newest missed firings the policy lets run. ``fire_all`` runs every one and is not asked."""
    return {MisfirePolicy.SKIP: 0, MisfirePolicy.FIRE_ONCE: 1, MisfirePolicy.BACKFILL: max_catchup}[
        MisfirePolicy(policy)
    ]


def end_of_missed(policy: str, *, too_old: bool, passed_over: bool) -> Decision | None:
    """How a missed firing ends by its job's policy (DESIGN §9); None: it runs late.

    ``too_old``: older than the catch-up window. ``passed_over``: as many newer ones were missed as may run
    (``most_to_run``). Dispatch asks about single firings, catch-up about all firings between two instants.
    """
    match policy:
        case MisfirePolicy.SKIP:
            return Decision.MISFIRE
        case MisfirePolicy.FIRE_ALL:
            return None
        case _ if too_old:
            return Decision.MISFIRE
        case _ if passed_over:
            return Decision.COALESCED if policy == MisfirePolicy.FIRE_ONCE else Decision.MISFIRE
    return None


def _misfire(firing: Firing, job: JobFacts) -> Decision | None:
    return end_of_missed(
        job.misfire_policy,
        too_old=firing.due_at + job.catchup_window < job.now,
        passed_over=job.keep_from is not None and firing.scheduled_for < job.keep_from,
    )


def _overlap(firing: Firing, job: JobFacts, *, missed: bool) -> Decision:
    if ignores_overlap(firing):
        return Decision.DISPATCH
    late = runs_late(firing, job, missed=missed)
    if not one_at_a_time(firing, job, late=late):
        return Decision.WAIT if job.in_flight >= job.max_concurrent else Decision.DISPATCH
    if must_run(firing, late=late):
        return Decision.WAIT if job.in_flight else Decision.DISPATCH
    older_waits = job.oldest_due is not None and job.oldest_due < firing.scheduled_for
    newer = job.newest_due is not None and job.newest_due > firing.scheduled_for
    match job.overlap_policy:
        case OverlapPolicy.SKIP if job.unfinished:
            return Decision.OVERLAP
        case OverlapPolicy.QUEUE if job.unfinished or older_waits:
            return Decision.WAIT
        case OverlapPolicy.COLLAPSE if job.unfinished:
            return Decision.COLLAPSED if newer else Decision.WAIT
        case OverlapPolicy.REPLACE if newer:
            return Decision.SUPERSEDED
        case OverlapPolicy.REPLACE if job.unfinished:
            # A trigger that was dispatched a moment ago is not stopped at once.
            return Decision.OVERLAP if job.started else Decision.REPLACE
    return Decision.DISPATCH
