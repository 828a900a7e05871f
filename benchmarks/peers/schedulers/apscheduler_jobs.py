"""APScheduler 3 with its job store in Postgres: ``python -m …apscheduler_jobs COUNT DUE_AT`` registers and runs.

A process of its own with the default pool of threads, as its documentation shows. The store is a database of its own
(``BENCH_DATABASE``) on the stage's Postgres. All jobs fall due at ``DUE_AT`` (Unix seconds), and then not for an hour.
"""

import os
import sys
from datetime import UTC, datetime, timedelta

from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.blocking import BlockingScheduler

from benchmarks.peers.schedulers import stamps

EVERY = timedelta(hours=1)


def serve(count: int, due_at: datetime) -> None:
    """Store ``count`` jobs and run them for ever."""
    url = os.environ["BENCH_DATABASE"].replace("postgresql://", "postgresql+psycopg://")
    scheduler = BlockingScheduler(
        timezone=UTC,
        jobstores={"default": SQLAlchemyJobStore(url=url)},
        # By default APScheduler skips a job that is more than a second late, and most of many jobs due at once would be
        # that late.
        job_defaults={"misfire_grace_time": None},
    )
    for number in range(count):
        scheduler.add_job(
            stamps.stamp,
            "interval",
            seconds=EVERY.total_seconds(),
            args=(f"entry-{number}",),
            id=f"entry-{number}",
            next_run_time=due_at,
        )
    scheduler.start()


if __name__ == "__main__":
    serve(int(sys.argv[1]), datetime.fromtimestamp(float(sys.argv[2]), UTC))
