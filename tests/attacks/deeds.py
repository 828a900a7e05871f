"""What is done to a tenant whose every secret is a canary: each way in which a value might come to be told."""

import asyncio
import base64
import html
import json
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock
from urllib.parse import quote, unquote

from aiohttp import web
from celery import current_app
from celery.concurrency.base import apply_target
from django.apps import apps
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse

from jobs import tasks
from jobs.engine.dispatcher import Message
from jobs.engine.notices import notify
from jobs.engine.publisher import Publisher
from jobs.models import Attempt, Event, Trigger
from scheduler_project.celery import app
from scheduler_project.worker.consumer import Consumer
from tenants.vault.secrets import put_secret
from tenants.vault.signing import rotate_signing_secret
from tests.attacks.canaries import Ears, Logs, ServersLog, broker, columns, in_redis
from tests.engine.conftest import Perform
from tests.factories import attempts, claim_token, make_job, make_tenant, make_trigger
from tests.handlers.conftest import Receiver
from tests.interfaces.api.caller import Caller, noop_job
from tests.pull.conftest import TYPE, declare, pull_job

PAYLOAD = "a payload's credential"


class World:
    """A tenant with canaries in each place that holds one by right, and what is done to it."""

    def __init__(self, *, receiver: Receiver, perform: Perform, logs: Logs) -> None:
        self.receiver, self.perform, self.logs = receiver, perform, logs
        self.redis, self.ears, self.server = broker(), Ears(broker()), ServersLog()
        self.tenant = make_tenant()
        self.caller = Caller(self.tenant, scopes=("read", "write"))
        self.worker = Caller(self.tenant, scopes=("worker",))
        self.outsider = Caller(make_tenant(), scopes=("read", "write", "worker"))
        self.queued: list[str] = []
        self.pages: list[str] = []
        self.answers: list[str] = []
        self.others_answers: list[str] = []
        self.error_answers: list[str] = []
        self.canaries = {
            "a secret in a URL": 'UrL1%41b&c/mY+<n"L!',
            "a secret in a header": 'heAd3r%42&x/7Q+<d"R!',
            "a secret in a notice's URL": 'n0tIce%43&y/8W+<e"T!',
            PAYLOAD: "p4Yl0ad%44/9E+f!",
            "an operator's password": 'Op3rat0r%45&/1R+<g"P!',
            "an API key": str(self.caller.token).split("_", 2)[2],
            "a worker's key": str(self.worker.token).split("_", 2)[2],
            "a signing secret": rotate_signing_secret(tenant=self.tenant).removeprefix("whsec_"),
        }
        here = [f"127.0.0.1:{receiver.port}"]
        for name, kind in (("url", "a URL"), ("header", "a header"), ("notice", "a notice's URL")):
            put_secret(tenant=self.tenant, name=name, value=self.canaries[f"a secret in {kind}"], hosts=here)
        self.jobs = [make_job(self.tenant, name="plain")]
        User.objects.create_superuser("ops", password=self.canaries["an operator's password"])

    def webhook(self, path: str, *, part: int = 0, **columns: Any) -> Trigger:
        """A queued firing of a webhook with a canary wherever its payload may have one."""
        credential = self.canaries[PAYLOAD]
        payload = {
            "url": self.receiver.url(
                f"/{path}/{{{{secret:url}}}}?part={part}&k={{{{secret:url}}}}&p={quote(credential)}"
            ),
            "headers": {"Authorization": "Bearer {{secret:header}}", "X-Own": credential},
            "body": {"password": credential},
        }
        notice = self.receiver.url("/echo/{{secret:notice}}")
        job = make_job(
            self.tenant,
            job_type="webhook",
            payload=payload,
            notify={"on": ["dead"], "url": notice},
            watched=True,
            retry_policy={"max_attempts": 1},
        )
        self.jobs.append(job)
        return make_trigger(job, "queued", **columns)

    def ask(self, caller: Caller, method: str, path: str, body: Any = None, **headers: str) -> Any:
        answer = caller.call(method, path, body, **headers)
        text = answer.content.decode() + str(answer.headers)
        (self.others_answers if caller is self.outsider else self.answers).append(text)
        if answer.status_code >= 400:
            self.error_answers.append(text)
        return answer

    def places(self) -> dict[str, str]:
        """All there is to search, by its name."""
        broadcast, shown = self.ears.texts()
        return {
            **dict(self.logs.texts()),
            **columns(),
            "Postgres' log": self.server.text(),
            "Redis": in_redis(self.redis),
            "Redis, queued": "\n".join(self.queued),
            "Redis, broadcast": broadcast,
            "Flower": "\n".join(shown),
            "console": "\n".join(self.pages),
            "answers": "\n".join(self.answers),
            "answers to another tenant": "\n".join(self.others_answers),
            "error answers": "\n".join(self.error_answers),
        }


#: Of an answer 2,048 bytes are kept, so that each echo shows another part of all that there is.
EXCERPT, ECHOES = 1500, 10


async def _echo(request: web.Request) -> web.Response:
    """What it was sent, in every way that a target may show it."""
    raw = f"{request.raw_path} {request.path} {dict(request.headers)}"
    sent = " ".join(
        [raw, unquote(raw), quote(raw), quote(unquote(raw), safe=""), html.escape(raw), json.dumps(raw)]
        + [base64.b64encode(b"\0" * lead + raw.encode()).decode() for lead in range(3)]
    )
    sent += f" {raw.encode().hex()}"
    part = int(request.query.get("part", 0)) * EXCERPT
    return web.Response(status=400, text=sent[part:], headers={"X-Echo": quote(raw)})


async def _raw(request: web.Request, answer: bytes) -> web.StreamResponse:
    assert request.transport
    request.transport.write(answer)
    await asyncio.sleep(0.02)
    request.transport.close()
    return web.Response()


async def _malformed(request: web.Request) -> web.StreamResponse:
    return await _raw(request, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n")


async def _cut(request: web.Request) -> web.StreamResponse:
    token = request.headers["Authorization"].encode()[:18]
    return await _raw(request, b"HTTP/1.1 500 No\r\nContent-Length: 9999\r\n\r\n" + token)


async def _long_header(request: web.Request) -> web.StreamResponse:
    token = request.headers["Authorization"].encode()
    return await _raw(request, b"HTTP/1.1 200 OK\r\nX-Echo: " + token * 600 + b"\r\n\r\n")


async def _redirect(request: web.Request) -> web.Response:
    return web.Response(status=302, headers={"Location": f"http://thief.example{request.raw_path}"})


async def _fails(request: web.Request) -> web.Response:
    return web.Response(status=503, text=f"no: {request.raw_path}")


TARGETS = {
    "echo": _echo,
    "malformed": _malformed,
    "cut": _cut,
    "long": _long_header,
    "redirect": _redirect,
    "fails": _fails,
}


class AnyPath(dict[str, Any]):
    def get(self, path: str, default: Any = None) -> Any:
        return TARGETS[path.split("/")[1]]


# What is done.


def _send_webhooks(world: World) -> None:
    triggers = [world.webhook(name) for name in TARGETS]
    triggers += [world.webhook("echo", part=part) for part in range(1, ECHOES)]
    gone = world.webhook("echo")
    gone.job.payload["url"] = "http://127.0.0.1:1/{{secret:url}}"
    gone.job.save(update_fields=["payload"])
    world.perform(*triggers, gone)
    codes = {attempts(trigger)[0].error_code for trigger in (*triggers, gone)}
    assert {"http_400", "bad_response", "redirect", "http_503", "secret_host"} <= codes


def _tell_of_the_dead(world: World) -> None:
    assert notify()
    notices = list(Trigger.objects.filter(job_type="carillon.notice"))
    assert notices
    for notice in notices:
        Trigger.objects.filter(id=notice.id).update(state="queued", fence=1, queued_at=notice.created_at)
        notice.refresh_from_db()
    world.perform(*notices)
    assert attempts(notices[0])[0].error_code == "http_400"
    assert Event.objects.filter(kind="trigger.dead").exists()


def _let_handlers_fail(world: World) -> None:
    """Of a team: its words hold its input, as those of ``int``, of pydantic and of the database do."""

    def refuse(ctx: Any, payload: Any) -> None:
        raise ValueError(f"cannot log in with {payload['password']}")

    def store(ctx: Any, payload: Any) -> None:
        _violate(payload["password"])

    tasks.registry.job_type("test.refuse")(refuse)
    tasks.registry.job_type("test.store")(store)
    for name in ("test.refuse", "test.store"):
        job = make_job(world.tenant, job_type=name, payload={"password": world.canaries[PAYLOAD]})
        trigger = make_trigger(job, "queued")
        world.perform(trigger)
        assert attempts(trigger)[0].error_code == "exception"


def _let_a_handler_print(world: World) -> None:
    """Of a team: it tells of all it was given, each secret whole, in pieces and within more than is kept."""

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


def _violate(text: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE jobs_job SET status_reason = %s, max_concurrent = -1", [text])


def _break_the_database_under_the_api(world: World) -> None:
    """A row that it refuses is in its error: "Failing row contains (…)", and the statement beside it."""
    credential = world.canaries[PAYLOAD]
    body = noop_job(
        name="refused", job_type="webhook", payload={"url": "http://a.example/", "body": credential}
    )
    with _refusing("jobs_job", "name <> 'refused'"):
        assert world.ask(world.caller, "POST", "/jobs", body).status_code == 500


class _refusing:
    """A CHECK that new rows of a table have to meet."""

    def __init__(self, table: str, check: str) -> None:
        self._add = f"ALTER TABLE {table} ADD CONSTRAINT canary CHECK ({check}) NOT VALID"
        self._drop = f"ALTER TABLE {table} DROP CONSTRAINT canary"

    def __enter__(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(self._add)

    def __exit__(self, *_: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(self._drop)


class _Pool:
    """Celery's pool "solo", without the signals by which a process becomes a worker's."""

    @staticmethod
    def apply_async(target: Any, args: Any, *, callback: Any, accept_callback: Any, **_: Any) -> None:
        apply_target(target, args, {}, callback, accept_callback)


def _work_from_the_broker(world: World) -> None:
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
        with _refusing("jobs_trigger", f"id <> '{ill.id}' OR state <> 'running'"):
            while message := channel.basic_get("jobs.webhook", no_ack=True):
                take(message, None, lambda *_: None, lambda *_: None, [])


def _send_bad_messages(world: World) -> None:
    """Whoever else writes to the engine's queues: a payload in the wrong place, in each form that is refused."""
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


def fail_to_log_in(world: World) -> None:
    password = world.canaries["an operator's password"]
    browser = Client(raise_request_exception=False)
    assert browser.post("/admin/login/", {"username": "ops", "password": password + "x"}).status_code == 200
    connection.close()
    with mock.patch.dict(connection.settings_dict, {"HOST": "/nowhere", "PORT": "1"}):
        answer = browser.post("/admin/login/", {"username": "ops", "password": password})
    connection.close()
    assert answer.status_code == 500
    world.error_answers.append(answer.content.decode())


def _pull(world: World) -> None:
    declare(world.tenant)
    job = pull_job(world.tenant, payload={"password": world.canaries[PAYLOAD]})
    trigger = make_trigger(job, "queued")
    body = {"worker": "w1", "job_types": [TYPE], "capacity": 1}
    assert world.ask(world.worker, "POST", "/worker/claim", body).json()["triggers"][0]["trigger_id"] == str(
        trigger.id
    )
    assert world.ask(world.worker, "GET", "/jobs").status_code == 403


def _ask_for_everything(world: World) -> None:
    secret = world.canaries["a secret in a URL"]
    paths = [
        *("/jobs", "/triggers", "/dead-letters", "/operations", "/tenant", "/tenant/notify", "/secrets"),
        *("/secrets/url", "/signing-secret", "/job-types", "/events", "/audit"),
    ]
    for job in world.jobs:
        paths += [
            f"/jobs/{job.id}{rest}" for rest in ("", "/triggers", "/attempts", "/executions", "/explain")
        ]
    for trigger in Trigger.objects.filter(tenant=world.tenant):
        paths += [f"/triggers/{trigger.id}{rest}" for rest in ("", "/attempts", "/explain")]
    for attempt in Attempt.objects.filter(tenant_id=world.tenant.id):
        paths.append(f"/attempts/{attempt.id}")
    for path in paths:
        world.ask(world.caller, "GET", path)
        world.ask(world.outsider, "GET", path)
    key = str(world.caller.token)
    for refused in (f"Bearer {key}x", f"Bearer {key} {key}", key, f"Basic {key}"):
        assert world.ask(world.caller, "GET", "/jobs", Authorization=refused).status_code == 401
    for body in (
        {"value": secret},
        {"value": secret + "\n", "hosts": ["*"]},
        {"value": [secret], "hosts": ["*"]},
    ):
        assert world.ask(world.caller, "PUT", "/secrets/new", body).status_code == 400
    assert world.ask(world.caller, "POST", "/jobs", b'{"payload": "' + secret.encode()).status_code == 400


def _look_into_the_console(world: World) -> None:
    operator = Client()
    operator.force_login(User.objects.get(username="ops"))
    pages = ["/admin/", *(reverse(f"admin:{page}_changelist") for page in LISTS)]
    for page in SHOWN:
        rows = apps.get_model(*page.split("/")).objects.values_list("pk", flat=True)
        pages += [f"/admin/{page}/{pk}/change/" for pk in rows[:3]]
    for page in pages:
        answer = operator.get(page, follow=True)
        assert answer.status_code == 200, page
        world.pages.append(answer.content.decode())


SHOWN = ("jobs/job", "jobs/trigger", "jobs/attempt", "django_celery_results/taskresult")
LISTS = (
    *("jobs_job", "jobs_trigger", "jobs_deadletter", "jobs_attempt", "jobs_change", "jobs_operation"),
    *("django_celery_results_taskresult", "tenants_tenant", "tenants_apikey", "tenants_secret"),
)
DEEDS: tuple[Callable[[World], None], ...] = (
    _send_webhooks,
    _tell_of_the_dead,
    _let_handlers_fail,
    _let_a_handler_print,
    _break_the_database_under_the_api,
    _work_from_the_broker,
    _send_bad_messages,
    fail_to_log_in,
    _pull,
    _ask_for_everything,
    _look_into_the_console,
)
