"""The firings of a job in a stretch of time and the one that follows, computed once for all jobs of a kind.

A million jobs have a few hundred expressions in a few dozen zones, and jobs of one kind go on from the same instants:
asking a dictionary is far cheaper than walking a calendar. A plan depends on nothing but the schedule and the zone
database, so it may serve any later pass whose window it covers.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, NamedTuple

from jobs.core.instants import LATEST, TICK
from jobs.core.schedule import Schedule, ScheduleType, each_fire_time

#: All columns that decide a cron job's firings from its next one on; its creation time is not among them.
_kind_of_cron = attrgetter(
    "cron_expression", "timezone", "dst_policy", "cron_dialect", "starts_at", "ends_at"
)


class Plan(NamedTuple):
    """``instants`` in UTC, ascending, and the first firing after them; None when the schedule has no more."""

    instants: list[datetime]
    following: datetime | None

    def covers(self, until: datetime, limit: int) -> bool:
        """Whether it is also the plan up to ``until``, of at most ``limit`` instants."""
        instants, following = self
        return (
            (following is None or until < following or len(instants) == limit)
            and (not instants or instants[-1] <= until)
            and len(instants) <= limit
        )


class PlanCache:
    """Plans by kind of job, kept from pass to pass: at most ``capacity``, then it drops all and starts over.

    A job is any object with the columns of ``Job`` that ``schedule_of`` reads, and ``next_fire_at``.
    """

    def __init__(self, *, schedule_of: Callable[[Any], Schedule], capacity: int = 20_000) -> None:
        self._schedule_of = schedule_of
        self._capacity = capacity
        self._plans: dict[Any, Plan] = {}

    def plan(self, job: Any, *, until: datetime, limit: int, since: datetime | None = None) -> Plan:
        """At most ``limit`` firings of ``job`` from ``since`` to ``until``, and the one that follows.

        ``since`` is its ``next_fire_at`` by default. Raises ``ScheduleError`` as ``fire_times`` does.
        """
        since = since or job.next_fire_at
        if job.schedule_type == ScheduleType.ONCE and job.run_at is not None:
            return _of_once(job, since, until, limit)
        if job.schedule_type != ScheduleType.CRON:
            return _computed(self._schedule_of(job), since, until, limit)
        kind = (since, _kind_of_cron(job))
        plan = self._plans.get(kind)
        if plan is None or not plan.covers(until, limit):
            if len(self._plans) >= self._capacity:
                # Most plans are of past instants. To find these costs more than to compute the others again.
                self._plans.clear()
            schedule = replace(self._schedule_of(job), anchor=None)
            plan = self._plans[kind] = _computed(schedule, since, until, limit)
        return plan


def _of_once(job: Any, since: datetime, until: datetime, limit: int) -> Plan:
    """The same plan as ``_computed`` gives, for jobs that run once: bursts consist of these."""
    at = job.run_at
    if at < since or (job.starts_at and at < job.starts_at) or (job.ends_at and at > job.ends_at):
        return Plan([], None)
    at = at.astimezone(UTC)
    return Plan([], at) if at > until or not limit else Plan([at], None)


def _computed(schedule: Schedule, since: datetime, until: datetime, limit: int) -> Plan:
    instants: list[datetime] = []
    for instant in each_fire_time(schedule, after=since - TICK, until=LATEST):
        if instant > until or len(instants) == limit:
            return Plan(instants, instant)
        instants.append(instant)
    return Plan(instants, None)
