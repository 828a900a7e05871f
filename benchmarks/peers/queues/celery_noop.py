"""Plain Celery no-ops on the stage's Redis: an app of its own; ``python -m …celery_noop COUNT`` publishes.

``BENCH_PEER`` picks the settings: ``default`` (Celery's own, results off), ``tuned`` (the transport options Carillon
uses, a large prefetch), ``results`` (Celery's own, and each outcome in Postgres through django-celery-results: the
nearest to Carillon's records).
"""

import os
import sys
import time

import django
from celery import Celery

KIND = os.environ.get("BENCH_PEER", "default")
QUEUE = "bench-peer"

if KIND == "results":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "scheduler_project.settings")
    django.setup()

app = Celery(
    "bench-peer",
    broker=os.environ.get("BENCH_BROKER", "memory://"),
    backend="django-db" if KIND == "results" else None,
)
app.conf.update(
    task_default_queue=QUEUE, task_ignore_result=KIND != "results", broker_connection_retry_on_startup=True
)
if KIND == "tuned":
    app.conf.update(
        worker_prefetch_multiplier=64,
        broker_transport_options={"priority_steps": [0], "ack_emulation": False},
    )


@app.task(name="noop")
def noop() -> None:
    """Do nothing."""


def publish(count: int) -> None:
    """Publish ``count`` no-ops as a program would, one ``apply_async`` after another; print when the first one left."""
    print(time.time())
    for _ in range(count):
        noop.apply_async()


if __name__ == "__main__":
    publish(int(sys.argv[1]))
