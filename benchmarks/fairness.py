"""Fairness: one tenant has a million triggers due; how late do nine small tenants and an urgent one start beside it?

Each small tenant has ten triggers due at once every five seconds, the urgent one a critical trigger every second. They
are watched for a minute in the midst of the flood, not to its end. A trigger that has not started when the watch ends
counts as late as it is then. No tenant has a cap, so only the shares protect them.

The peer is the same load beside a flood in raw Celery's one queue; that flood is large enough to outlast the watch.

Then the shares themselves are measured: three tenants of weights 1 : 2 : 3 have equally many triggers due of each of
the four priorities, and starts are counted while all tenants still have some of each.
"""

import time
from datetime import timedelta

from benchmarks import carillon, fair_shares
from benchmarks.peers.schedulers import stamps
from benchmarks.report import Report, Row, percentile
from benchmarks.stage import WORKER_PROCESSES, BenchError, Stage

FLOOD = 1_000_000
WATCH_SECONDS = 60.0
LEAD = timedelta(seconds=3)
SMALL = tuple(f"small-{n}" for n in range(1, 10))
EACH, EVERY = 10, timedelta(seconds=5)
SECOND = timedelta(seconds=1)
#: More than raw Celery executes meanwhile on any machine; the rest of a million would only wait behind.
PEER_FLOOD_PER_SECOND = 4_000
#: Below this scale a bench only shows that it runs, and the flood may run dry.
SMALL_SCALE = 0.2
FIFO = "benchmarks.peers.queues.celery_fifo"


def measure(stage: Stage, *, scale: float) -> Report:
    """Run the bench; ``scale`` shrinks the flood and the watch."""
    flood, seconds = int(FLOOD * scale), max(6.0, WATCH_SECONDS * min(1.0, scale))
    ours, drained, left = _ours(stage, flood, seconds)
    if not left and scale >= SMALL_SCALE:
        raise BenchError("the flood ran dry before the watch ended")
    theirs = _peer(stage, seconds)
    found = fair_shares.measure(stage, scale=scale)
    worst = max(percentile(ours[who], 0.99) for who in ("small", "critical"))
    peer = max(percentile(theirs[who], 0.99) for who in ("small", "critical"))
    return Report(
        name="fairness",
        title=f"Start lag beside {flood:,} due triggers of another tenant, {seconds:g} s",
        unit="ms, p99, the worse of small tenants and critical triggers",
        ours=worst,
        peer=peer,
        ratio=peer / worst,
        columns=("p50 ms", "p99 ms", "firings"),
        rows=(
            _row("Carillon: nine small tenants", ours["small"]),
            _row("Carillon: critical, one a second", ours["critical"]),
            _row("Celery, one queue: small", theirs["small"]),
            _row("Celery, one queue: critical", theirs["critical"]),
            *found.rows(),
        ),
        more={
            "small_p50_ms": round(percentile(ours["small"], 0.5), 1),
            "small_p99_ms": round(percentile(ours["small"], 0.99), 1),
            "critical_p50_ms": round(percentile(ours["critical"], 0.5), 1),
            "critical_p99_ms": round(percentile(ours["critical"], 0.99), 1),
            "peer_small_p99_ms": round(percentile(theirs["small"], 0.99), 1),
            "peer_critical_p99_ms": round(percentile(theirs["critical"], 0.99), 1),
            "watched_seconds": seconds,
            "flood": flood,
            "flood_left": left,
            "flood_per_second": round(drained / seconds, 1),
            **found.json(),
        },
    )


def _row(name: str, lags: list[float]) -> Row:
    return Row(name, (f"{percentile(lags, 0.5):,.0f}", f"{percentile(lags, 0.99):,.0f}", f"{len(lags):,}"))


def _ours(stage: Stage, flood: int, seconds: float) -> tuple[dict[str, list[float]], int, int]:
    """Lags by kind of tenant; how much of the flood started meanwhile, and how much was left."""
    stage.empty()
    for slug in ("flood", "urgent", *SMALL):
        carillon.make_tenant(slug)
    began = carillon.add_due_triggers(stage, flood, tenant="flood").first_due_at
    stage.say("analyzing the flood")
    stage.settle()
    before = carillon.attempts(stage)
    with carillon.processes(stage):
        stage.must("Carillon: the flood begins", lambda: carillon.attempts(stage) > before)
        bursts = {"every": EVERY, "spread": timedelta(), "first_in": LEAD}
        firsts = [carillon.add_fleet(stage, EACH, tenant=slug, **bursts) for slug in SMALL]
        urgent = {"every": SECOND, "first_in": LEAD, "tenant": "urgent", "priority": 0}
        since = max(carillon.add_fleet(stage, 1, **urgent), *firsts)
        stage.pause("Carillon: small tenants beside a flood", LEAD.total_seconds() + seconds)
        until = stage.value("SELECT clock_timestamp()")
        kinds = {"small": SMALL, "critical": ("urgent",)}
        lags = {
            kind: carillon.lags(stage, *slugs, since=min(firsts), until=until)
            for kind, slugs in kinds.items()
        }
        drained = carillon.started(stage, "flood", since=since, until=until)
        return lags, drained, flood - carillon.started(stage, "flood", since=began, until=until)


def _peer(stage: Stage, seconds: float) -> dict[str, list[float]]:
    stage.empty()
    environment = {"BENCH_BROKER": stage.broker_url, "BENCH_REDIS": stage.redis_url}
    worker = ("-m", "celery", "-A", FIFO, "worker", "-c", str(WORKER_PROCESSES))
    flood = str(int(PEER_FLOOD_PER_SECOND * (seconds + LEAD.total_seconds())))
    with (
        stage.actor("fifo-worker", worker, environment=environment),
        stage.actor(
            "fifo-publisher", ("-m", FIFO, flood, str(seconds)), environment=environment, may_end=True
        ) as publisher,
    ):
        stage.must("Celery: small tenants beside a flood", publisher.ended, timeout_seconds=seconds + 120)
        until = time.time()
        dues = [line.split() for line in publisher.log.read_text().splitlines() if line[:1] in "sc"]
        starts = {entry: list(at) for entry, at in stamps.by_entry(stage).items()}
    lags: dict[str, list[float]] = {"small": [], "critical": []}
    for kind, entry, due_at in dues:
        start = starts.get(entry, [until])[0]
        lags[kind].append(1000 * (start - float(due_at)))
    return lags
