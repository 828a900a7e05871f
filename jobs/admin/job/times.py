"""The times at which a job fires, as the console's list and page say them."""

from datetime import datetime

from jobs.actions import definition as definitions
from jobs.admin.shared.cells import instant_text
from jobs.core.calendar.words import duration_in_words
from jobs.core.errors import ScheduleError
from jobs.core.instants import LATEST
from jobs.core.schedule import fire_times
from jobs.core.states import JobStatus
from jobs.models import Job


def schedule_text(job: Job) -> str:
    """``0 2 * * * Europe/Berlin``, ``every 5 seconds``, ``once …`` or ``immediate``."""
    if job.schedule_type == "cron":
        return f"{job.cron_expression} {job.timezone}"
    if job.schedule_type == "interval" and job.interval is not None:
        return f"every {duration_in_words(job.interval)}"
    return f"once {instant_text(job.run_at)}" if job.schedule_type == "once" else str(job.schedule_type)


def next_instants(job: Job, *, now: datetime, limit: int) -> tuple[list[datetime], str]:
    """The instants at which a job fires next, and why there are none."""
    if job.deleted_at is not None or job.status != JobStatus.ACTIVE:
        return [], f"None while it is {'deleted' if job.deleted_at else job.status}."
    try:
        instants = fire_times(definitions.schedule_of(job), after=now, until=LATEST, limit=limit)
    except ScheduleError as error:
        return [], str(error)
    return instants, "" if instants else "None: the schedule names no further time."
