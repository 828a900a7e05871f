"""Actions against each other and against the engine, each from a connection of its own."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event
from typing import Any

import pytest
from django.db import connection

from jobs.actions import jobs as actions
from jobs.actions import triggers
from jobs.core.errors import CarillonError
from jobs.engine.firing.materializer import materialize
from jobs.models import Job, Trigger
from jobs.store import db
from stage.waiting import wait_until
from tests import factories
from tests.factories import MINUTE, make_job, make_tenant, make_trigger, make_triggers

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("job_types")]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as threads:
        yield threads


def at_once(pool: ThreadPoolExecutor, number: int, action: Callable[[int], Any]) -> list[Any]:
    """The results of ``number`` simultaneous calls; for a call that raised an error of Carillon's, that error."""
    start = Barrier(number)

    def call(index: int) -> Any:
        try:
            start.wait()
            return action(index)
        except CarillonError as error:
            return type(error).__name__
        finally:
            connection.close()

    return list(pool.map(call, range(number)))


def definition(name: str) -> dict[str, Any]:
    return {"name": name, "job_type": "noop", "schedule": {"type": "interval", "every_seconds": 60}}


class TestCreate:
    def test_gives_a_name_to_one_of_many(self, pool: ThreadPoolExecutor) -> None:
        tenant = make_tenant()
        answers = at_once(pool, 8, lambda _: actions.create_job(tenant=tenant, definition=definition("same")))
        assert answers.count("Conflict") == 7
        assert Job.objects.count() == 1

    def test_never_exceeds_the_quota(self, pool: ThreadPoolExecutor) -> None:
        tenant = make_tenant(max_jobs=3)
        answers = at_once(
            pool, 8, lambda n: actions.create_job(tenant=tenant, definition=definition(f"job {n}"))
        )
        assert answers.count("QuotaExceeded") == 5
        assert Job.objects.count() == 3


class TestEdit:
    def test_of_one_version_succeeds_once(self, pool: ThreadPoolExecutor) -> None:
        job = make_job()
        answers = at_once(
            pool,
            8,
            lambda n: actions.update_job(
                tenant=job.tenant, job_id=job.id, changes={"timeout_seconds": n + 1}, expected_version=1
            ),
        )
        assert answers.count("EditedMeanwhile") == 7
        job.refresh_from_db()
        assert job.version == 2


class TestPause:
    def test_lets_no_dispatch_start_anything_afterwards(self, pool: ThreadPoolExecutor) -> None:
        job = make_job()
        make_triggers(job, 20)

        def act(index: int) -> Any:
            if index == 0:
                actions.pause_job(tenant=job.tenant, job_id=job.id)
                return "paused"
            return factories.dispatch(limit=3)

        at_once(pool, 8, act)
        assert not Trigger.objects.filter(state="queued").exists()
        assert factories.dispatch().queued == []

    def test_waits_for_the_beat_that_materializes_and_holds_what_it_made(
        self, pool: ThreadPoolExecutor
    ) -> None:
        job = make_job(next_fire_at=factories.now() - MINUTE)
        inserted, go_on = Event(), Event()

        def beat() -> None:
            try:
                with db.atomic():
                    materialize(leadership=factories.ANYONE, look_ahead=MINUTE, limit=10)
                    inserted.set()
                    assert go_on.wait(10)
            finally:
                connection.close()

        def pause() -> None:
            try:
                actions.pause_job(tenant=job.tenant, job_id=job.id)
            finally:
                connection.close()

        beating = pool.submit(beat)
        assert inserted.wait(10)
        pausing = pool.submit(pause)
        wait_until(_somebody_waits_for_a_lock, what="the pause waits for the beat")
        go_on.set()
        beating.result(10)
        pausing.result(10)
        made = list(Trigger.objects.values_list("state", "held"))
        assert made
        assert set(made) == {("pending", True)}


class TestReplay:
    def test_of_all_by_several_operators_replays_each_once(self, pool: ThreadPoolExecutor) -> None:
        job = make_job()
        dead = make_triggers(job, 30, "dead")
        answers = at_once(pool, 4, lambda _: triggers.replay_dead_letters(tenant=job.tenant, batch=7))
        assert sum(answers) == len(dead)
        assert set(Trigger.objects.values_list("state", "replay_count")) == {("pending", 1)}


class TestCancel:
    def test_and_replay_of_one_trigger_leave_it_in_one_state(self, pool: ThreadPoolExecutor) -> None:
        trigger = make_trigger(make_job(), "dead")
        both = (triggers.replay_trigger, triggers.cancel_trigger)
        answers = at_once(pool, 2, lambda n: both[n](tenant=trigger.tenant, trigger_id=trigger.id).state)
        assert (answers, factories.state_of(trigger)[0]) in (
            (["pending", "cancelled"], "cancelled"),
            (["pending", "Conflict"], "pending"),
        )


def _somebody_waits_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        return bool(cursor.fetchone()[0])
