"""Schedules: cost per job to compute a million jobs' firings within 60 s and the next; 200 expressions, 40 zones.

Carillon's figure is that of the materializer's computation, through the same shared plans and in its batches. The peer
is croniter, called once a job, on a sample drawn from the same jobs, because all of them would take minutes. No
database is involved, and each is one Python process.
"""

import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from croniter import croniter

from benchmarks.report import Report, Row
from benchmarks.stage import BenchError, Stage
from jobs.conf import EngineSettings
from jobs.core.calendar.plans import PlanCache
from jobs.core.schedule import Schedule, ScheduleType

JOBS = 1_000_000
PEER_JOBS = 20_000
WINDOW = timedelta(seconds=60)
NOW = datetime(2026, 6, 15, 11, 59, 30, tzinfo=UTC)
LIMIT = 20
ZONES = (
    "UTC", "Africa/Cairo", "Africa/Casablanca", "Africa/Johannesburg", "Africa/Lagos", "Africa/Nairobi",
    "America/Anchorage", "America/Argentina/Buenos_Aires", "America/Bogota", "America/Chicago", "America/Denver",
    "America/Halifax", "America/Lima", "America/Los_Angeles", "America/Mexico_City", "America/New_York",
    "America/Phoenix", "America/Santiago", "America/Sao_Paulo", "America/St_Johns", "America/Toronto",
    "Asia/Dubai", "Asia/Hong_Kong", "Asia/Jakarta", "Asia/Jerusalem", "Asia/Karachi", "Asia/Kathmandu",
    "Asia/Kolkata", "Asia/Seoul", "Asia/Singapore", "Asia/Tokyo", "Australia/Lord_Howe", "Australia/Sydney",
    "Europe/Berlin", "Europe/Istanbul", "Europe/London", "Europe/Madrid", "Europe/Moscow", "Pacific/Auckland",
    "Pacific/Chatham",
)  # fmt: skip


class Job(NamedTuple):
    """The columns the materializer reads."""

    schedule_type: str
    cron_expression: str
    cron_dialect: str
    timezone: str
    dst_policy: str
    next_fire_at: datetime
    starts_at: datetime | None
    ends_at: datetime | None


def measure(stage: Stage, *, scale: float) -> Report:
    """Run the bench; ``scale`` shrinks the number of jobs."""
    jobs, sample = int(JOBS * scale), int(PEER_JOBS * scale)
    stage.say(f"Carillon: what {jobs:,} jobs fire next")
    ours, firings = _ours(jobs)
    stage.say(f"croniter: what {sample:,} jobs fire next")
    theirs = _peer(sample)
    return Report(
        name="schedules",
        title=f"Next firings of {jobs:,} jobs, {len(_expressions())} expressions in {len(ZONES)} zones",
        unit="microseconds per job (lower is better)",
        ours=ours,
        peer=theirs,
        ratio=theirs / ours,
        columns=("jobs", "µs a job", "1,000,000 jobs, s"),
        rows=(
            Row("Carillon", (f"{jobs:,}", f"{ours:.2f}", f"{ours:.1f}")),
            Row("croniter once a job (a sample)", (f"{sample:,}", f"{theirs:.2f}", f"{theirs:.1f}")),
        ),
        more={"jobs": jobs, "peer_jobs_sampled": sample, "firings_in_window": firings},
    )


def _expressions() -> list[str]:
    """200 expressions: every few minutes, hourly, daily, by weekday, by day of the month; none twice."""
    made = [f"{offset}-59/{step} * * * *" for step in (5, 10, 15) for offset in range(1, 6)]
    made += ["* * * * *", "*/2 * * * *", "*/5 * * * *", "*/30 * * * *", "0 */6 * * *"]
    made += [f"{minute} * * * *" for minute in range(0, 60, 2)]
    made += [f"{minute} {hour} * * *" for hour in range(24) for minute in (0, 30, 45)]
    made += [f"{minute} {hour} * * MON-FRI" for hour in range(6, 22, 2) for minute in (0, 15, 30)]
    made += [f"0 {hour} {day} * *" for day in (1, 15, 28) for hour in range(0, 24, 2)]
    made += [f"30 {hour} L * *" for hour in range(0, 24, 3)]
    made += [f"0 9 * * L{weekday}" for weekday in range(5)] + [f"0 7 * * {weekday}#1" for weekday in range(5)]
    return made[:200]


def _jobs(count: int) -> Iterator[Job]:
    draw = random.Random(20260615)
    expressions = _expressions()
    for _ in range(count):
        # Built again for each job, as rows from a database are.
        since = datetime(NOW.year, NOW.month, NOW.day, NOW.hour, NOW.minute, NOW.second, tzinfo=UTC)
        expression, zone = draw.choice(expressions), draw.choice(ZONES)
        yield Job(ScheduleType.CRON.value, expression, "unix", zone, "vixie", since, None, None)


def _schedule_of(job: Any) -> Schedule:
    return Schedule(ScheduleType.CRON, cron=job.cron_expression, timezone=job.timezone)


def _ours(count: int) -> tuple[float, int]:
    """Microseconds a job, and how many firings lie in the window. Making the jobs is not counted."""
    plans, source, firings, seconds = PlanCache(schedule_of=_schedule_of), _jobs(count), 0, 0.0
    while batch := list(islice(source, EngineSettings.model_fields["materialize_batch"].default)):
        until = NOW + WINDOW
        started = time.perf_counter()
        for job in batch:
            firings += len(plans.plan(job, until=until, limit=LIMIT).instants)
        seconds += time.perf_counter() - started
    if not firings:
        raise BenchError("no job fires in the window")
    return seconds / count * 1e6, firings


def _peer(count: int) -> float:
    """Microseconds a job."""
    batch = list(_jobs(count))
    zones = {name: ZoneInfo(name) for name in ZONES}
    started = time.perf_counter()
    for job in batch:
        croniter(job.cron_expression, job.next_fire_at.astimezone(zones[job.timezone])).get_next(datetime)
    return (time.perf_counter() - started) / count * 1e6
