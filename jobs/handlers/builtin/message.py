"""``message``: publish the payload's body to a named queue of the broker, for consumers that are not
Celery's.

Keeps true: no Celery worker takes the message for a task; it is durable, and carries the ids by which a
consumer recognises a duplicate. On RabbitMQ a queue that does not exist yet is declared (durable, classic), so
that no message is dropped.
"""

import json
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from jobs.handlers.builtin.payload import BuiltInPayload
from jobs.handlers.builtin.queues import TENANTS, QueueName
from jobs.handlers.context import Context
from jobs.handlers.registry import job_type

#: A Celery worker takes a message with these headers for a task (protocol 2).
CELERY_HEADERS = ("task", "id", "lang")
HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.\-]{1,100}$")]
HeaderValue = Annotated[str, Field(max_length=4096)]


class MessagePayload(BuiltInPayload):
    """``body`` is any JSON. With ``content_type`` ``text/plain`` it is a text and is sent unchanged."""

    queue: QueueName
    body: Any
    headers: Annotated[dict[HeaderName, HeaderValue], Field(max_length=32)] = {}
    content_type: Literal["application/json", "text/plain"] = "application/json"

    @field_validator("headers")
    @classmethod
    def _speak_for_nobody(cls, headers: dict[str, str]) -> dict[str, str]:
        if taken := sorted(name for name in headers if name.lower() in CELERY_HEADERS):
            raise ValueError(
                f"{', '.join(taken)}: by these Celery knows its own messages; send tasks by celery_task."
            )
        return headers

    @model_validator(mode="after")
    def _plain_text_is_text(self) -> "MessagePayload":
        if self.content_type == "text/plain" and not isinstance(self.body, str):
            raise ValueError("A text/plain body is a text; leave content_type out to send JSON.")
        return self

    @model_validator(mode="after")
    def _is_no_task(self) -> "MessagePayload":
        """A tenant's queue has only its own consumers; elsewhere a team's Celery worker may listen (protocol 1)."""
        if isinstance(self.body, dict) and "task" in self.body and not self.queue.startswith(TENANTS):
            raise ValueError(
                "A body with a task is a Celery message to workers on that queue; send tasks by celery_task."
            )
        return self


def _queue(payload: dict[str, Any]) -> str:
    return str(payload["queue"])


@job_type("message", timeout_seconds=30, batch_size=50, payload=MessagePayload, sends_to=_queue)
def message(ctx: Context, payload: MessagePayload) -> None:
    """Publish a message to a named queue of the broker; succeeds when the broker took it."""
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
    with pooled_producer(current_app) as producer:
        producer.publish(
            payload.body if payload.content_type == "text/plain" else json.dumps(payload.body),
            exchange="",
            routing_key=payload.queue,
            declare=[] if has_queue(producer, ctx, payload.queue) else [Queue(payload.queue, durable=True)],
            headers={**payload.headers, **carillon_headers(ctx)},
            content_type=payload.content_type,
            content_encoding="utf-8",
            message_id=str(ctx.trigger_id),
            delivery_mode="persistent",
            retry=True,
            retry_policy=RETRY_POLICY,
        )
