"""``celery_task`` and ``message`` on a real Redis, in an app that refuses queues it does not know."""

from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from types import SimpleNamespace

import kombu
import pytest
import redis
from amqp.exceptions import NotFound
from celery import Celery, _state, current_app
from celery.app.log import Logging
from celery.app.trace import reset_worker_optimizations
from celery.contrib.testing.worker import start_worker
from celery.signals import (
    worker_init,
    worker_process_init,
    worker_ready,
    worker_shutdown,
    worker_shutting_down,
)

from jobs.core.errors import InvalidInput
from jobs.handlers import registry, run_sync
from jobs.handlers.builtin import broker
from jobs.handlers.outcome import HandlerError
from jobs.limits.over_redis import PREFIX
from jobs.telemetry.traces.w3c import TraceContext


def an_app(broker_url: str, **settings: object) -> Celery:
    app = Celery("test", broker=broker_url, set_as_current=False, fixups=())
    app.conf.update(
        broker_transport_options={"socket_timeout": 2, "socket_connect_timeout": 1, "priority_steps": [0]},
        broker_pool_acquire_timeout=2,
        **settings,
    )
    return app


@contextmanager
def as_current(app: Celery) -> Iterator[Celery]:
    before, default = current_app._get_current_object(), _state.default_app
    app.set_current()
    yield app
    before.set_current()
    _state.set_default_app(default)
    app.close()


@pytest.fixture
def project(redis_socket) -> Iterator[Celery]:
    """An app set up as this project's: it knows only its own queues."""
    queues = [kombu.Queue("jobs.noop")]
    app = an_app(f"redis+socket://{redis_socket}", task_create_missing_queues=False, task_queues=queues)
    with as_current(app):
        yield app


@pytest.fixture
def run(make_context):
    def run(name, payload, **context):
        return run_sync(registry.get(name), make_context(**({"queues": ["*"]} | context)), payload)

    return run


@pytest.fixture
def take(project):
    """Take the next message of a queue, as a consumer that knows nothing of Carillon would."""

    def take(queue):
        with project.connection() as connection, connection.SimpleQueue(queue) as incoming:
            message = incoming.get(timeout=5)
            message.ack()
            return message

    return take


class TestCeleryTask:
    @pytest.mark.parametrize(
        ("asked", "queue"), [({}, "celery"), ({"queue": "team.reports"}, "team.reports")]
    )
    def test_sends_to_a_queue_this_project_does_not_know(self, run, take, asked, queue):
        ended = run("celery_task", {"task": "reports.build", "args": [1], "kwargs": {"b": 2}, **asked})
        assert ended.kind == "succeeded", ended
        message = take(queue)
        assert message.headers["task"] == "reports.build"
        assert message.payload[:2] == [[1], {"b": 2}]
        assert ended.result == {"celery_task_id": message.headers["id"]}
        assert message.headers["carillon_tenant"] == "acme"
        assert message.headers["carillon_idempotency_key"].startswith("job:1:")

    def test_sends_the_same_id_when_it_is_retried(self, run, take):
        results = [run("celery_task", {"task": "t"}, fence=fence).result for fence in (1, 2)]
        assert results[0] == results[1]
        assert run("celery_task", {"task": "t"}, idempotency_key="another").result != results[0]
        for _ in range(3):
            take("celery")

    def test_is_run_by_a_real_worker_of_the_teams_own_project(self, run, redis_socket, project, monkeypatch):
        # The team's worker is not Carillon's: keep away from it the receivers that change the process of our workers.
        for signal in (worker_init, worker_process_init, worker_ready, worker_shutting_down, worker_shutdown):
            monkeypatch.setattr(signal, "receivers", [])
        monkeypatch.setattr(Logging, "setup", lambda *_, **__: None)
        done: SimpleQueue = SimpleQueue()
        team = an_app(f"redis+socket://{redis_socket}", task_ignore_result=True)

        @team.task(name="reports.build", bind=True)
        def build(self, number, *, name):
            done.put((number, name, self.request.id))

        with start_worker(
            team,
            perform_ping_check=False,
            pool="solo",
            queues=["team.live"],
            shutdown_timeout=10,
        ):
            project.set_current()
            ended = run(
                "celery_task",
                {"task": "reports.build", "args": [5], "kwargs": {"name": "x"}, "queue": "team.live"},
            )
            assert done.get(timeout=10) == (5, "x", ended.result["celery_task_id"])
        reset_worker_optimizations(team)

    @pytest.mark.parametrize(
        ("payload", "path"),
        [({"task": "jobs.webhook"}, "task"), ({"task": "celery.backend_cleanup"}, "task"),
         ({"task": ""}, "task"), ({"task": "a b"}, "task"), ({"task": "t", "queue": "jobs.noop"}, "queue"),
         ({"task": "t", "queue": "w@h.celery.pidbox"}, "queue"), ({"task": "t", "queue": "unacked"}, "queue"),
         ({"task": "t", "queue": "_kombu.x"}, "queue"), ({"task": "t", "queue": "q\x06\x16"}, "queue"),
         ({"task": "t", "queue": "q" * 201}, "queue"), ({"task": "t", "countdown": 5}, "countdown"),
         ({"task": "t", "args": {}}, "args"), ({"task": "t", "kwargs": []}, "kwargs")],
    )  # fmt: skip
    def test_refuses_what_would_come_back_or_break_the_broker(self, payload, path):
        with pytest.raises(InvalidInput) as caught:
            registry.validate_payload("celery_task", payload)
        assert set(caught.value.errors) == {f"payload.{path}"}


class TestMessage:
    @pytest.mark.parametrize("body", [{"a": ["ü", None]}, [], "text", 5, None])
    def test_publishes_json_with_the_ids_of_the_firing(self, run, take, body):
        ended = run(
            "message", {"queue": "events", "body": body, "headers": {"kind": "x", "carillon_fence": "no"}}
        )
        assert (ended.kind, ended.result) == ("succeeded", None), ended
        message = take("events")
        assert (message.content_type, message.payload) == ("application/json", body)
        assert (message.headers["kind"], message.headers["carillon_fence"]) == ("x", 7)
        assert message.headers["carillon_trigger"] == message.properties["message_id"]

    @pytest.mark.parametrize(
        ("name", "payload", "queue"),
        [("message", {"queue": "events", "body": 1, "headers": {"traceparent": "mine"}}, "events"),
         ("celery_task", {"task": "t"}, "celery")],
    )  # fmt: skip
    def test_is_part_of_the_attempts_trace(self, run, take, name, payload, queue):
        trace = TraceContext("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", 1, "congo=t61")
        assert run(name, payload, trace=trace).kind == "succeeded"
        headers = take(queue).headers
        assert (headers["traceparent"], headers["tracestate"]) == (trace.traceparent, "congo=t61")

    def test_publishes_plain_text_as_it_stands(self, run, take):
        run("message", {"queue": "events", "body": "grün", "content_type": "text/plain"})
        message = take("events")
        assert (message.content_type, message.payload) == ("text/plain", "grün")

    @pytest.mark.parametrize(
        "payload",
        [{"body": 1}, {"queue": "q"}, {"queue": "jobs.webhook", "body": 1},
         {"queue": "q", "body": 1, "headers": {"a b": "x"}}, {"queue": "q", "body": 1, "headers": {"a": 1}},
         {"queue": "q", "body": 1, "content_type": "text/plain"},
         {"queue": "q", "body": 1, "content_type": "application/x-python-serialize"}],
    )  # fmt: skip
    def test_refuses_what_it_cannot_publish(self, payload):
        with pytest.raises(InvalidInput):
            registry.validate_payload("message", payload)


class TestQueuesOfCarillonItself:
    """The broker's Redis also counts rates: a list under such a name would switch a limit off."""

    @pytest.mark.parametrize("queue", [PREFIX + "tenant:7", "carillon:wake:0:carillon"])
    @pytest.mark.parametrize(("name", "payload"), [("celery_task", {"task": "t"}), ("message", {"body": 1})])
    def test_are_refused_when_the_job_is_made_and_when_it_runs(
        self, run, project, redis_socket, name, payload, queue
    ):
        with pytest.raises(InvalidInput) as caught:
            registry.validate_payload(name, {**payload, "queue": queue})
        [message] = caught.value.errors["payload.queue"]
        assert ("carillon:*" in message) is queue.startswith("carillon:")
        # A job from before the rule.
        ended = run(name, {**payload, "queue": queue})
        assert (ended.kind, ended.error_code) == ("failed", "invalid_payload"), ended
        assert "payload.queue" in ended.error_message
        with redis.Redis(unix_socket_path=str(redis_socket)) as server:
            assert not server.exists(queue)


class TestBroker:
    @pytest.mark.parametrize(
        ("name", "payload"), [("celery_task", {"task": "t"}), ("message", {"queue": "q", "body": 1})]
    )
    @pytest.mark.parametrize(
        "url", ["redis+socket:///nowhere/r.sock", "redis://127.0.0.1:1/0", "amqp://127.0.0.1:1//"]
    )
    def test_that_is_away_fails_the_attempt_for_a_retry(self, run, name, payload, url, monkeypatch):
        monkeypatch.setattr("redis.retry.sleep", lambda _: None)
        with as_current(an_app(url, task_create_missing_queues=False)):
            for ended in (
                run(name, payload),
                run(name, payload),
            ):  # the second meets a pooled, broken connection
                assert (ended.kind, ended.permanent, ended.error_code) == ("failed", False, "broker"), ended

    def test_that_dropped_our_connection_is_reconnected_to_at_once(self, run, take, project, redis_socket):
        run("message", {"queue": "events", "body": 1})
        with redis.Redis(unix_socket_path=str(redis_socket)) as operator:
            operator.client_kill_filter(_type="normal", skipme=True)
        assert run("message", {"queue": "events", "body": 2}).kind == "succeeded"
        assert [take("events").payload, take("events").payload] == [1, 2]

    def test_has_every_queue_when_it_makes_them_with_their_first_message(self, project, make_context):
        with project.producer_or_acquire() as producer:
            assert broker.has_queue(producer, make_context(), "never.seen")

    @pytest.mark.parametrize("exists", [True, False])
    def test_is_asked_for_the_queue_on_a_channel_of_its_own_when_it_would_drop(self, exists, make_context):
        assert broker.has_queue(AmqpProducer(exists=exists), make_context(), "q") is exists

    def test_that_counts_too_many_messages_in_a_queue_is_asked_again_later(self, make_context):
        with pytest.raises(HandlerError, match="10,000 messages") as full:
            broker.has_queue(AmqpProducer(exists=True, messages=10_000), make_context(), "q")
        assert full.value.code == "queue_full"


class AmqpProducer:
    """The part of a producer on RabbitMQ that ``has_queue`` uses. There a passive declaration asks for a queue."""

    def __init__(self, *, exists: bool, messages: int = 9_999) -> None:
        self.exists, self.messages = exists, messages
        self.connection = self.transport = self
        self.driver_type = "amqp"

    def ensure_connection(self, **_):
        return self

    def ensure(self, producer, look, **_):
        return look

    @contextmanager
    def channel(self):
        yield self

    def queue_declare(self, *, queue, passive):
        assert passive
        if not self.exists:
            raise NotFound(f"no queue {queue!r}")
        return SimpleNamespace(message_count=self.messages)
