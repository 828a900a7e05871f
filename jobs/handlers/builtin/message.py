"""``message``: publish the payload's body to a named queue of the broker, for consumers that are not
Celery's.

Keeps true: the message is durable, and carries the ids by which a consumer recognises a duplicate. On
RabbitMQ a queue that does not exist yet is declared (durable, classic), so that nothing is dropped.
"""

import json
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from jobs.handlers.builtin.payload import BuiltInPayload, QueueName
from jobs.handlers.context import Context
from jobs.handlers.registry import job_type

HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.\-]{1,100}$")]
HeaderValue = Annotated[str, Field(max_length=4096)]


class MessagePayload(BuiltInPayload):
    """``body`` is any JSON; with ``content_type`` ``text/plain`` it is a text and sent as it stands."""

    queue: QueueName
    body: Any
    headers: Annotated[dict[HeaderName, HeaderValue], Field(max_length=32)] = {}
    content_type: Literal["application/json", "text/plain"] = "application/json"

    @model_validator(mode="after")
    def _plain_text_is_text(self) -> "MessagePayload":
        if self.content_type == "text/plain" and not isinstance(self.body, str):
            raise ValueError("A text/plain body is a text; leave content_type out to send JSON.")
        return self


@job_type("message", timeout_seconds=30, batch_size=50, payload=MessagePayload)
def message(ctx: Context, payload: MessagePayload) -> None:
    """Publish a message to a named queue of the broker; succeeds when the broker took it."""
    # Imported here: Celery comes up after the registry, and an app must exist before it is asked for.
    from celery import current_app
    from kombu import Queue

    from jobs.handlers.builtin.broker import RETRY_POLICY, carillon_headers, has_queue, pooled_producer

    with pooled_producer(current_app) as producer:
        producer.publish(
            payload.body if payload.content_type == "text/plain" else json.dumps(payload.body),
            exchange="",
            routing_key=payload.queue,
            declare=[] if has_queue(producer, payload.queue) else [Queue(payload.queue, durable=True)],
            headers={**payload.headers, **carillon_headers(ctx)},
            content_type=payload.content_type,
            content_encoding="utf-8",
            message_id=str(ctx.trigger_id),
            delivery_mode="persistent",
            retry=True,
            retry_policy=RETRY_POLICY,
        )
