"""A Redis that was emptied has lost its messages. A beat notices, and their triggers are dispatched again."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from redis import Redis

from jobs.broker import MARK, BrokerMemory
from jobs.models import Trigger
from stage.waiting import wait_until
from tests.engine.conftest import Beat, Broker
from tests.factories import make_job, make_triggers, states


@pytest.fixture
def redis() -> Iterator[Redis]:
    url = settings.CELERY_BROKER_URL.replace("redis+socket://", "unix://").replace("virtual_host=", "db=")
    with Redis.from_url(url) as client:
        client.delete(MARK)
        yield client
        client.delete(MARK)


class TestBrokerMemory:
    def test_tells_once_that_redis_was_emptied(self, redis: Redis) -> None:
        memory = BrokerMemory()
        assert [memory.forgot() for _ in range(2)] == [False, False]
        redis.delete(MARK)
        assert [memory.forgot() for _ in range(2)] == [True, False]

    def test_tells_each_beat(self, redis: Redis) -> None:
        beats = [BrokerMemory() for _ in range(2)]
        assert [memory.forgot() for memory in beats] == [False, False]
        redis.delete(MARK)
        assert [memory.forgot() for memory in beats] == [True, True]

    def test_holds_the_mark_that_is_there_for_no_loss(self, redis: Redis) -> None:
        BrokerMemory().forgot()
        mark, later = redis.get(MARK), BrokerMemory()
        assert not later.forgot()
        assert redis.get(MARK) == mark

    def test_cannot_tell_while_redis_is_away_and_tells_when_it_is_back(
        self, redis: Redis, settings: Any
    ) -> None:
        memory, url = BrokerMemory(), settings.CELERY_BROKER_URL
        assert not memory.forgot()
        redis.client_kill_filter(_type="normal", skipme=True)
        settings.CELERY_BROKER_URL = "redis://127.0.0.1:1/0"
        assert not memory.forgot()
        redis.delete(MARK)
        settings.CELERY_BROKER_URL = url
        wait_until(memory.forgot, timeout=10, what="the loss to be noticed")

    def test_asks_nothing_of_another_kind_of_broker(self, settings: Any) -> None:
        settings.CELERY_BROKER_URL = "amqp://127.0.0.1:1//"
        assert not BrokerMemory().forgot()


@pytest.mark.django_db
class TestABeatWhoseBrokerForgot:
    def test_dispatches_again_what_was_queued(
        self,
        beat: Beat,
        broker: Broker,
        clock: Callable[[timedelta], None],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        triggers = make_triggers(make_job(max_concurrent=3, overlap_policy="allow"), 3)
        beat.step()
        assert states(triggers) == ["queued"] * 3
        broker.messages.clear()
        clock(timedelta(seconds=1))
        answers = iter([True])
        monkeypatch.setattr(beat.cycle, "_forgot", lambda: next(answers, False))
        beat.cycle.steps["broker memory"].hurry()
        beat.step()
        beat.step()
        assert {(token.id, token.fence) for token in broker.tokens} == {(t.id, 2) for t in triggers}
        assert set(Trigger.objects.values_list("state", "fence")) == {("queued", 2)}
        broker.messages.clear()
        beat.step()
        assert broker.messages == []
