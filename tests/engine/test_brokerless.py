"""Without the broker, messages lie in Postgres until it is back, under the same fences as ever."""

import json
import os
import threading
from base64 import b64decode
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from django.db import connection
from kombu import Queue
from kombu.utils.json import dumps

from jobs import tasks
from jobs.broker import Channel
from jobs.engine.beat import _leave_in_postgres
from jobs.engine.dispatcher import Message, PublishError
from jobs.engine.publisher import Publisher, _envelopes
from jobs.engine.worker.brokerless import Brokerless
from jobs.engine.worker.process import THIS
from jobs.models import Message as Row
from jobs.models.fields import new_id
from jobs.store.dispatch import messages
from jobs.store.execution import ClaimToken
from scheduler_project.celery import _prepare_to_go_without_broker, _supported_pool
from stage.waiting import wait_until
from tests import factories
from tests.engine.conftest import Beat, Perform, queued
from tests.factories import attempts, claim_token, make_job, make_triggers, states

NOBODY = "redis://127.0.0.1:1/0"


def left() -> int:
    return Row.objects.count()


def taker(slots: int = 1, perform: Callable[[str, Any], object] | None = None) -> Brokerless:
    return Brokerless(
        job_types=["noop"], slots=slots, perform=perform or partial(tasks.perform, worker_name="w1")
    )


def _opened(envelope: str | bytes) -> dict[str, Any]:
    """An envelope of kombu's with what its body says: the same JSON may be written with more or fewer blanks."""
    read: dict[str, Any] = json.loads(envelope)
    return read | {"body": json.loads(b64decode(read["body"]))}


class TestPublisher:
    @pytest.fixture
    def app(self, settings: Any) -> Celery:
        app = Celery(broker=settings.CELERY_BROKER_URL, set_as_current=False, fixups=())
        app.conf.task_queues = [Queue("jobs.noop", exchange="", routing_key="jobs.noop")]
        app.conf.broker_transport_options = settings.CELERY_BROKER_TRANSPORT_OPTIONS
        return app

    def test_is_not_ready_without_the_broker_and_without_another_way(self, app: Celery) -> None:
        app.conf.broker_url = NOBODY
        publisher = Publisher(app)
        assert not publisher.ready()
        with pytest.raises(PublishError):
            publisher([Message("noop", (ClaimToken(new_id(), 1),))])

    def test_goes_another_way_until_the_broker_is_back(self, app: Celery) -> None:
        reachable, app.conf.broker_url = app.conf.broker_url, NOBODY
        instead: list[Message] = []
        publisher = Publisher(app, instead=instead.extend)
        message = Message("noop", (ClaimToken(new_id(), 1),))
        assert publisher.ready()
        publisher([message])
        assert instead == [message]
        app.conf.broker_url = reachable
        publisher._retry_at = 0.0
        publisher([message])
        assert instead == [message]
        with app.connection_for_read() as broker:
            channel = broker.channel()
            queue = Queue("jobs.noop", exchange="", routing_key="jobs.noop")(channel)
            sent = queue.get(no_ack=True)
            # Workers of the versions before and after read these fields. Fields may be added; none may be removed.
            assert sent.payload[0] == [[[str(message.tokens[0].id), 1]]]
            assert sent.payload[1] == {}
            assert sent.headers["task"] == "jobs.noop"
            assert sent.headers.keys() >= {"lang", "task", "id"}
            assert sent.headers["argsrepr"] == f"noop: 1 trigger, {message.tokens[0].id}"
        publisher.close()

    def test_knows_a_slow_broker_by_the_last_messages(
        self, app: Celery, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now, publisher = [0.0], Publisher(app)
        publisher([])
        monkeypatch.setattr("jobs.engine.publisher.time.monotonic", lambda: now[0])
        for seconds in (0.05, 2.0, 0.05):
            monkeypatch.setattr(Channel, "push", lambda *_, took=seconds: now.__setitem__(0, now[0] + took))
            publisher([Message("noop", (ClaimToken(new_id(), 1),))])
            assert publisher.is_slow() is (seconds == 2.0)
        publisher.close()

    @pytest.mark.parametrize("urgent", [False, True])
    def test_writes_for_redis_what_kombu_would(
        self, app: Celery, monkeypatch: pytest.MonkeyPatch, urgent: bool
    ) -> None:
        one_id = new_id()
        put: list[tuple[str, Any]] = []
        monkeypatch.setattr("jobs.engine.publisher.new_id", lambda: one_id)
        message = Message("noop", (ClaimToken(new_id(), 1), ClaimToken(new_id(), 7)), urgent=urgent)
        publisher = Publisher(app)
        assert publisher.ready()
        assert publisher._producer is not None
        channel = publisher._producer.channel
        monkeypatch.setattr(channel, "_next_delivery_tag", lambda: str(one_id))
        monkeypatch.setattr(channel, "_put", lambda queue, envelope, **_: put.append((queue, envelope)))
        publisher._send(message)
        publisher.close()
        [((queue, priority), [envelope])] = _envelopes([message]).items()
        [(kombus_queue, kombus)] = put
        assert queue == kombus_queue
        assert _opened(envelope) == _opened(dumps(kombus))
        assert priority == (0 if urgent else 1)

    def test_spends_little_of_its_time_on_a_broker_that_hangs(
        self, app: Celery, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = [0.0]

        def hang() -> None:
            now[0] += 3.0
            raise OSError("timed out")

        monkeypatch.setattr("jobs.engine.publisher.time.monotonic", lambda: now[0])
        publisher = Publisher(app, instead=lambda _: None)
        monkeypatch.setattr(publisher, "_connect", hang)
        publisher.ready()
        assert publisher._retry_at == 33.0


@pytest.mark.django_db
class TestMessages:
    def test_are_taken_oldest_first_by_whoever_serves_their_type(self) -> None:
        tokens = [ClaimToken(new_id(), fence) for fence in range(3)]
        messages.put([("noop", tokens[:1]), ("webhook", tokens[1:2]), ("noop", tokens[2:])])
        taken = [messages.take(["noop", "other"]) for _ in range(3)]
        assert [message and message.items for message in taken] == [
            [[str(tokens[0].id), 0]],
            [[str(tokens[2].id), 2]],
            None,
        ]
        assert left() == 1

    def test_that_nobody_took_are_forgotten(self, clock: Callable[[timedelta], None]) -> None:
        messages.put([("noop", [])])
        assert messages.forget(older_than=factories.HOUR, limit=10) == 0
        clock(2 * factories.HOUR)
        assert messages.forget(older_than=factories.HOUR, limit=10) == 1
        assert left() == 0


@pytest.mark.django_db(transaction=True)
class TestTakers:
    def test_never_share_a_message(self) -> None:
        messages.put([("noop", [ClaimToken(new_id(), number)]) for number in range(60)])
        fences: list[int] = []

        def take_all() -> None:
            while message := messages.take(["noop"]):
                fences.append(message.items[0][1])
            connection.close()

        threads = [threading.Thread(target=take_all) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        # A taker that finds the oldest message locked takes the next. One that finds none leaves the rest to the
        # others.
        assert sorted(fences) == list(range(60))

    def test_look_by_themselves_until_they_are_stopped_and_outlive_a_failure(self, job_types: None) -> None:
        performed: list[Any] = []

        def perform(job_type: str, items: Any) -> None:
            performed.append(items)
            if len(performed) == 1:
                raise RuntimeError("deliberate")

        without = taker(perform=perform)
        without.start()
        messages.put([("noop", [ClaimToken(new_id(), 1)]), ("noop", [ClaimToken(new_id(), 2)])])
        wait_until(lambda: len(performed) == 2)
        without.stop()
        messages.put([("noop", [])])
        [thread] = [t for t in threading.enumerate() if t.name == "carillon-brokerless-0"] or [None]
        if thread is not None:
            thread.join(10)
        assert len(performed) == 2
        assert left() == 1


@pytest.mark.django_db
class TestBrokerless:
    @pytest.fixture
    def beat(self, make_beat: Callable[..., Beat], broker: Any) -> Beat:
        broker.publish = _leave_in_postgres
        return make_beat(leader_election=False)

    def test_carries_firings_from_dispatch_to_their_ends(self, beat: Beat, perform: Perform) -> None:
        triggers = make_triggers(make_job(), 3)
        beat.step()
        assert states(triggers) == ["queued"] * 3
        without = taker()
        assert [without.turn() for _ in range(4)] == [True, True, True, False]
        assert states(triggers) == ["succeeded"] * 3
        assert [(a.worker, a.celery_task_id) for a in attempts(triggers[0])] == [("w1", "")]
        assert left() == 0

    def test_does_nothing_with_a_message_that_came_the_other_way_too(self, perform: Perform) -> None:
        trigger = queued("noop")
        for _ in range(2):
            messages.put([("noop", [claim_token(trigger)])])
        perform(trigger)
        without = taker()
        assert without.turn()
        assert without.turn()
        assert len(attempts(trigger)) == 1

    def test_drops_garbage(self, perform: Perform) -> None:
        Row.objects.create(job_type="noop", items={"a": ["b"]}, created_at=factories.now())
        assert taker().turn()
        assert left() == 0

    def test_leaves_messages_while_its_process_is_busy(self, perform: Perform) -> None:
        messages.put([("noop", [])])
        without = taker(slots=2)
        with without.slot(), without.slot():
            assert not without.turn()
        assert left() == 1
        with without.slot():
            assert without.turn()

    def test_takes_nothing_more_once_it_is_stopped(self, perform: Perform) -> None:
        messages.put([("noop", [])])
        without = taker()
        without.stop()
        assert not without.turn()
        assert left() == 1


class TestPools:
    @pytest.mark.parametrize(
        ("pool", "concurrency", "slots"),
        [("prefork", 8, 1), ("solo", 8, 1), ("threads", 8, 8), ("threads", "auto", os.cpu_count())],
    )
    def test_have_a_slot_for_each_message_that_may_run_in_a_process(
        self, pool: str, concurrency: Any, slots: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(THIS, "brokerless", None)
        monkeypatch.setattr(Brokerless, "start", lambda _: None)
        queues = SimpleNamespace(consume_from={"jobs.noop": None})
        app = SimpleNamespace(amqp=SimpleNamespace(queues=queues))
        worker = SimpleNamespace(pool_cls=pool, concurrency=concurrency, hostname="w1", app=app)
        _prepare_to_go_without_broker(worker, _supported_pool(worker))
        assert THIS.brokerless is not None
        assert (THIS.brokerless._slots, THIS.brokerless._job_types) == (slots, ["noop"])
