"""Messages through the broker: those that beats publish, and those that are refused."""

import json
from functools import partial
from typing import Any
from unittest import mock

from celery import current_app
from celery.concurrency.base import apply_target

from jobs import tasks
from jobs.engine.dispatcher import Message
from jobs.engine.publisher import Publisher
from scheduler_project.celery import app
from scheduler_project.worker.consumer import Consumer
from tests.attacks.canaries import in_redis
from tests.attacks.deeds.refusing import refusing
from tests.attacks.deeds.world import PAYLOAD, World
from tests.factories import claim_token


class _Pool:
    """Celery's pool "solo", without the signals by which a process becomes a worker's."""

    @staticmethod
    def apply_async(target: Any, args: Any, *, callback: Any, accept_callback: Any, **_: Any) -> None:
        apply_target(target, args, {}, callback, accept_callback)


def work_from_the_broker(world: World) -> None:
    """Messages as beats publish them, taken as workers take them; one claim meets a row that the database refuses."""
    credential = {"p": world.canaries[PAYLOAD]}
    well = [world.webhook("fails", payload=None), world.webhook("fails", payload=None)]
    ill = world.webhook("fails", payload=credential)
    publisher = Publisher(app)
    publisher([Message("webhook", tuple(map(claim_token, well))), Message("webhook", (claim_token(ill),))])
    publisher.close()
    world.queued = [in_redis(world.redis)]
    assert str(ill.id) in world.queued[0], "the control: messages are read"
    assert current_app._get_current_object() is app, (
        "as in a worker: results go where the current app keeps them"
    )
    with app.connection_for_read() as wire, app.events.Dispatcher(wire, hostname="w1") as events:
        consumer = mock.MagicMock(
            hostname="w1", event_dispatcher=events, pool=_Pool(), disable_rate_limits=True
        )
        consumer.controller.state.revoked = ()
        consumer.on_task_request = lambda request: request.execute_using_pool(_Pool())
        take = app.tasks["jobs.webhook"].start_strategy(app, consumer)
        channel = wire.channel()
        with refusing("jobs_trigger", f"id <> '{ill.id}' OR state <> 'running'"):
            while message := channel.basic_get("jobs.webhook", no_ack=True):
                take(message, None, lambda *_: None, lambda *_: None, [])


def send_bad_messages(world: World) -> None:
    """Another sender writes to the engine's queues: a payload in the wrong place, in each form that is refused."""
    credential = world.canaries[PAYLOAD]
    tasks.perform("webhook", [{"password": credential}, [credential, 1]], worker_name="w1")
    with app.connection_for_write() as wire:
        channel = wire.channel()
        channel.connection._deliver({"password": credential}, "jobs.webhook")
        consumer = mock.MagicMock(connection_errors=())
        body = [[], "no keywords", credential]
        message = mock.MagicMock(headers={"id": "1"}, payload=body, body=json.dumps(body))
        tasks.dropping_garbage(app.tasks["jobs.webhook"], app, _strategist())(
            message, None, print, mock.MagicMock(), []
        )
        message.headers = {"id": "1", "task": "jobs.unheard_of", "argsrepr": credential}
        message.delivery_info, message.properties = {}, {}
        for told_of in (Consumer.on_unknown_task, Consumer.on_invalid_task):
            told_of(consumer, None, message, KeyError("jobs.unheard_of"))
        consumer._message_report = partial(Consumer._message_report, consumer)
        Consumer.on_unknown_message(consumer, body, message)
        Consumer.on_decode_error(consumer, message, ValueError("no JSON"))


def _strategist() -> Any:
    consumer = mock.MagicMock(hostname="w1", event_dispatcher=None, pool=_Pool(), disable_rate_limits=True)
    consumer.connection_errors = ()
    return consumer
