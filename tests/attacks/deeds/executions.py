"""Deeds that execute work: webhooks, notices, and handlers of a team that fail and that print."""

import html
import json
from typing import Any
from urllib.parse import quote

from jobs import tasks
from jobs.engine.notices import notify
from jobs.models import Event, Trigger
from tests.attacks.deeds.refusing import violate
from tests.attacks.deeds.targets import ECHOES, TARGETS
from tests.attacks.deeds.world import PAYLOAD, World
from tests.factories import attempts, make_job, make_trigger


def send_webhooks(world: World) -> None:
    triggers = [world.webhook(name) for name in TARGETS]
    triggers += [world.webhook("echo", part=part) for part in range(1, ECHOES)]
    gone = world.webhook("echo")
    gone.job.payload["url"] = "http://127.0.0.1:1/{{secret:url}}"
    gone.job.save(update_fields=["payload"])
    world.perform(*triggers, gone)
    codes = {attempts(trigger)[0].error_code for trigger in (*triggers, gone)}
    assert {"http_400", "bad_response", "redirect", "http_503", "secret_host"} <= codes


def tell_of_the_dead(world: World) -> None:
    assert notify()
    notices = list(Trigger.objects.filter(job_type="carillon.notice"))
    assert notices
    for notice in notices:
        Trigger.objects.filter(id=notice.id).update(state="queued", fence=1, queued_at=notice.created_at)
        notice.refresh_from_db()
    world.perform(*notices)
    assert attempts(notices[0])[0].error_code == "http_400"
    assert Event.objects.filter(kind="trigger.dead").exists()


def let_handlers_fail(world: World) -> None:
    """Handlers of a team: their words hold their input, as those of ``int``, of pydantic and of the database do."""

    def refuse(ctx: Any, payload: Any) -> None:
        raise ValueError(f"cannot log in with {payload['password']}")

    def store(ctx: Any, payload: Any) -> None:
        violate(payload["password"])

    tasks.registry.job_type("test.refuse")(refuse)
    tasks.registry.job_type("test.store")(store)
    for name in ("test.refuse", "test.store"):
        job = make_job(world.tenant, job_type=name, payload={"password": world.canaries[PAYLOAD]})
        trigger = make_trigger(job, "queued")
        world.perform(trigger)
        assert attempts(trigger)[0].error_code == "exception"


def let_a_handler_print(world: World) -> None:
    """A handler of a team: it prints all its input, each secret whole, in pieces and within more than is kept."""

    def tell(ctx: Any, payload: Any) -> None:
        ctx.log(payload["password"])
        for name in ("url", "header"):
            value = ctx.secret(name, host=f"127.0.0.1:{world.receiver.port}")
            for encode in (str, quote, html.escape, json.dumps, lambda text: f"{text[:9]}\x1b[0m{text[9:]}"):
                ctx.log(encode(value))
            for _ in range(5_000):
                ctx.log(value)

    tasks.registry.job_type("test.tell", secrets=lambda payload: {"password": ["url", "header"]})(tell)
    job = make_job(world.tenant, job_type="test.tell", payload={"password": world.canaries[PAYLOAD]})
    world.jobs.append(job)
    trigger = make_trigger(job, "queued")
    assert world.perform(trigger) == {"succeeded": 1}
    [attempt] = attempts(trigger)
    assert "bytes left out" in attempt.output
