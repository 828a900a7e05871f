"""Webhook: signed, durable deliveries to a receiver, beside a bare aiohttp loop against the same receiver process.

The bare loop stores nothing, signs nothing and checks nothing: one process, as many requests at a time as Carillon's
workers have. A pair of such loops is shown too. Carillon's deliveries run from registered to recorded in Postgres; the
check for private addresses stays on, and lets loopback through by ``CARILLON_WEBHOOK_ALLOW_NETWORKS``. The receiver
must have counted every one, each with its signature.
"""

import json
from contextlib import ExitStack
from datetime import timedelta
from statistics import median
from typing import Any

from benchmarks import carillon
from benchmarks.peers.http import receiver
from benchmarks.peers.http.loop import BODY, Plan, Times
from benchmarks.report import Report, Row
from benchmarks.stage import WORKER_PROCESSES, BenchError, Stage

ROUNDS, SMALL = 3, 0.2
REQUESTS = 10_000
#: The requests that two workers have under way: each takes a message of up to 100 webhooks.
CONCURRENCY = 100 * WORKER_PROCESSES
LEAD = timedelta(seconds=6)
ALLOWED = {"CARILLON_WEBHOOK_ALLOW_NETWORKS": "127.0.0.0/8"}
END_TO_END, AHEAD = "Carillon, end to end", "Carillon, materialized ahead"
ONE_LOOP, TWO_LOOPS = "bare loop", "two bare loops"


def measure(stage: Stage, *, scale: float) -> Report:
    """Run the bench; ``scale`` shrinks the counts."""
    count = int(REQUESTS * scale)
    rates: dict[str, list[float]] = {END_TO_END: [], AHEAD: [], ONE_LOOP: [], TWO_LOOPS: []}
    with stage.server("receiver", receiver.argv) as url:
        for _ in range(ROUNDS if scale >= SMALL else 1):
            rates[ONE_LOOP].append(_bare(stage, url, count, loops=1))
            rates[TWO_LOOPS].append(_bare(stage, url, count, loops=2))
            for name, rate in _ours(stage, url, count).items():
                rates[name].append(rate)
    ours, theirs = median(rates[END_TO_END]), median(rates[ONE_LOOP])
    return Report(
        name="webhook",
        title=f"Webhooks per second ({CONCURRENCY} at a time)",
        unit="per second",
        ours=ours,
        peer=theirs,
        ratio=ours / theirs,
        columns=("median", "lowest", "highest", "to the bare loop"),
        rows=tuple(
            Row(
                name,
                (*(f"{of(found):,.0f}" for of in (median, min, max)), f"{median(found) / theirs:.2f}"),
            )
            for name, found in rates.items()
        ),
        more={
            "requests": count,
            "ratio_ahead": round(median(rates[AHEAD]) / theirs, 3),
            "ratio_to_two_loops": round(ours / median(rates[TWO_LOOPS]), 3),
            "rates": {name: [round(rate) for rate in found] for name, found in rates.items()},
        },
    )


def _bare(stage: Stage, url: str, count: int, *, loops: int) -> float:
    """Requests a second of ``loops`` processes together; the slowest one stops the clock."""
    share = count // loops
    argv = Plan(url, calls=share, clients=CONCURRENCY // loops).argv()
    with ExitStack() as actors:
        runners = [actors.enter_context(stage.actor(f"loop-{n}", argv, may_end=True)) for n in range(loops)]
        stage.must(f"{loops} bare loops", lambda: all(runner.ended() for runner in runners))
        return share * loops / max(Times.printed(runner.log.read_text()).seconds for runner in runners)


def _ours(stage: Stage, url: str, count: int) -> dict[str, float]:
    job: dict[str, Any] = {"job_type": "webhook", "payload": json.dumps({"url": url, "body": BODY})}
    with carillon.running(stage, environment=ALLOWED):
        warm_up = carillon.add_one_time_jobs(stage, 100, due_in=timedelta(), **job)
        carillon.drain(stage, warm_up, what="Carillon: first webhooks")
        before = _seen(url)
        batch = carillon.add_one_time_jobs(stage, count, due_in=timedelta(), **job)
        end_to_end = carillon.drain(stage, batch, what=f"Carillon: {count:,} webhooks end to end")
        batch = carillon.add_one_time_jobs(stage, count, due_in=LEAD, **job)
        stage.must("Carillon: materializing ahead", lambda: carillon.materialized(stage))
        ahead = carillon.drain(stage, batch, what=f"Carillon: {count:,} webhooks, materialized ahead")
        after = _seen(url)
    for what in ("requests", "signed"):
        if after[what] - before[what] != 2 * count:
            raise BenchError(f"the receiver saw {after[what] - before[what]:,} {what}, not {2 * count:,}")
    return {END_TO_END: count / end_to_end, AHEAD: count / ahead}


def _seen(url: str) -> dict[str, int]:
    return {"requests": 0, "signed": 0} | receiver.told(url)
