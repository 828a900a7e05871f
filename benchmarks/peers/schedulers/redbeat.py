"""RedBeat: Celery's beat with its schedule in Redis. ``python -m …redbeat COUNT LEAD`` registers entries.

All entries fall due ``LEAD`` seconds after it begins to store them, and then not for an hour. It prints the instant at
which they fall due (Unix seconds).
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


def register(count: int, lead: timedelta) -> datetime:
    """Store ``count`` entries. Returns when they fall due."""
    due_at = datetime.now(UTC) + lead
    for number in range(count):
        name = f"entry-{number}"
        RedBeatSchedulerEntry(
            name, "stamp", schedule(EVERY, app=app), args=(name,), last_run_at=due_at - EVERY, app=app
        ).save()
    return due_at


if __name__ == "__main__":
    print(register(int(sys.argv[1]), timedelta(seconds=float(sys.argv[2]))).timestamp())
