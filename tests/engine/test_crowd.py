"""Materializing beside dispatch: nothing comes twice, nothing is lost, and whatever ails either is the turn's."""

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError, connection

from jobs.conf import engine_settings
from jobs.engine import cycle as module
from jobs.engine.cycle import Cycle
from jobs.engine.dispatcher import Lane
from jobs.engine.firing.crowd import Crowd
from jobs.models import Job, Trigger
from jobs.store import db
from jobs.store.leases import Reign
from tests import factories
from tests.engine.conftest import Broker
from tests.factories import MINUTE, make_job, make_tenant, wait_until

pytestmark = pytest.mark.django_db(transaction=True)
BATCH = 20
JOBS = 5 * BATCH
REIGN = Reign("leader", "test", None)


@pytest.fixture
def crowd() -> list[Job]:
    """Jobs that all fire now, and in a minute again."""
    tenant, at = make_tenant(), factories.now()
    return [make_job(tenant, next_fire_at=at, interval=MINUTE, created_at=at - MINUTE) for _ in range(JOBS)]


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The thread of each pass of materialize."""
    seen: list[str] = []
    materialize = module.materialize

    def noted(**arguments: Any) -> int:
        seen.append(threading.current_thread().name)
        return materialize(**arguments)

    monkeypatch.setattr(module, "materialize", noted)
    return seen


@pytest.fixture
def cycle(job_types: None, broker: Broker) -> Iterator[Cycle]:
    """A leading beat that materializes abreast, in small passes."""
    found = Cycle(
        # Nobody takes from the queue here: measured in a slow moment, its window would shrink to what is taken.
        settings=engine_settings().model_copy(
            update={"materialize_batch": BATCH, "look_ahead_seconds": 1.0, "queue_window_lowest": JOBS}
        ),
        lanes=lambda: {"noop": Lane(None, 100)},
        publish=broker.publish,
        abreast=True,
    )
    yield found
    found.close()


def backends() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return int(cursor.fetchone()[0])


class TestCrowd:
    def test_each_firing_is_queued_once_and_calm_needs_no_thread(
        self, cycle: Cycle, broker: Broker, crowd: list[Job], threads: list[str]
    ) -> None:
        before = backends()
        while cycle.tick() == 0.0:
            pass
        assert Counter(Trigger.objects.values_list("job_id", flat=True)) == dict.fromkeys(
            [job.id for job in crowd], 1
        )
        assert len({grip.id for grip in broker.grips}) == len(broker.grips) == JOBS
        assert threads[0] == "MainThread", "nobody knew of a crowd yet"
        assert all(name.startswith("materialize") for name in threads[1:-1])
        assert threads[-1] == "MainThread", "the crowd was through"
        wait_until(lambda: backends() <= before, what="the thread to give up its connection")

    def test_a_database_gone_under_the_thread_costs_a_turn(
        self, cycle: Cycle, crowd: list[Job], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert cycle.tick() == 0.0
        whole = module.materialize

        def cut_off(**arguments: Any) -> int:
            monkeypatch.setattr(module, "materialize", whole)
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
            return whole(**arguments)

        monkeypatch.setattr(module, "materialize", cut_off)
        assert cycle.tick() == module.AWAY_SECONDS
        assert not cycle.leading
        while cycle.tick() == 0.0:
            pass
        assert Trigger.objects.count() == JOBS

    def test_a_deposed_leaders_thread_writes_nothing(
        self, cycle: Cycle, crowd: list[Job], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert cycle.tick() == 0.0
        whole, known = module.materialize, Trigger.objects.count()

        def deposed(**arguments: Any) -> int:
            with connection.cursor() as cursor:
                cursor.execute(
                    "UPDATE jobs_lease SET term = term + 1, holder = 'another' WHERE name = 'leader'"
                )
            return whole(**arguments)

        monkeypatch.setattr(module, "materialize", deposed)
        cycle.tick()
        assert Trigger.objects.count() == known


class TestBeside:
    def test_passes_go_on_until_the_other_is_done(self) -> None:
        passes: list[None] = []
        crowd = Crowd(lambda _: passes.append(None) or True)
        more, found = crowd.beside(REIGN, lambda: wait_until(lambda: len(passes) > 3))
        assert (more, found) == (True, True)

    def test_ends_with_the_crowd(self) -> None:
        left = iter([True, True, False])
        assert Crowd(lambda _: next(left)).beside(REIGN, lambda: wait_until(lambda: not list(left))) == (
            False,
            True,
        )

    def test_the_others_error_waits_for_the_pass(self) -> None:
        began, ended = threading.Event(), threading.Event()

        def slow(_: Reign) -> bool:
            began.set()
            ended.wait(0.2)
            ended.set()
            return True

        def fails() -> None:
            began.wait(10)
            raise OperationalError("the server is gone")

        with pytest.raises(db.DISCONNECTED, match="gone"):
            Crowd(slow).beside(REIGN, fails)
        assert ended.is_set()

    @pytest.mark.parametrize("error", [OperationalError("away"), ValueError("a bug")])
    def test_the_threads_error_is_the_turns(self, error: Exception) -> None:
        def fails(_: Reign) -> bool:
            raise error

        with pytest.raises(type(error), match=str(error)):
            Crowd(fails).beside(REIGN, lambda: None)
