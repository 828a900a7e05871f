"""django-celery-beat: Celery's beat with its schedule in a database. ``python -m …django_beat COUNT LEAD`` registers.

It is a Django project of its own, in a database of its own (``BENCH_DATABASE``) on the stage's Postgres. All entries
fall due ``LEAD`` seconds after it begins to store them, and then not for an hour. It prints the instant at which they
fall due (Unix seconds).
"""

import os
import sys
from datetime import UTC, datetime, timedelta

import django
from celery import Celery
from django.conf import settings
from psycopg.conninfo import conninfo_to_dict

from benchmarks.peers.schedulers import stamps

EVERY = timedelta(hours=1)

# The bench names Carillon's settings in the environment; this process is another project.
os.environ.pop("DJANGO_SETTINGS_MODULE", None)
_where = conninfo_to_dict(os.environ.get("BENCH_DATABASE", ""))
settings.configure(
    SECRET_KEY="of no use to anyone",
    INSTALLED_APPS=["django_celery_beat"],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": _where.get("dbname", ""),
            "USER": _where.get("user", ""),
            "HOST": _where.get("host", ""),
            "CONN_MAX_AGE": None,
        }
    },
    ALLOWED_HOSTS=["127.0.0.1"],
    ROOT_URLCONF="benchmarks.peers.http.views",
    REST_FRAMEWORK={"UNAUTHENTICATED_USER": None},
    USE_TZ=True,
    TIME_ZONE="UTC",
)
django.setup()

app = Celery("bench-django-beat", broker=os.environ.get("BENCH_BROKER", "memory://"))
app.conf.update(
    task_default_queue="bench-django-beat",
    task_ignore_result=True,
    broker_connection_retry_on_startup=True,
    timezone="UTC",
)
app.task(name="stamp")(stamps.stamp)


def register(count: int, lead: timedelta) -> datetime:
    """Make the tables and store ``count`` entries. Returns when they fall due."""
    from django.core.management import call_command
    from django_celery_beat.models import IntervalSchedule, PeriodicTask, PeriodicTasks

    call_command("migrate", "--no-input", verbosity=0)
    due_at = datetime.now(UTC) + lead
    hourly = IntervalSchedule.objects.create(every=1, period=IntervalSchedule.HOURS)
    names = [f"entry-{number}" for number in range(count)]
    PeriodicTask.objects.bulk_create(
        PeriodicTask(name=name, task="stamp", args=f'["{name}"]', interval=hourly, last_run_at=due_at - EVERY)
        for name in names
    )
    PeriodicTasks.update_changed()
    return due_at


if __name__ == "__main__":
    print(register(int(sys.argv[1]), timedelta(seconds=float(sys.argv[2]))).timestamp())
