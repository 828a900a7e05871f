"""Celery's canvas on the stage's Redis, results in Redis: ``python -m …celery_canvas chord|chain COUNT`` publishes.

``BENCH_PEER`` picks the settings: ``default`` (Celery's own), or ``durable``: a task is acknowledged once it has ended,
and if its worker is gone, another worker gets it after as long as Carillon's lease.

The last task of a chord or a chain writes down when it began and how many results it was given.
"""

import os
import sys
import time

from celery import Celery, chain, chord

QUEUE = "bench-canvas"
#: The last task writes to this key: how many results there were, and when.
DONE = "bench-canvas-done"
VISIBILITY_SECONDS = 30
WORK_SECONDS = 0.01

app = Celery(
    "bench-canvas",
    broker=os.environ.get("BENCH_BROKER", "memory://"),
    backend=os.environ.get("BENCH_RESULTS", "cache+memory://"),
    set_as_current=False,  # the bench imports this module for its names; Carillon's own app stays the current one
)
app.conf.update(task_default_queue=QUEUE, broker_connection_retry_on_startup=True)
if os.environ.get("BENCH_PEER") == "durable":
    app.conf.update(
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        broker_transport_options={"visibility_timeout": VISIBILITY_SECONDS},
    )


@app.task(name="work")
def work(number: int) -> int:
    """A hundredth of a second, as ``noop`` with ``sleep_ms``."""
    time.sleep(WORK_SECONDS)
    return number


@app.task(name="step")
def step() -> None:
    """Do nothing."""


@app.task(name="gather")
def gather(results: list[int] | None) -> None:
    """The last task of a chord and of a chain."""
    found = len(results) if results is not None else 0
    app.backend.client.set(DONE, f"{found} {time.time():.6f}")


def publish(kind: str, count: int) -> None:
    """Publish ``count`` tasks and the one that follows them; print when that began."""
    print(time.time(), flush=True)
    if kind == "chord":
        chord(work.s(number) for number in range(count))(gather.s())
    else:
        chain(*(step.si() for _ in range(count)), gather.si(None))()


if __name__ == "__main__":
    app.set_current()
    publish(sys.argv[1], int(sys.argv[2]))
