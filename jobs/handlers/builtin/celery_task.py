"""``celery_task``: send a Celery task of the team's own project to its queue. It is the way over from celery-beat.

Keeps true: the task id follows from the idempotency key, so a retry sends the same id again. Carillon's own
tasks cannot be sent. The trigger succeeds when the broker took the message; Carillon does not follow the task after
that.
"""

from typing import Annotated, Any
from uuid import NAMESPACE_URL, uuid5

from pydantic import AfterValidator, Field

from jobs.handlers.builtin.payload import BuiltInPayload
from jobs.handlers.builtin.queues import QueueName
from jobs.handlers.context import Context
from jobs.handlers.outcome import HandlerError
from jobs.handlers.registry import job_type

DEFAULT_QUEUE = "celery"


def _check_task(name: str) -> str:
    if name.startswith(("jobs.", "celery.")):
        raise ValueError("Tasks named jobs.* and celery.* are not for payloads; name a task of your own.")
    return name


class CeleryTaskPayload(BuiltInPayload):
    """``task`` is the task's name as its workers registered it; ``args`` and ``kwargs`` are its arguments. ``queue`` is
    the queue where its workers listen: ``celery`` by default, which an operator must have granted.
    """

    task: Annotated[
        str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.\-]*$", max_length=200), AfterValidator(_check_task)
    ]
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    queue: QueueName = DEFAULT_QUEUE


def _queue(payload: dict[str, Any]) -> str:
    return str(payload.get("queue", DEFAULT_QUEUE))


@job_type("celery_task", timeout_seconds=30, batch_size=50, payload=CeleryTaskPayload, sends_to=_queue)
def celery_task(ctx: Context, payload: CeleryTaskPayload) -> dict[str, str]:
    """Send a Celery task of your own project to its queue; succeeds when the broker took it."""
    # Imported here: Celery starts after the registry, and its app must exist before this import.
    from celery import current_app
    from kombu import Queue

    from jobs.handlers.builtin.broker import (
        RETRY_POLICY,
        carillon_headers,
        check_queue,
        has_queue,
        pooled_producer,
    )

    check_queue(ctx, payload.queue)
    task_id = str(uuid5(NAMESPACE_URL, ctx.idempotency_key))
    with pooled_producer(current_app) as producer:
        if not has_queue(producer, ctx, payload.queue):
            raise HandlerError(
                f"The broker has no queue {payload.queue!r}; start its workers, or correct the name.",
                code="queue_missing",
            )
        current_app.send_task(
            payload.task,
            payload.args,
            payload.kwargs,
            # A Queue object passes the router, which refuses names outside task_queues. It is not declared, because
            # its workers may have declared it with arguments (quorum, priorities) that ours would contradict.
            queue=Queue(payload.queue, no_declare=True),
            producer=producer,
            task_id=task_id,
            headers=carillon_headers(ctx),
            serializer="json",
            add_to_parent=False,
            retry=True,
            retry_policy=RETRY_POLICY,
        )
    return {"celery_task_id": task_id}
