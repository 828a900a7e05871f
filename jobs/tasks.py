"""Celery tasks: one per job type, named after its queue, all with one body (DESIGN §7)."""

import logging
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from celery import Celery, Task
from celery.exceptions import Ignore

from jobs.engine import worker
from jobs.handlers import registry
from jobs.store.execution import ClaimToken
from jobs.telemetry import get_logger, shape_of

log = get_logger()


def register(app: Celery) -> list[str]:
    """Register a task per known job type on ``app``. Returns their names, which are their queues' names too."""
    return [_register(app, job_type.name, job_type.queue) for job_type in registry.all_types()]


def _register(app: Celery, job_type: str, name: str) -> str:
    @app.task(name=name, bind=True, Strategy="jobs.tasks:dropping_garbage")
    def body(task: Task, items: Any = (), *_: Any, **__: Any) -> dict[str, int]:
        """Claim and perform a batch; without anything left to claim there is no result either.

        Arguments that a later version may add to its messages are ignored.
        """
        with worker.slot():
            summary = perform(
                job_type,
                items,
                worker_name=task.request.hostname or "unknown",
                celery_task_id=task.request.id,
            )
        if summary is None:
            raise Ignore
        return summary

    return name


def perform(
    job_type: str, items: Any, *, worker_name: str, celery_task_id: str = ""
) -> dict[str, int] | None:
    """Perform a message of Celery, or from Postgres (no ``celery_task_id``). None: nothing of it was left."""
    tokens = parse_items(items)
    if not tokens:
        return None
    return worker.perform(job_type=job_type, tokens=tokens, worker=worker_name, celery_task_id=celery_task_id)


def dropping_garbage(task: Task, app: Celery, consumer: Any) -> Callable[..., None]:
    """Celery's own way to take a message, for messages of its protocol. Any other would end the whole worker."""
    from celery.worker.strategy import default  # only workers need it

    take = default(task, app, consumer)

    def take_or_drop(message: Any, body: Any, ack: Any, reject: Any, callbacks: Any) -> None:
        payload = message.payload
        if (
            isinstance(message.headers.get("id"), str)
            and isinstance(payload, list | tuple)
            and len(payload) == 3
            and all(isinstance(part, kind) for part, kind in zip(payload, (list, dict, dict), strict=True))
        ):
            take(message, body, ack, reject, callbacks)
            return
        log.warning(
            "message dropped", task=task.name, payload=shape_of(payload), error="not Celery's protocol"
        )
        reject(logging.getLogger(__name__), consumer.connection_errors)

    return take_or_drop


def checked_fence(fence: Any) -> int:
    """Return ``fence`` if the column can hold it. Any other fence would fail the claim of its whole batch."""
    if type(fence) is not int or not 0 <= fence < 2**31:
        raise ValueError("a fence is a whole number from 0 to 2147483647")
    return fence


def parse_items(items: Any) -> Sequence[ClaimToken]:
    """The ``[(trigger id, fence), …]`` of a message; an item of another form is logged and dropped."""
    tokens = []
    for item in items if isinstance(items, list | tuple) else [items]:
        try:
            trigger_id, fence, *_ = item  # parts that a later version may add are ignored
            tokens.append(ClaimToken(UUID(trigger_id), checked_fence(fence)))
        except (TypeError, ValueError, AttributeError) as error:
            log.warning("message dropped", item=shape_of(item), error=str(error))
    return tokens
