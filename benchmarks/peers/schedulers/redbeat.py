"""RedBeat: Celery's beat with its schedule in Redis. ``python -m …redbeat COUNT DUE_AT`` registers entries.

All of them fall due at ``DUE_AT`` (Unix seconds), and then not for an hour.
"""

import os
import sys
from datetime import UTC, datetime, timedelta

from celery import Celery
from celery.schedules import schedule
from redbeat import RedBeatSchedulerEntry

from benchmarks.peers.schedulers import stamps

EVERY = timedelta(hours=1)

app = Celery("bench-redbeat", broker=os.environ.get("BENCH_BROKER", "memory://"))
app.conf.update(
    task_default_queue="bench-redbeat",
    task_ignore_result=True,
    broker_connection_retry_on_startup=True,
    timezone="UTC",
    redbeat_redis_url=os.environ.get("BENCH_REDIS", ""),
)
app.task(name="stamp")(stamps.stamp)


def register(count: int, due_at: datetime) -> None:
    """Store ``count`` entries."""
    for number in range(count):
        name = f"entry-{number}"
        RedBeatSchedulerEntry(
            name, "stamp", schedule(EVERY, app=app), args=(name,), last_run_at=due_at - EVERY, app=app
        ).save()


if __name__ == "__main__":
    register(int(sys.argv[1]), datetime.fromtimestamp(float(sys.argv[2]), UTC))
