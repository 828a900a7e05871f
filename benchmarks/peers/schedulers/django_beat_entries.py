"""django-celery-beat's entries made through its models: ``python -m …django_beat_entries COUNT`` prints both rates.

One by one with ``create``, each of which also notes the change for the beat, and all by one ``bulk_create``.
"""

import json
import sys
import time

from benchmarks.peers.schedulers import django_beat  # configures its project


def measure(count: int) -> dict[str, float]:
    """Entries a second, ``create`` and ``bulk_create``."""
    from django.core.management import call_command
    from django_celery_beat.models import IntervalSchedule, PeriodicTask, PeriodicTasks

    call_command("migrate", "--no-input", verbosity=0)
    hourly = IntervalSchedule.objects.create(every=1, period=IntervalSchedule.HOURS)
    began = time.perf_counter()
    for number in range(count):
        PeriodicTask.objects.create(name=f"one-{number}", task="stamp", interval=hourly)
    singly = time.perf_counter()
    PeriodicTask.objects.bulk_create(
        [PeriodicTask(name=f"bulk-{number}", task="stamp", interval=hourly) for number in range(count)],
        batch_size=1000,
    )
    PeriodicTasks.update_changed()
    return {"create": count / (singly - began), "bulk_create": count / (time.perf_counter() - singly)}


if __name__ == "__main__":
    assert django_beat.app
    print(json.dumps(measure(int(sys.argv[1]))))
