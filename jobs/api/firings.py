"""Future firings, as the API shows them: previews, and the notice of a change of clocks on a job."""

from datetime import datetime
from typing import Any

from jobs.core.calendar.notes import explained_fire_times
from jobs.core.calendar.notices import next_clock_change_notice
from jobs.core.calendar.words import describe
from jobs.core.errors import ScheduleError
from jobs.core.instants import LATEST, instant_text
from jobs.core.schedule import Schedule, next_fire
from jobs.core.states import JobStatus
from jobs.core.timezones import tzdata_version
from jobs.models import Job
from jobs.shapes.job import ClockChange, Preview


def preview(schedule: Schedule, *, after: datetime, count: int) -> dict[str, Any]:
    """The next ``count`` firings after ``after``, explained. Raises ``ScheduleError`` as ``fire_times`` does."""
    firings = explained_fire_times(schedule, after=after, until=LATEST, limit=count)
    told = {"description": describe(schedule), "tzdata": tzdata_version(), "firings": firings}
    return Preview.of(told)


def next_firing(job: Job, schedule: Schedule, *, now: datetime) -> str | None:
    """The next firing of an active job with that schedule, whether it has its trigger already or not.

    The job's own ``next_fire_at`` runs ahead by the look-ahead window, but callers want to know when the job fires.
    """
    if job.status != JobStatus.ACTIVE:
        return None
    if job.next_fire_at is not None and job.next_fire_at <= now:
        return instant_text(job.next_fire_at)
    try:
        return instant_text(next_fire(schedule, after=now))
    except ScheduleError:
        # As below.
        return None


def clock_change(job: Job, schedule: Schedule, *, now: datetime) -> dict[str, Any] | None:
    """The next firing of an active job that a change of clocks affects, within 30 days of ``now``."""
    if job.status != JobStatus.ACTIVE:
        return None
    try:
        notice = next_clock_change_notice(schedule, now=now)
    except ScheduleError:
        # The beat pauses such a job and says why; until then it has no firing to show.
        return None
    return None if notice is None else ClockChange.of(notice)
