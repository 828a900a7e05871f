"""Throughput: no-op triggers from registered to succeeded, durable in Postgres, beside raw Celery and procrastinate.

All use the same servers and two worker processes, in turns, so that a busy moment of the machine strikes all; medians
are compared. Carillon is clocked by Postgres from the moment the jobs became visible and due (nothing materialized yet)
to the last recorded success. It is clocked once more for triggers that were materialized before they fell due, and
once more without batching: one trigger a message, and each claim and each finish a durable commit of its own. A third
time its worker is behind PgBouncer by transaction, where no plan is kept. Celery is clocked from the first publish to
the empty queue, while its publisher runs, as it would in practice. procrastinate is clocked by its own events, from the
one commit that deferred all to the last success.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from statistics import median

from benchmarks import carillon
from benchmarks.peers.queues import runs as queues
from benchmarks.report import Report, Row
from benchmarks.stage import WORKER_PROCESSES, BenchError, Stage
from stage.pgbouncer import MISSING, PROGRAM

ROUNDS = 3
#: Below this scale one round shows that everything runs.
SMALL = 0.2
TRIGGERS, UNBATCHED_TRIGGERS = 60_000, 6_000
LEAD = timedelta(seconds=25)
END_TO_END = "Carillon, end to end"
AHEAD = "Carillon, materialized ahead"
POOLED = "Carillon, end to end behind PgBouncer"
UNBATCHED = "Carillon, unbatched"
DEFAULT = "Celery, default settings"
TUNED = "Celery, tuned transport"
PROCRASTINATE = "procrastinate"
RESULTS = "Celery, results in Postgres"


def measure(stage: Stage, *, scale: float) -> Report:
    """Run the bench; ``scale`` shrinks the counts."""
    rounds = ROUNDS if scale >= SMALL else 1
    count, unbatched = int(TRIGGERS * scale), int(UNBATCHED_TRIGGERS * scale)
    rates: dict[str, list[float]] = {}

    def note(name: str, rate: float) -> None:
        rates.setdefault(name, []).append(rate)

    if not PROGRAM:
        stage.say(f"left out: {POOLED}, as {MISSING}")
    for _ in range(rounds):
        with carillon.running(stage):
            note(END_TO_END, _end_to_end(stage, count))
            note(AHEAD, _materialized_ahead(stage, count))
        if PROGRAM:
            with stage.pooled() as environment, carillon.running(stage, environment=environment):
                note(POOLED, _end_to_end(stage, count))
        note(DEFAULT, queues.celery(stage, "default", int(15_000 * scale)))
        note(TUNED, queues.celery(stage, "tuned", int(30_000 * scale)))
        with carillon.running(stage, environment=carillon.WITHOUT_BATCHING):
            note(UNBATCHED, _end_to_end(stage, unbatched))
        note(PROCRASTINATE, queues.procrastinate(stage, int(6_000 * scale)))
    note(RESULTS, queues.celery(stage, "results", int(3_000 * scale)))
    return _report(rates, count)


def _report(rates: Mapping[str, list[float]], count: int) -> Report:
    ours, first = median(rates[END_TO_END]), median(rates[DEFAULT])
    figures: tuple[Callable[[list[float]], float], ...] = (median, min, max)
    return Report(
        name="throughput",
        title=f"No-op triggers per second ({WORKER_PROCESSES} worker processes)",
        unit="per second",
        ours=ours,
        peer=first,
        ratio=ours / first,
        columns=("median", "lowest", "highest", "to Celery's default"),
        rows=tuple(
            Row(name, (*(f"{of(found):,.0f}" for of in figures), f"{median(found) / first:.2f}"))
            for name, found in rates.items()
        ),
        more={
            "triggers": count,
            "ratio_tuned": round(ours / median(rates[TUNED]), 2),
            "ratio_procrastinate": round(ours / median(rates[PROCRASTINATE]), 2),
            "ratio_unbatched_to_default": round(median(rates[UNBATCHED]) / first, 2),
            **({"ratio_pooled_to_direct": round(median(rates[POOLED]) / ours, 2)} if POOLED in rates else {}),
            "rates": {name: [round(rate) for rate in found] for name, found in rates.items()},
        },
    )


def _end_to_end(stage: Stage, count: int) -> float:
    """From jobs becoming visible and due, to the last success."""
    batch = carillon.add_one_time_jobs(stage, count, due_in=timedelta())
    return count / carillon.drain(stage, batch, what=f"Carillon: {count:,} triggers end to end")


def _materialized_ahead(stage: Stage, count: int) -> float:
    """From the instant at which materialized triggers fall due, to the last success."""
    batch = carillon.add_one_time_jobs(stage, count, due_in=LEAD)
    stage.must("Carillon: materializing ahead", lambda: carillon.materialized(stage))
    if stage.value("SELECT clock_timestamp()") > batch.first_due_at:
        raise BenchError("materializing took longer than the lead it had")
    return count / carillon.drain(stage, batch, what=f"Carillon: {count:,} triggers, materialized ahead")
