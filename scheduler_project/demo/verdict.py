"""Judge a demo: compare every firing that the scenario promised with the receiver's log. Pure.

A firing is *delivered* when its last request got the receiver's final answer, *lost* otherwise. It is *late* when its
first request came more than ``LATEST_ARRIVAL`` after the nominal instant. It is *doubled* when a request came after the
final answer, an attempt number came twice, or it had two idempotency keys. Retries are none of these. Requests for
instants that were not promised, or before their time, are *phantoms*. A refused firing must be among the dead
letters. A demo that delivered nothing has shown nothing, and fails. A demo whose ledger differs from its schedules
fails, too.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median

from scheduler_project.demo.receiver import Arrival
from scheduler_project.demo.scenario import CreatedJob, Reception, expected_firings

LATEST_ARRIVAL = timedelta(seconds=2)
#: Firings younger than this are not judged yet: a firing that is on time may still have its retries ahead.
GRACE = timedelta(seconds=3)


@dataclass(frozen=True, kw_only=True)
class JobVerdict:
    """The figures of one job up to the horizon."""

    job: CreatedJob
    expected: int
    delivered: int
    lost: int
    doubled: int
    late: int
    phantom: int
    unsigned: int
    missing_dead_letters: int
    retries: int
    lags_seconds: Sequence[float]

    @property
    def faults(self) -> dict[str, int]:
        """The faults and how often each occurred; empty if there are none."""
        counts = {
            "lost": self.lost,
            "doubled": self.doubled,
            f"late by more than {LATEST_ARRIVAL.total_seconds():g} s": self.late,
            "not expected": self.phantom,
            "not signed": self.unsigned,
            "not among the dead letters": self.missing_dead_letters,
        }
        return {what: count for what, count in counts.items() if count}


@dataclass(frozen=True, kw_only=True)
class LedgerAudit:
    """The answer of ``manage.py audit_firings`` about every firing since the data directory was made."""

    passed: bool
    says: str


@dataclass(frozen=True, kw_only=True)
class DemoVerdict:
    """The demo as a whole."""

    jobs: Sequence[JobVerdict]
    ledger: LedgerAudit

    @property
    def passed(self) -> bool:
        """Something was delivered, nothing went wrong, and every firing is on record."""
        delivered = any(job.delivered for job in self.jobs)
        return delivered and self.ledger.passed and not any(job.faults for job in self.jobs)

    @property
    def summary(self) -> str:
        """One sentence for the last line."""
        expected, delivered = (
            sum(getattr(job, name) for job in self.jobs) for name in ("expected", "delivered")
        )
        faults: Counter[str] = Counter()
        for job in self.jobs:
            faults.update(job.faults)
        said = [f"{count} {what}" for what, count in faults.items()]
        if not delivered:
            said.append("nothing was delivered, so nothing is shown")
        if not self.ledger.passed:
            said.append("the ledger differs from the schedules")
        return f"{delivered} of {expected} firings delivered; " + (", ".join(said) or "all once and on time")


def judge(
    jobs: Iterable[CreatedJob],
    *,
    deliveries: Iterable[Arrival],
    dead_letters: Mapping[str, Collection[datetime]],
    horizon: datetime,
    ledger: LedgerAudit,
) -> DemoVerdict:
    """Judge every firing of ``jobs`` up to ``horizon``.

    ``deliveries`` are in the order of arrival; ``dead_letters`` holds, by job id, the instants of its dead triggers.
    Deliveries of other jobs, of firings after the horizon, and of runs by hand are ignored.
    """
    by_job: dict[str, list[Arrival]] = defaultdict(list)
    for delivery in deliveries:
        if delivery.scheduled and delivery.scheduled_for <= horizon:
            by_job[delivery.job_id].append(delivery)
    return DemoVerdict(
        jobs=[_judge_job(job, by_job[job.id], dead_letters.get(job.id, ()), horizon) for job in jobs],
        ledger=ledger,
    )


def _judge_job(
    job: CreatedJob, deliveries: Sequence[Arrival], dead_letters: Collection[datetime], horizon: datetime
) -> JobVerdict:
    expected = expected_firings(job, until=horizon)
    firings: dict[datetime, list[Arrival]] = defaultdict(list)
    for delivery in deliveries:
        if delivery.signed:
            firings[delivery.scheduled_for].append(delivery)
    seen = [firings[instant] for instant in expected if instant in firings]
    delivered = sum(_is_delivered(firing, job.sample.reception) for firing in seen)
    refused = job.sample.reception is Reception.REFUSED
    unforeseen = [firings[instant] for instant in firings.keys() - set(expected)]
    return JobVerdict(
        job=job,
        expected=len(expected),
        delivered=delivered,
        lost=len(expected) - delivered,
        doubled=sum(_is_doubled(firing, job.sample.reception) for firing in seen),
        late=sum(firing[0].lag_seconds > LATEST_ARRIVAL.total_seconds() for firing in seen),
        phantom=len(unforeseen) + sum(firing[0].lag_seconds < 0 for firing in seen),
        unsigned=sum(not delivery.signed for delivery in deliveries),
        missing_dead_letters=len(set(expected) - set(dead_letters)) if refused else 0,
        retries=sum(len(firing) - 1 for firing in seen),
        lags_seconds=[firing[0].lag_seconds for firing in seen],
    )


def _is_delivered(firing: Sequence[Arrival], reception: Reception) -> bool:
    return len(firing) >= reception.requests


def _is_doubled(firing: Sequence[Arrival], reception: Reception) -> bool:
    attempts = [delivery.attempt for delivery in firing]
    return (
        len(firing) > reception.requests
        or any(later <= earlier for earlier, later in pairwise(attempts))
        or len({delivery.idempotency_key for delivery in firing}) > 1
    )


def lag_figures(lags_seconds: Sequence[float]) -> tuple[float, float] | None:
    """Median and largest of the lags in seconds; None when there is none."""
    return (median(lags_seconds), max(lags_seconds)) if lags_seconds else None
