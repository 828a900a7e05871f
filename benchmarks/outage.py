"""Outage: ten thousand minutely jobs come back after nine days; does on-time work notice, and how fast is catch-up?

The peer is Carillon itself in calm: the same jobs without a past, just before, on the same machine. Their firings are
spread over the minute, half of them by interval, half by cron; their misfire policies are mixed. Lag is clocked
by Postgres, the length of the catch-up by this process. Then, while the system goes on, ``manage.py audit_firings``
audits the ledger: the bench fails if a single firing of the nine days has no record, or has two.
"""

import json
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import cycle, islice
from typing import Any

from benchmarks import carillon
from benchmarks.report import Report, Row, percentile
from benchmarks.stage import Stage

JOBS = 10_000
AWAY = timedelta(days=9)
SECONDS = 150.0
#: Twice as long as the first burst takes, below.
MIN_SECONDS = 20.0
#: Not the warm-up's tenant: its jobs have no timeline, so their firings cannot be audited.
TENANT = "away"
MINUTE = timedelta(minutes=1)
#: Three in a hundred want every single firing.
POLICIES = ("fire_once",) * 33 + ("skip",) * 33 + ("backfill",) * 31 + ("fire_all",) * 3
_LATE = "SELECT count(*) FROM jobs_job WHERE next_fire_at <= clock_timestamp()"
_UNDECIDED = (
    "SELECT count(*) FROM jobs_catchup "
    "WHERE finished_at IS NULL AND policy <> 'fire_all' AND cursor < until_at"
)
#: The firings of the last minute are within their grace and all due at once; from here on that burst is over.
SETTLED = timedelta(seconds=10)
_LAGS = (
    "SELECT extract(epoch FROM started_at - due_at) * 1000, due_at > %(settled)s FROM jobs_trigger "
    "WHERE origin = 'schedule' AND due_at > %(since)s AND started_at IS NOT NULL"
)
_STARTED = (
    "SELECT count(*) FILTER (WHERE origin = 'schedule'), count(*) FILTER (WHERE origin = 'catchup') "
    "FROM jobs_trigger WHERE started_at > %s"
)
_PER_SECOND = (
    "SELECT count(*) FROM jobs_trigger WHERE origin = 'catchup' AND created_at > %s "
    "GROUP BY date_trunc('second', created_at) ORDER BY 1"
)


@dataclass(frozen=True)
class Audit:
    """How many instants were checked against the ledger, how many differed, and how long that took, with start-up."""

    instants: int
    differences: int
    seconds: float


@dataclass(frozen=True)
class Course:
    """The figures of ``SECONDS``, and the seconds until every job was back on time and every policy had decided.

    ``first_lags`` are those of firings due in the first ten seconds, ``lags`` those of all after them.
    """

    lags: list[float]
    first_lags: list[float]
    back_on_time: float
    decided: float
    on_time_per_second: float
    catch_up_per_second: float
    most_in_a_second: int
    audit: Audit


def measure(stage: Stage, *, scale: float) -> Report:
    """Run the bench; ``scale`` shrinks the number of jobs and the time it is watched."""
    jobs, seconds = int(JOBS * scale), max(MIN_SECONDS, SECONDS * min(1.0, scale))
    calm = _watch(stage, jobs, away=timedelta(), seconds=seconds)
    after = _watch(stage, jobs, away=AWAY, seconds=seconds)
    ours, theirs = percentile(after.lags, 0.99), percentile(calm.lags, 0.99)
    return Report(
        name="outage",
        title=f"Start lag of on-time firings of {jobs:,} minutely jobs, {seconds:g} s after nine days away",
        unit="ms, p99",
        ours=ours,
        peer=theirs,
        ratio=theirs / ours,
        columns=(
            *("p50 ms", "p99 ms", "on time /s", "catch-up /s", "back on time s", "decided s"),
            *("audited instants", "audit differences", "audit s"),
        ),
        rows=(_row("after nine days", after), _row("calm", calm)),
        more={
            "ours_p50_ms": round(percentile(after.lags, 0.5), 2),
            "peer_p50_ms": round(percentile(calm.lags, 0.5), 2),
            "ours_first_p99_ms": round(percentile(after.first_lags, 0.99), 2),
            "back_on_time_seconds": round(after.back_on_time, 2),
            "decided_seconds": round(after.decided, 2),
            "on_time_per_second": round(after.on_time_per_second, 1),
            "catch_up_per_second": round(after.catch_up_per_second, 1),
            "most_catch_up_in_a_second": after.most_in_a_second,
            "audited_instants": after.audit.instants,
            "audit_differences": after.audit.differences,
            "audit_seconds": round(after.audit.seconds, 2),
        },
    )


def _row(name: str, course: Course) -> Row:
    figures = (
        percentile(course.lags, 0.5),
        percentile(course.lags, 0.99),
        course.on_time_per_second,
        course.catch_up_per_second,
        course.back_on_time,
        course.decided,
    )
    audit = (f"{course.audit.instants:,}", str(course.audit.differences), f"{course.audit.seconds:.1f}")
    return Row(name, (*(f"{figure:.1f}" for figure in figures), *audit))


def _watch(stage: Stage, jobs: int, *, away: timedelta, seconds: float) -> Course:
    with carillon.running(stage):
        carillon.make_tenant(TENANT)
        began = time.monotonic()
        since = carillon.add_jobs(stage, _jobs(stage, jobs, away), tenant=TENANT)
        stage.must("every job back on time", lambda: not stage.value(_LATE))
        back_on_time = time.monotonic() - began
        stage.must("every policy heard", lambda: not stage.value(_UNDECIDED), timeout_seconds=600)
        decided = time.monotonic() - began
        until = began + seconds
        stage.must(
            "on-time work beside catch-up",
            lambda: time.monotonic() >= until,
            timeout_seconds=seconds + 60,
            poll_seconds=carillon.POLL_SECONDS,
        )
        watched = time.monotonic() - began
        on_time, caught_up = stage.db.execute(_STARTED, [since]).fetchone() or (0, 0)
        rows = stage.db.execute(_LAGS, {"since": since, "settled": since + SETTLED}).fetchall()
        each_second = [count for (count,) in stage.db.execute(_PER_SECOND, [since])]
        audit = _audit(stage)
    return Course(
        [float(lag) for lag, settled in rows if settled],
        [float(lag) for lag, settled in rows if not settled],
        back_on_time,
        decided,
        on_time / watched,
        caught_up / watched,
        max(each_second, default=0),
        audit,
    )


def _audit(stage: Stage) -> Audit:
    """Audit everything on record while beat and worker are at work. Raises ``BenchError`` when anything differs."""
    began = time.monotonic()
    argv = ("manage.py", "audit_firings", "--tenant", TENANT, "--json")
    with stage.actor("audit", argv, may_end=True) as audit:
        # With differences the command ends with 1, and the bench fails with the command's output.
        stage.must("auditing the ledger", audit.ended, timeout_seconds=600)
    report = json.loads(audit.log.read_text().splitlines()[-1])
    return Audit(report["instants"], report["differences"], time.monotonic() - began)


def _jobs(stage: Stage, count: int, away: timedelta) -> list[dict[str, Any]]:
    """Every other job by cron, at one of the minute's sixty seconds; the others by interval, at any time of it."""
    left: datetime = stage.value("SELECT clock_timestamp()") - away
    minute = left.replace(second=0, microsecond=0)
    jobs = []
    for number, policy in enumerate(islice(cycle(POLICIES), count)):
        place = MINUTE * number / count
        kind: dict[str, Any] = {"schedule_type": "interval", "interval": MINUTE}
        if number % 2:
            second = place // timedelta(seconds=1)
            place = timedelta(seconds=second)
            cron = {"cron_dialect": "quartz", "cron_expression": f"{second} * * * * ?"}
            kind = {"schedule_type": "cron", **cron}
        first = minute + place if minute + place > left else minute + place + MINUTE
        jobs.append({**kind, "misfire_policy": policy, "created_at": first - MINUTE, "next_fire_at": first})
    return jobs
