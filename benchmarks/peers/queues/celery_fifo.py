"""Raw Celery with one queue, as most projects have it: ``python -m …celery_fifo FLOOD SECONDS`` publishes.

First it publishes a flood of no-ops. Then, for ``SECONDS``, it publishes the tasks that nine small tenants and an
urgent one would send beside the flood: each stamps its start.
"""

import os
import sys
import time

from celery import Celery

from benchmarks.peers.schedulers import stamps

BURST, BURST_EVERY_SECONDS = 90, 5

app = Celery("bench-fifo", broker=os.environ.get("BENCH_BROKER", "memory://"))
app.conf.update(
    task_default_queue="bench-fifo", task_ignore_result=True, broker_connection_retry_on_startup=True
)


@app.task(name="noop")
def noop() -> None:
    """Do nothing."""


app.task(name="stamp")(stamps.stamp)


def flood(count: int) -> None:
    """Publish ``count`` no-ops as fast as kombu can."""
    with app.producer_pool.acquire() as producer, producer.batch(max_size=1000):
        for _ in range(count):
            noop.apply_async(producer=producer, retry=False)


def trickle(seconds: float) -> None:
    """Publish the tasks due in each second; print the kind, the name and the due time of each."""
    began, number = time.time(), 0
    for second in range(int(seconds)):
        due_at = began + second
        time.sleep(max(0.0, due_at - time.time()))
        for kind in ["critical"] + ["small"] * (BURST if second % BURST_EVERY_SECONDS == 0 else 0):
            number += 1
            app.send_task("stamp", (f"{kind}-{number}",))
            print(f"{kind} {kind}-{number} {due_at:.6f}", flush=True)


if __name__ == "__main__":
    flood(int(sys.argv[1]))
    trickle(float(sys.argv[2]))
