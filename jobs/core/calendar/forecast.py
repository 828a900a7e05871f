"""How many firings fall into each coming quarter of an hour, added up over jobs, and the fullest minutes.

The instants are those of ``fire_times``. A timetable counts them where it can, so that jobs that fire often cost no
more than others. Jobs with the same expression and zone are counted once and multiplied. A jitter of a minute or more
spreads firings, so jobs with such a jitter add to the quarters and to no minute.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from jobs.core.calendar.timetable import Timetable, timetable
from jobs.core.errors import ScheduleError
from jobs.core.instants import TICK
from jobs.core.schedule import Schedule, ScheduleType

QUARTER = timedelta(minutes=15)
_MINUTE = timedelta(minutes=1)
#: A forecast that is two hours old still covers a day.
QUARTERS = 26 * 4
_A_QUARTER = 15
#: With more instants than this it is cheaper to count them by the minute than to walk them.
_FEW = 500


@dataclass(frozen=True, slots=True)
class Outlook:
    """``counts``: firings by the quarter, from ``since`` on. ``peaks``: firings of each quarter's fullest minute.
    ``peak_minutes``: how long after its quarter's start that minute begins. ``jobs``: how many jobs fire at all."""

    since: datetime
    counts: list[int]
    peaks: list[int]
    peak_minutes: list[int]
    jobs: int = 0

    @property
    def total(self) -> int:
        return sum(self.counts)


class _Crowd:
    """The firings of the jobs of one tenant, or of all, added up."""

    def __init__(self) -> None:
        self.jobs = 0
        #: How many jobs there are of each kind of cron; firings by the minute; firings by the quarter alone.
        self.kinds: Counter[Any] = Counter()
        self.minutes: Counter[int] = Counter()
        self.quarters: Counter[int] = Counter()


class Forecast:
    """Adds jobs up, from ``now`` on. A job is any object with the columns that ``schedule_of`` reads, ``tenant_id``,
    ``jitter`` and ``next_fire_at``."""

    def __init__(self, *, now: datetime, schedule_of: Callable[[Any], Schedule]) -> None:
        self.since = now - (now - datetime.min.replace(tzinfo=now.tzinfo)) % QUARTER
        self._now, self._until = now, self.since + QUARTERS * QUARTER
        self._schedule_of = schedule_of
        self._crowds: defaultdict[int, _Crowd] = defaultdict(_Crowd)
        self._by_minute: dict[Any, dict[int, int]] = {}

    @property
    def tenant_ids(self) -> list[int]:
        return sorted(self._crowds)

    def add(self, job: Any) -> None:
        """Add a job. One whose schedule names no further time, or none that can be computed, adds nothing."""
        if job.next_fire_at is None:
            return
        crowd = self._crowds[job.tenant_id]
        crowd.jobs += 1
        if job.schedule_type == ScheduleType.CRON:
            spread = job.jitter >= _MINUTE
            crowd.kinds[_kind_of(job), spread] += 1
            if _kind_of(job) not in self._by_minute:
                schedule = replace(self._schedule_of(job), anchor=None)
                self._by_minute[_kind_of(job)] = self._minutes_of(schedule)
        elif job.schedule_type == ScheduleType.INTERVAL:
            crowd.quarters.update(self._quarters_of(self._schedule_of(job)))
        elif self._now < job.next_fire_at < self._until:
            minute = (job.next_fire_at - self.since) // _MINUTE
            if job.jitter >= _MINUTE:
                crowd.quarters[minute // _A_QUARTER] += 1
            else:
                crowd.minutes[minute] += 1

    def of(self, *tenant_ids: int) -> Outlook:
        """The outlook for the jobs of these tenants, all together."""
        minutes, counts, jobs = [0] * (QUARTERS * _A_QUARTER), [0] * QUARTERS, 0
        kinds: Counter[Any] = Counter()
        for crowd in (self._crowds[tenant_id] for tenant_id in tenant_ids):
            jobs += crowd.jobs
            kinds.update(crowd.kinds)
            for quarter, number in crowd.quarters.items():
                counts[quarter] += number
            for minute, number in crowd.minutes.items():
                minutes[minute] += number
        for (kind, spread), many in kinds.items():
            for minute, number in self._by_minute[kind].items():
                if spread:
                    counts[minute // _A_QUARTER] += many * number
                else:
                    minutes[minute] += many * number
        quarters = [minutes[start : start + _A_QUARTER] for start in range(0, len(minutes), _A_QUARTER)]
        peaks = [max(quarter) for quarter in quarters]
        return Outlook(
            since=self.since,
            counts=[rest + sum(quarter) for rest, quarter in zip(counts, quarters, strict=True)],
            peaks=peaks,
            peak_minutes=[quarter.index(peak) for quarter, peak in zip(quarters, peaks, strict=True)],
            jobs=jobs,
        )

    def _quarters_of(self, schedule: Schedule) -> dict[int, int]:
        return self._counted(schedule, QUARTER, few=QUARTERS)

    def _minutes_of(self, schedule: Schedule) -> dict[int, int]:
        return self._counted(schedule, _MINUTE, few=_FEW)

    def _counted(self, schedule: Schedule, size: timedelta, *, few: int) -> dict[int, int]:
        """Firings by parts of this ``size``; parts without any are left out."""
        try:
            times = timetable(schedule, after=self._now, until=self._until - TICK)
        except ScheduleError:
            return {}
        if len(times) <= few:
            return Counter((times.nth(number) - self.since) // size for number in range(len(times)))
        return self._ranked(times, size)

    def _ranked(self, times: Timetable, size: timedelta) -> dict[int, int]:
        found, before = {}, 0
        for part in range((self._until - self.since) // size):
            rank = times.rank(self.since + (part + 1) * size - TICK)
            if rank > before:
                found[part] = rank - before
            before = rank
        return found


def _kind_of(job: Any) -> Any:
    """All columns that decide the instants of a cron job."""
    return (job.cron_expression, job.timezone, job.dst_policy, job.cron_dialect, job.starts_at, job.ends_at)
