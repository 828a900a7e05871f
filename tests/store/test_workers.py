"""The list of workers: who is there, by the database's clock."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial

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


class TestTwoProcessesOfOneName:
    def test_each_hears_of_the_other_when_it_announces(self) -> None:
        announce = partial(workers.announce, name="w1", queues=[], concurrency=1)
        assert announce(process="7-a") is None
        assert announce(process="7-a") is None
        assert announce(process="8-b") == "7-a"
        assert announce(process="7-a") == "8-b"

    def test_who_is_silent_is_no_other(self, clock: Callable[[timedelta], None]) -> None:
        workers.announce(name="w1", queues=[], concurrency=1, process="7-a")
        clock(31 * SECOND)
        assert workers.announce(name="w1", queues=[], concurrency=1, process="8-b") is None

    def test_leave_for_themselves_alone(self) -> None:
        workers.announce(name="w1", queues=[], concurrency=1, process="7-a")
        workers.leave(name="w1", process="8-b")
        assert names() == ["w1"]
        workers.leave(name="w1", process="7-a")
        assert names() == []

    def test_are_told_apart_and_their_name_is_told(self) -> None:
        for process in ("7-a", "8-b"):
            workers.announce(name=workers.own_name("w1", process), queues=[], concurrency=1, process=process)
        workers.announce(name="w2", queues=[], concurrency=1, process="9-c")
        assert names() == ["w1 (process 7-a)", "w1 (process 8-b)", "w2"]
        assert workers.shared_names(workers.present()) == ["w1"]


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
