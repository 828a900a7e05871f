"""Slow Redis: 300 tenants with a rate limit and one without, while Redis answers late; which of them notice?

A proxy before Redis holds back all traffic, half of the delay each way. Every rated tenant has a firing twice a second,
all at the same instants, and a rate far above that: dispatch must only ask Redis. The unrated tenant has twenty firings
a second between them. A leader whose workers take no time is watched for some seconds at each delay. The peer is no
delay, behind the same proxy.
"""

import random
from dataclasses import dataclass
from datetime import datetime, timedelta

from benchmarks import carillon
from benchmarks.carillon.leader import failed, leading
from benchmarks.report import Report, Row, percentile
from benchmarks.stage import Stage
from chaos.stage.proxy import Proxies, Weather

DELAYS_MS = (0, 20, 200, 2_000)
RATED, MIN_RATED = 300, 10
EVERY = timedelta(milliseconds=500)
RATE = {"rate_per_second": 10_000, "rate_burst": 10_000}
UNRATED_PER_SECOND = 20
WATCH_SECONDS, MIN_SECONDS = 20.0, 6.0
LEAD = timedelta(seconds=1)
UNRATED = "unrated"


@dataclass(frozen=True)
class Course:
    """Triggers that a leader dispatched a second of the watch, and the unrated tenant's lags (ms), at one delay."""

    delay_ms: int
    per_second: float
    due_per_second: float
    turn_worst: float
    failed: int
    lags: list[float]

    def row(self) -> Row:
        figures = (
            f"{self.per_second:,.0f} of {self.due_per_second:,.0f}",
            f"{self.turn_worst:,.0f}",
            f"{self.failed}",
            f"{percentile(self.lags, 0.5):,.0f}",
            f"{percentile(self.lags, 0.99):,.0f}",
        )
        return Row(f"{self.delay_ms:,} ms", figures)

    def json(self) -> dict[str, float]:
        return {
            "per_second": round(self.per_second, 1),
            "due_per_second": round(self.due_per_second, 1),
            "turn_worst_ms": round(self.turn_worst, 1),
            "turns_failed": self.failed,
            "unrated_p50_ms": round(percentile(self.lags, 0.5), 1),
            "unrated_p99_ms": round(percentile(self.lags, 0.99), 1),
        }


def measure(stage: Stage, *, scale: float) -> Report:
    """Run the bench; ``scale`` shrinks the tenants and the watches."""
    rated = max(MIN_RATED, int(RATED * min(1.0, scale)))
    seconds = max(MIN_SECONDS, WATCH_SECONDS * min(1.0, scale))
    found = {delay_ms: _course(stage, delay_ms, rated, seconds) for delay_ms in DELAYS_MS}
    worst = max(found.values(), key=lambda course: percentile(course.lags, 0.99))
    ours, peer = percentile(worst.lags, 0.99), percentile(found[0].lags, 0.99)
    return Report(
        name="slow_redis",
        title=f"{rated} tenants with a rate and one without, {seconds:g} s at each delay of Redis",
        unit=f"ms, p99 lag of the unrated tenant at {worst.delay_ms:,} ms, the worst; peer: at no delay",
        ours=ours,
        peer=peer,
        ratio=peer / ours,
        columns=("dispatched per s", "longest turn ms", "failed turns", "unrated p50 ms", "p99 ms"),
        rows=tuple(course.row() for course in found.values()),
        more={
            "rated_tenants": rated,
            "watched_seconds": seconds,
            "by_delay_ms": {str(delay_ms): course.json() for delay_ms, course in found.items()},
        },
    )


def _course(stage: Stage, delay_ms: int, rated: int, seconds: float) -> Course:
    stage.empty()
    what = f"Redis {delay_ms:,} ms late"
    with Proxies(rng=random.Random(1)) as proxies:
        port = proxies.add("leader", "redis", stage.redis_socket)
        proxies.set("leader", "redis", Weather(delay=delay_ms / 2000))
        with leading(stage, environment={"REDIS_URL": f"redis://127.0.0.1:{port}/0"}) as leader:
            since = _add_firings(stage, rated, seconds)
            stage.pause(what, seconds + LEAD.total_seconds())
            until = min(since + timedelta(seconds=seconds), stage.value("SELECT clock_timestamp()"))
            lags = carillon.lags(stage, f"{UNRATED}-0", since=since, until=until)
        turns = leader.turns()
    return Course(
        delay_ms,
        sum(turn.dispatched for turn in turns) / seconds,
        rated / EVERY.total_seconds() + UNRATED_PER_SECOND,
        max(turn.ms for turn in turns),
        failed(turns),
        lags,
    )


def _add_firings(stage: Stage, rated: int, seconds: float) -> datetime:
    """Add firings from a second from now on. Returns the instant of the first one."""
    span = timedelta(seconds=seconds)
    carillon.add_backlog(
        stage,
        "rated",
        rated,
        jobs_each=1,
        triggers_each=int(span / EVERY),
        due_in=LEAD + span,
        apart=EVERY,
        quotas=RATE,
    )
    jobs = int(UNRATED_PER_SECOND * seconds)
    return carillon.add_backlog(stage, UNRATED, 1, jobs_each=jobs, triggers_each=1, due_in=LEAD, spread=span)
