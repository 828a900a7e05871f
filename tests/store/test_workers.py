"""The list of workers: who is there, by the database's clock."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from jobs.models import Worker
from jobs.store.insight import workers
from tests.factories import SECOND

pytestmark = pytest.mark.django_db


def names() -> list[str]:
    return [row.name for row in workers.present()]


class TestAnnounce:
    def test_puts_a_worker_on_the_list_with_what_it_takes_from(self) -> None:
        workers.announce(name="w1", queues=["jobs.webhook", "jobs.noop"], concurrency=4)
        [row] = workers.present()
        assert (row.name, row.queues, row.concurrency) == ("w1", ["jobs.noop", "jobs.webhook"], 4)

    def test_again_says_what_it_takes_from_now(self, clock: Callable[[timedelta], None]) -> None:
        workers.announce(name="w1", queues=["jobs.webhook"], concurrency=4)
        clock(20 * SECOND)
        workers.announce(name="w1", queues=["jobs.noop"], concurrency=2)
        clock(40 * SECOND)
        [row] = workers.present()
        assert (row.queues, row.concurrency) == (["jobs.noop"], 2)

    def test_forgets_others_after_a_day_of_silence(self, clock: Callable[[timedelta], None]) -> None:
        workers.announce(name="w1", queues=[], concurrency=1)
        clock(timedelta(hours=23))
        workers.announce(name="w2", queues=[], concurrency=1)
        assert Worker.objects.count() == 2
        clock(timedelta(hours=25))
        workers.announce(name="w1", queues=[], concurrency=1)
        workers.announce(name="w2", queues=[], concurrency=1)
        clock(timedelta(hours=60))
        workers.announce(name="w1", queues=[], concurrency=1)
        assert [worker.name for worker in Worker.objects.all()] == ["w1"]


class TestPresent:
    def test_leaves_out_who_has_been_silent(self, clock: Callable[[timedelta], None]) -> None:
        workers.announce(name="w1", queues=[], concurrency=1)
        clock(29 * SECOND)
        assert names() == ["w1"]
        clock(31 * SECOND)
        assert names() == []

    def test_leaves_out_who_has_left(self) -> None:
        workers.announce(name="w1", queues=[], concurrency=1)
        workers.leave(name="w1")
        workers.leave(name="w1")
        assert names() == []
