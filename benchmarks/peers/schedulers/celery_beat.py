"""Celery's own beat, with the default ``PersistentScheduler`` and a schedule of interval entries.

``BENCH_ENTRIES`` names a JSON file ``{entry name: seconds}``.
"""

import json
import os
from pathlib import Path

from celery import Celery

from benchmarks.peers.schedulers import stamps

ENTRIES = os.environ.get("BENCH_ENTRIES")

app = Celery("bench-beat", broker=os.environ.get("BENCH_BROKER", "memory://"))
app.conf.update(
    task_default_queue="bench-beat",
    task_ignore_result=True,
    broker_connection_retry_on_startup=True,
    timezone="UTC",
)
if ENTRIES:
    app.conf.beat_schedule = {
        name: {"task": "stamp", "schedule": seconds, "args": (name,)}
        for name, seconds in json.loads(Path(ENTRIES).read_text()).items()
    }
app.task(name="stamp")(stamps.stamp)
