"""Histories as a sound system would leave them, and the means to break them in one place."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from chaos.history import Began, Closed, Ended, Healed, JobMade, Record, Started, Struck, TenantMade
from chaos.judge import Case, Verdict, judge

START = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
T0 = START.timestamp()
#: When the log of a run is read, in seconds after its start.
CLOSED = 60.0


def a_job(name: str = "job", *, every: int = 10, **changes: Any) -> JobMade:
    """A job that fires every ten seconds, six times before the log is read."""
    job = JobMade(
        at=T0,
        job_id=name,
        tenant="acme",
        name=name,
        schedule={"type": "interval", "every_seconds": every},
        created_at=START,
    )
    return replace(job, **changes)


def a_run(*jobs: JobMade, more: list[Record] | None = None, closed: float = CLOSED) -> list[Record]:
    """Each firing of each job executed once, 50 ms after its instant, for as long as the job says."""
    records: list[Record] = [Began(at=T0, seed=1, profile="test"), TenantMade(slug="acme", max_in_flight=100)]
    for job in jobs:
        records.append(job)
        for at in Case([job, Closed(at=T0 + closed)]).due(job):
            records += executed(job, at)
    return [*records, *(more or []), Closed(at=T0 + closed)]


def executed(
    job: JobMade,
    at: datetime,
    *,
    late: float = 0.05,
    attempt: int = 1,
    fence: int = 1,
    status: int = 200,
    sent: bool = True,
    trigger: str = "",
    seconds: float | None = None,
    claimed: float | None = None,
) -> list[Record]:
    """One delivery of a firing, begun ``late`` seconds after its instant, ``claimed`` by its worker then or before."""
    start = at.timestamp() + late
    took = max(job.seconds, 0.01) if seconds is None else seconds
    key = f"job:{job.job_id}:scheduled_for:{at.isoformat()}"
    # As unlikely to come twice as the receiver's own number is.
    delivery = hash((job.job_id, at, start, attempt, fence, trigger))
    return [
        Started(
            at=start,
            delivery=delivery,
            job_id=job.job_id,
            trigger_id=trigger or f"{job.job_id}@{at.isoformat()}",
            scheduled_for=at,
            attempt=attempt,
            fence=fence,
            execution_id=_uuid7(at.timestamp() + (late if claimed is None else claimed), delivery),
            key=key,
        ),
        Ended(at=start + took, delivery=delivery, status=status, sent=sent),
    ]


def _uuid7(at: float, number: int) -> str:
    return str(UUID(int=int(at * 1000) << 80 | 7 << 76 | number & 0xFFFFFFFF))


def firing(number: int, *, every: int = 10) -> datetime:
    """The instant of a job's ``number``-th firing, from 1."""
    return START + timedelta(seconds=every * number)


def a_fault(number: int, begins: float, ends: float, *, name: str = "", **facts: Any) -> list[Record]:
    """A fault from ``begins`` to ``ends``, in seconds after the start; ``facts`` are those of ``history.Struck``."""
    name = name or f"{number}@{begins:g}"
    struck = Struck(at=T0 + begins, id=name, number=number, what=name, **facts)
    return [struck, Healed(at=T0 + ends, id=name)]


def without(records: list[Record], unwanted: Callable[[Record], bool]) -> list[Record]:
    """The history with some of its lines torn out."""
    return [record for record in records if not unwanted(record)]


def delivered_at(at: datetime) -> Callable[[Record], bool]:
    """Whether a line is the start of a delivery of that instant."""
    return lambda record: isinstance(record, Started) and record.scheduled_for == at


def kinds(records: list[Record]) -> set[str]:
    """The kinds of breach that the judge finds."""
    return {breach.kind for breach in judged(records).breaches}


def judged(records: list[Record]) -> Verdict:
    return judge(records)
