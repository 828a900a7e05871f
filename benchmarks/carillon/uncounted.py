"""Carillon without its counts of activity, to measure the cost of counting. Start it with ``celery -A`` this module."""

from typing import Any

from celery.signals import beat_init, worker_init

from scheduler_project.celery import app

__all__ = ["app"]


@worker_init.connect
@beat_init.connect
def _count_nothing(**_: Any) -> None:
    """Switch off adding up and writing, before the pool's processes are forked."""
    from jobs.activity import Activity
    from jobs.engine.activity import ActivityWriter
    from jobs.store.insight import activity

    for name in [name for name in vars(activity) if name.startswith("count")]:
        setattr(activity, name, lambda *_, **__: None)
    quiet: list[tuple[Any, str]] = [(activity.Outcomes, "__init__"), (activity.Outcomes, "count")]
    for of, name in (*quiet, (Activity, "add"), (Activity, "add_all"), (ActivityWriter, "start")):
        setattr(of, name, lambda *_, **__: None)
