"""Workflows: fan-out and fan-in beside as many plain firings, the steps of a chain, and a fan-in among killed workers.

A fan consists of tasks that the definition names, up to a thousand, or of the items of a list. Tasks and plain no-ops
take turns on the same processes; the ratio is that of their rates. A chain runs in calm, alone: the bench measures the
times of its steps, the parts of these times, and the CPU time of a step. Its peer is Celery's chain on the same broker.
Then a thousand tasks fan in while two workers are killed with ``kill -9``, one at a third and one at two thirds of the
tasks. Its peer is Celery's chord, with default settings and as durable as it can be made.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from statistics import median
from typing import Any

from benchmarks import carillon
from benchmarks.carillon import graphs
from benchmarks.peers.queues import celery_canvas as canvas
from benchmarks.report import Report, Row, percentile
from benchmarks.stage import WORKER_PROCESSES, BenchError, Stage
from benchmarks.stage.processor import processor_time
from benchmarks.stage.victim import Victim
from stage.processes import BEAT, CELERY

ROUNDS, CHAIN_ROUNDS, KILL_ROUNDS, SMALL = 3, 5, 5, 0.2
#: The first and the last task of a fan are not counted here; a version has up to 1,000 tasks.
RUNS, WIDTH = 10, 998
LENGTH = 100
KILL_WIDTH = 998
#: The share of the tasks that have ended when a worker is killed.
KILLS = (1 / 3, 2 / 3)
#: Three leases.
GIVEN_UP_SECONDS = 90.0
MODULE = "benchmarks.peers.queues.celery_canvas"
OURS, DEFAULT, DURABLE = "Carillon", "Celery, default settings", "Celery, acknowledged late"


@dataclass(frozen=True)
class Fans:
    """Tasks a second of fans, and of as many plain no-ops after each."""

    fans: list[float]
    plain: list[float]

    @property
    def ratio(self) -> float:
        """The median of the rounds' ratios."""
        return median(one / other for one, other in zip(self.fans, self.plain, strict=True))


@dataclass(frozen=True)
class Chain:
    """The steps of chains, in ms, and the CPU ms of a step by process."""

    whole: list[float]
    parts: dict[str, float]
    processor: dict[str, float]


@dataclass(frozen=True)
class Round:
    """A fan-in among killed workers: seconds until the last task had all results, or None if it never had them."""

    seconds: float | None


def measure(stage: Stage, *, scale: float) -> Report:
    """Run the bench; ``scale`` shrinks counts and rounds."""
    full = scale >= SMALL
    width, length = max(4, int(WIDTH * scale)), max(4, int(LENGTH * scale))
    with carillon.running(stage) as (beat, worker):
        rounds, count = ROUNDS if full else 1, RUNS * (width + 2)
        fans = _fans(stage, graphs.fan(width), RUNS, count, rounds=rounds)
        mapped = _fans(stage, graphs.mapped(), 1, count, rounds=rounds, run_input={"items": [*range(count)]})
        pids = {"beat": beat.process.pid, "worker": worker.process.pid}
        ours = _chains(stage, length, rounds=CHAIN_ROUNDS if full else 1, pids=pids)
    theirs = [_celery_chain(stage, length) for _ in range(CHAIN_ROUNDS if full else 1)]
    killed: dict[str, list[Round]] = defaultdict(list)
    for _ in range(KILL_ROUNDS if full else 1):
        killed[OURS].append(_killed(stage, max(12, int(KILL_WIDTH * scale))))
        for name, kind in ((DEFAULT, "default"), (DURABLE, "durable")):
            killed[name].append(_celery_killed(stage, kind, max(12, int(KILL_WIDTH * scale))))
    return _report(width, fans, mapped, ours, theirs, killed)


def _report(
    width: int,
    fans: Fans,
    mapped: Fans,
    ours: Chain,
    theirs: list[float],
    killed: Mapping[str, list[Round]],
) -> Report:
    count = RUNS * (width + 2)
    rates = {
        f"tasks a second, {RUNS} x {width:,}": fans.fans,
        f"a map's, {count:,}": mapped.fans,
        "plain firings a second": fans.plain + mapped.plain,
    }
    return Report(
        name="workflows",
        title=f"Fan-out and fan-in ({WORKER_PROCESSES} worker processes), a chain's steps, and kills in the midst",
        unit="per second",
        ours=median(fans.fans),
        peer=median(fans.plain),
        ratio=fans.ratio,
        columns=("median", "lowest", "highest", "completed"),
        rows=(
            *(Row(name, (*_three(found, ".0f"), "")) for name, found in rates.items()),
            Row("a chain's step, ms", (*_three(ours.whole, ".1f"), "")),
            Row("Celery's chain, ms a step", (*_three(theirs, ".1f"), "")),
            *(Row(f"kills: {name}, s", _kills(rounds)) for name, rounds in killed.items()),
        ),
        more={
            "tasks": count,
            "map_ratio": round(mapped.ratio, 2),
            "rates": {name: [round(rate) for rate in found] for name, found in rates.items()},
            "chain_p50_ms": round(percentile(ours.whole, 0.5), 2),
            "chain_p99_ms": round(percentile(ours.whole, 0.99), 2),
            "chain_parts_p50_ms": {name: round(value, 2) for name, value in ours.parts.items()},
            "chain_processor_ms": {name: round(value, 2) for name, value in ours.processor.items()},
            "celery_chain_ms": round(median(theirs), 2),
            "completed": {
                name: [sum(each.seconds is not None for each in rounds), len(rounds)]
                for name, rounds in killed.items()
            },
        },
    )


def _three(found: list[float], shape: str) -> tuple[str, ...]:
    return tuple(format(of(found), shape) for of in (median, min, max))


def _kills(rounds: list[Round]) -> tuple[str, ...]:
    seconds = [each.seconds for each in rounds if each.seconds is not None]
    figures = _three(seconds, ".1f") if seconds else ("", "", "")
    return (*figures, f"{len(seconds)} of {len(rounds)}")


def _fans(
    stage: Stage, definition: dict[str, Any], begun: int, count: int, *, rounds: int, run_input: Any = None
) -> Fans:
    """``begun`` runs begin at once, with ``count`` tasks in all; then as many plain no-ops run."""
    workflow = graphs.make_workflow(definition)
    found = Fans([], [])
    for _ in range(rounds):
        stage.settle()
        runs = graphs.begin(workflow, begun, run_input=run_input)
        _must_end(stage, f"Carillon: {count:,} tasks of {definition['name']}", runs)
        found.fans.append(count / graphs.seconds(stage, runs))
        batch = carillon.add_one_time_jobs(stage, count, due_in=timedelta())
        found.plain.append(count / carillon.drain(stage, batch, what=f"Carillon: {count:,} plain firings"))
    return found


def _must_end(stage: Stage, what: str, runs: list[Any]) -> None:
    stage.must(
        what, lambda: graphs.ended(stage, runs), timeout_seconds=300, poll_seconds=carillon.POLL_SECONDS
    )
    if unlike := graphs.unlike(stage, runs):
        raise BenchError(f"{what}: {unlike} tasks did not succeed")


def _chains(stage: Stage, length: int, *, rounds: int, pids: Mapping[str, int]) -> Chain:
    """One chain after the other in calm; the first is not counted."""
    workflow = graphs.make_workflow(graphs.chain(length))
    _must_end(stage, "Carillon: a first chain", graphs.begin(workflow))
    found: list[tuple[float, float, float, float]] = []
    with processor_time(stage, **pids) as taken:
        for number in range(rounds):
            runs = graphs.begin(workflow)
            _must_end(stage, f"Carillon: chain {number + 1} of {rounds}", runs)
            found += graphs.steps(stage, runs[0])
    names = ("until ready", "until queued", "until started", "until its end is on record")
    parts = {name: median(step[n] for step in found) for n, name in enumerate(names)}
    processor = {name: 1000 * seconds / (rounds * length) for name, seconds in taken.items()}
    return Chain([sum(step) for step in found], parts, processor)


def _celery_chain(stage: Stage, length: int) -> float:
    """The ms that a step of Celery's chain takes, on average."""
    with _canvas(stage, "default"):
        _published(stage, "default", "chain", 2)
        _await_done(stage, "Celery: a first chain")
        stage.redis.delete(canvas.DONE)
        began = _published(stage, "default", "chain", length)
        if (done := _await_done(stage, f"Celery: a chain of {length}")) is None:
            raise BenchError("Celery's chain did not come to its end")
        return 1000 * (done[1] - began) / length


def _killed(stage: Stage, width: int) -> Round:
    """A fan-in of Carillon's among workers of one process each, two of which are killed."""
    stage.empty()
    carillon.make_tenant(carillon.TENANT)
    workflow = graphs.make_workflow(graphs.fan(width, sleep_ms=int(1000 * canvas.WORK_SECONDS)))
    worker = (*CELERY, "worker", "-c", "1", "--without-gossip", "--without-mingle")
    with ExitStack() as processes:
        victims = [
            processes.enter_context(Victim(stage, f"worker{n}", (*worker, "-n", f"worker{n}@%h")))
            for n in (1, 2)
        ]
        processes.enter_context(stage.actor("beat", BEAT))
        warm_up = carillon.add_one_time_jobs(stage, carillon.WARM_UP, due_in=timedelta())
        carillon.drain(stage, warm_up, what="warming up beat and workers")
        [run] = runs = graphs.begin(workflow)
        _strike(stage, OURS, victims, width, done=lambda: graphs.tasks_ended(stage, run))
        if not stage.wait(
            f"{OURS}: the fan-in", lambda: graphs.ended(stage, runs), timeout_seconds=GIVEN_UP_SECONDS
        ):
            return Round(None)
        return Round(None if graphs.unlike(stage, runs) else graphs.seconds(stage, runs))


def _celery_killed(stage: Stage, kind: str, width: int) -> Round:
    """The same with Celery's chord."""
    with _canvas(stage, kind) as victims:
        _published(stage, kind, "chord", 8)
        if _await_done(stage, f"Celery, {kind}: a first chord") is None:
            raise BenchError("Celery's first chord did not come to its end")
        stage.redis.delete(canvas.DONE)
        began = _published(stage, kind, "chord", width)
        _strike(stage, f"Celery, {kind}", victims, width, done=lambda: _gathered(stage))
        done = _await_done(stage, f"Celery, {kind}: the fan-in")
        return Round(done[1] - began if done and done[0] == width else None)


def _strike(stage: Stage, name: str, victims: list[Victim], width: int, *, done: Callable[[], int]) -> None:
    """Kill one worker after the other, each as soon as its share of the tasks has ended."""
    for victim, share in zip(victims, KILLS, strict=True):
        if not stage.wait(
            f"{name}: {share:.0%} of {width:,} to end",
            lambda at=share * width: done() >= at,  # type: ignore[misc]
            timeout_seconds=GIVEN_UP_SECONDS,
        ):
            return  # too many of them are lost already
        victim.kill()


@contextmanager
def _canvas(stage: Stage, kind: str) -> Iterator[list[Victim]]:
    """Two Celery workers of one process each, on an emptied Redis, for the length of the block."""
    stage.empty()
    worker = ("-m", "celery", "-A", MODULE, "worker", "-c", "1")
    with ExitStack() as processes:
        yield [
            processes.enter_context(
                Victim(stage, f"canvas{n}", (*worker, "-n", f"canvas{n}@%h"), environment=_peer(stage, kind))
            )
            for n in range(1, WORKER_PROCESSES + 1)
        ]


def _peer(stage: Stage, kind: str) -> dict[str, str]:
    return {"BENCH_PEER": kind, "BENCH_BROKER": stage.broker_url, "BENCH_RESULTS": stage.broker_url}


def _published(stage: Stage, kind: str, what: str, count: int) -> float:
    """Publish from a process of its own. Returns when it began, in seconds since 1970."""
    argv = ("-m", MODULE, what, str(count))
    with stage.actor("publisher", argv, environment=_peer(stage, kind), may_end=True) as publisher:
        stage.must(f"Celery: publishing a {what} of {count:,}", publisher.ended)
        return float(publisher.log.read_text().split()[0])


def _await_done(stage: Stage, what: str) -> tuple[int, float] | None:
    """How many results the last task was given, and when; None if it never began."""
    if not stage.wait(what, lambda: bool(stage.redis.exists(canvas.DONE)), timeout_seconds=GIVEN_UP_SECONDS):
        return None
    count, at = stage.redis.get(canvas.DONE).split()
    return int(count), float(at)


def _gathered(stage: Stage) -> int:
    """How many results a chord has so far, or had when its last task began."""
    if done := stage.redis.get(canvas.DONE):
        return int(done.split()[0])
    return sum(stage.redis.zcard(key) for key in stage.redis.scan_iter("celery-taskset-meta-*.j"))
