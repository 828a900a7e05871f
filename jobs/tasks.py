"""Celery tasks: one per job type, named after its queue, all with one body (DESIGN §7)."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from celery import Celery, Task
from celery.exceptions import Ignore

from jobs.engine import worker
from jobs.handlers import registry
from jobs.store.execution import Grip
from jobs.telemetry import get_logger

log = get_logger()


def register(app: Celery) -> list[str]:
    """Register a task per known job type on ``app``. Returns their names, which are their queues' names too."""
    return [_register(app, job_type.name, job_type.queue) for job_type in registry.all_types()]


def _register(app: Celery, job_type: str, name: str) -> str:
    @app.task(name=name, bind=True)
    def body(task: Task, items: Any) -> dict[str, int]:
        """Claim and perform a batch; without anything left to claim there is no result either."""
        summary = worker.perform(
            job_type=job_type,
            grips=parse_items(items),
            worker=task.request.hostname or "unknown",
            celery_task_id=task.request.id,
        )
        if summary is None:
            raise Ignore
        return summary

    return name


def checked_fence(fence: Any) -> int:
    """``fence`` if the column can hold it: one that cannot would fail the claim of its whole batch."""
    if type(fence) is not int or not 0 <= fence < 2**31:
        raise ValueError(f"{fence!r:.40} is no fence")
    return fence


def parse_items(items: Any) -> Sequence[Grip]:
    """The ``[(trigger id, fence), …]`` of a message; what is not of that form is logged and dropped."""
    grips = []
    for item in items if isinstance(items, list | tuple) else [items]:
        try:
            trigger_id, fence = item
            grips.append(Grip(UUID(trigger_id), checked_fence(fence)))
        except (TypeError, ValueError, AttributeError) as error:
            log.warning("message dropped", item=repr(item)[:200], error=str(error))
    return grips
