"""Steps beside dispatch: nothing comes twice, nothing is lost, and trouble in one step does not affect the others."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import DataError, IntegrityError, InternalError, connection

from jobs.conf import engine_settings
from jobs.engine import cycle as module
from jobs.engine.cycle import Cycle
from jobs.engine.dispatcher import QueueConfig
from jobs.engine.leader import Leader
from jobs.models import Job, Lease, Trigger
from jobs.store import dispatch as dispatch_store
from jobs.store.db import StatementFailed
from stage.waiting import wait_until
from tests import factories
from tests.engine.conftest import Broker
from tests.factories import MINUTE, SECOND, make_job, make_tenant, make_trigger

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
BATCH = 20
JOBS = 5 * BATCH


@pytest.fixture
def burst() -> list[Job]:
    """Jobs that all fire now, and again in a minute."""
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
    """A leading beat with its threads, which materializes in small passes."""
    found = Cycle(
        # No worker takes from the queue here. Measured in a slow moment, the window would shrink to the number taken.
        settings=engine_settings().model_copy(
            update={"materialize_batch": BATCH, "look_ahead_seconds": 1.0, "queue_window_min": JOBS}
        ),
        configs=lambda: {"noop": QueueConfig(None, 100)},
        publish=broker.publish,
        abreast=True,
    )
    yield found
    found.close()


def turn_until(cycle: Cycle, done: Callable[[], Any]) -> None:
    """Make turns, as a beat does, until ``done``."""

    def turned() -> Any:
        cycle.tick()
        return done()

    wait_until(turned, timeout=30)


def all_queued(broker: Broker) -> bool:
    return len(broker.tokens) >= JOBS


class TestThreads:
    def test_queue_each_firing_of_a_crowd_once(
        self, cycle: Cycle, broker: Broker, burst: list[Job], threads: list[str]
    ) -> None:
        turn_until(cycle, lambda: all_queued(broker))
        cycle.close()
        assert Counter(Trigger.objects.values_list("job_id", flat=True)) == dict.fromkeys(
            [job.id for job in burst], 1
        )
        assert len({token.id for token in broker.tokens}) == len(broker.tokens) == JOBS
        assert set(threads) == {"firing"}

    def test_survive_a_database_that_goes_away_under_them(
        self, cycle: Cycle, broker: Broker, burst: list[Job], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        whole = module.materialize
        monkeypatch.setattr("jobs.engine.steps.abreast.AWAY_SECONDS", 0.05)

        def cut_off(**arguments: Any) -> int:
            monkeypatch.setattr(module, "materialize", whole)
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
            return whole(**arguments)

        monkeypatch.setattr(module, "materialize", cut_off)
        turn_until(cycle, lambda: all_queued(broker))
        cycle.close()
        assert Trigger.objects.count() == JOBS

    def test_of_a_deposed_leader_write_nothing(
        self, cycle: Cycle, burst: list[Job], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        whole, passes = module.materialize, list[int]()

        def deposed(**arguments: Any) -> int:
            with connection.cursor() as cursor:
                cursor.execute(
                    "UPDATE jobs_lease SET term = term + 1, holder = 'another' WHERE name = 'leader'"
                )
            passes.append(whole(**arguments))
            return passes[-1]

        monkeypatch.setattr(module, "materialize", deposed)
        turn_until(cycle, lambda: len(passes) > 3)
        assert (set(passes), Trigger.objects.count()) == ({0}, 0)

    def test_give_their_connections_up_when_the_beat_stands_by(self, cycle: Cycle) -> None:
        others = backends()
        turn_until(cycle, lambda: len(backends() - others) == 2)
        Lease.objects.update(term=99, holder="another")
        cycle.leader._renew_after = 0.0
        turn_until(cycle, lambda: not cycle.leading and not backends() - others)


def backends() -> set[int]:
    """Connections of clients to our database, by process id."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
        )
        return {pid for (pid,) in cursor.fetchall()}


class TestDispatch:
    """Dispatch of a beat one of whose other steps is in trouble."""

    @pytest.mark.parametrize("name", ["release", "materialize", "reap leases", "catch-up", "notices"])
    def test_goes_on_while_another_step_hangs(self, cycle: Cycle, broker: Broker, name: str) -> None:
        hangs, over = threading.Event(), threading.Event()

        def work(_: Any) -> bool:
            hangs.set()
            over.wait(20)
            return False

        cycle.steps[name]._work = work
        turn_until(cycle, hangs.is_set)
        trigger = make_trigger()
        turn_until(cycle, lambda: [token.id for token in broker.tokens] == [trigger.id])
        over.set()

    @pytest.mark.parametrize(
        "error",
        [
            StatementFailed("time-out"),
            IntegrityError("x"),
            DataError("y"),
            InternalError("z"),
            ValueError("a bug"),
        ],
    )
    @pytest.mark.parametrize(
        "name", ["inherit", "queues", "unpark", "materialize", "reap messages", "complete"]
    )
    def test_goes_on_while_another_step_fails(
        self, cycle: Cycle, broker: Broker, name: str, error: Exception
    ) -> None:
        dispatch_store.open_queues(["noop"], cycle._window)

        def work(_: Any) -> bool:
            raise error

        cycle.steps[name]._work = work
        turn_until(cycle, lambda: cycle.steps[name].failing_seconds)
        trigger = make_trigger()
        turn_until(cycle, lambda: [token.id for token in broker.tokens] == [trigger.id])
        assert cycle.steps[name].figures().failures

    def test_that_fails_does_not_end_the_others_nor_the_process(self, cycle: Cycle, burst: list[Job]) -> None:
        def work(_: Any) -> bool:
            raise IntegrityError("no")

        cycle.steps["dispatch"]._work = work
        turn_until(cycle, lambda: Trigger.objects.count() == JOBS)
        assert cycle.leading
        assert cycle.tick() <= 1.0, "tried again soon"

    def test_that_fails_for_long_gives_the_lease_up_and_leaves_it_to_another(
        self, cycle: Cycle, broker: Broker
    ) -> None:
        def work(_: Any) -> bool:
            raise StatementFailed("time-out")

        dispatching = cycle.steps["dispatch"]
        dispatching._work = work
        cycle.tick()
        assert cycle.leading
        dispatching._failing_since -= module.GIVE_UP_SECONDS
        dispatching.hurry()
        cycle.tick()
        assert (cycle.leading, cycle.leader.leadership) == (False, None)
        cycle.tick()
        assert cycle.leader.leadership is None, "a standby may take it"
        assert Leader(lease=10 * SECOND).lead() is not None
