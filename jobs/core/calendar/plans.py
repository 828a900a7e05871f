"""What a job fires in a stretch of time and when it fires next, computed once for all jobs of a kind.

A million jobs have a few hundred expressions in a few dozen zones, and the jobs of one kind that are materialized
together go on from the same instant: asking a dictionary is a hundred times cheaper than walking a calendar.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, NamedTuple

from jobs.core.schedule import LATEST, Schedule, ScheduleType, each_fire_time

_TICK = timedelta(microseconds=1)
#: All that decides a cron job's firings from its next one on; when it was created is not among it.
_kind_of_cron = attrgetter(
    "cron_expression", "timezone", "next_fire_at", "dst_policy", "cron_dialect", "starts_at", "ends_at"
)


class Plan(NamedTuple):
    """``instants`` in UTC, ascending, and the first firing after them; None when the schedule has no more."""

    instants: list[datetime]
    following: datetime | None


class PlanCache:
    """The plans of one pass up to ``until``, at most ``limit`` instants each.

    A job is any object with the columns of ``Job`` that ``schedule_of`` reads, and ``next_fire_at``.
    """

    def __init__(self, *, schedule_of: Callable[[Any], Schedule], until: datetime, limit: int) -> None:
        self._schedule_of = schedule_of
        self._until = until
        self._limit = limit
        self._plans: dict[Any, Plan] = {}

    def plan(self, job: Any) -> Plan:
        """The plan of ``job`` from its ``next_fire_at`` on. Raises ``ScheduleError`` as ``fire_times`` does."""
        if job.schedule_type != ScheduleType.CRON:
            return self._computed(self._schedule_of(job), job.next_fire_at)
        kind = _kind_of_cron(job)
        plan = self._plans.get(kind)
        if plan is None:
            schedule = replace(self._schedule_of(job), anchor=None)
            plan = self._plans[kind] = self._computed(schedule, job.next_fire_at)
        return plan

    def _computed(self, schedule: Schedule, since: datetime) -> Plan:
        instants: list[datetime] = []
        for instant in each_fire_time(schedule, after=since - _TICK, until=LATEST):
            if instant > self._until or len(instants) == self._limit:
                return Plan(instants, instant)
            instants.append(instant)
        return Plan(instants, None)
