"""Retention against people: rows asked for again at its edge are kept, and no purge waits for a lock."""

import time
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django_celery_results.models import TaskResult

from jobs.core.states import ENDED
from jobs.models import Attempt, CatchUp, SkippedRange, Trigger
from jobs.store import lifecycle, partitions, purge
from tests import factories
from tests.factories import make_job, make_trigger, row, state_of
from tests.races.conftest import Rival, at_once
from tests.store import test_purge as histories

pytestmark = pytest.mark.django_db(transaction=True)
DAY = timedelta(days=1)
RETENTION = 90 * DAY


def make_aged(state: str) -> Trigger:
    """A trigger that ended the day before the retention began."""
    ago = factories.now() - RETENTION - DAY
    return make_trigger(make_job(), state, id=histories.id_of(ago), scheduled_for=ago, finished_at=ago)


def replay(trigger: Trigger) -> None:
    """The statements of the action, one by one; the caller's transaction joins them."""
    lifecycle.lock_tenant(trigger.tenant_id)
    lifecycle.replay(trigger_ids=[trigger.id], tenant_id=trigger.tenant_id)


def purge_triggers(limit: int = 100) -> int:
    return purge.triggers(retention=RETENTION, limit=limit)


class TestPurgeAgainstReplay:
    @pytest.mark.parametrize("state", sorted(ENDED))
    def test_leaves_a_trigger_that_is_being_replayed(self, rival: Rival, state: str) -> None:
        trigger, other = make_aged(state), make_aged(state)
        with transaction.atomic():
            replay(trigger)
            answer = rival.start(purge_triggers)
            rival.wait_until_blocked_or_done()
        assert answer() == 1
        assert state_of(trigger) == ("pending", "")
        assert row(other) == {}

    def test_loses_none_that_was_acknowledged(self) -> None:
        triggers = [make_aged("dead") for _ in range(60)]

        def replay_all() -> list[Trigger]:
            replayed = []
            for trigger in triggers:
                with transaction.atomic():
                    lifecycle.lock_tenant(trigger.tenant_id)
                    replayed += lifecycle.replay(trigger_ids=[trigger.id], tenant_id=trigger.tenant_id)
            return replayed

        def purge_all() -> int:
            return sum(purge_triggers(limit=3) for _ in range(60))

        replayed, purged = at_once(replay_all, purge_all)
        left = set(Trigger.objects.filter(state="pending").values_list("id", flat=True))
        assert left == set(replayed)
        assert len(replayed) + purged == len(triggers)


class TestPurgeAgainstLocks:
    """Another transaction holds one of two rows: the purge takes the other, and comes back for the held one later."""

    def test_passes_over_a_locked_trigger(self, rival: Rival) -> None:
        self.check(rival, purge_triggers, Trigger, [make_aged("dead").pk, make_aged("dead").pk])

    def test_passes_over_locked_catch_up(self, rival: Rival) -> None:
        rows = [histories.TestPurgePasts.caught_up(91).pk for _ in range(2)]
        self.check(rival, lambda: purge.catchups(retention=RETENTION, limit=100), CatchUp, rows)

    def test_passes_over_a_locked_range(self, rival: Rival) -> None:
        rows = [histories.TestPurgePasts.skipped(91).pk for _ in range(2)]
        self.check(rival, lambda: purge.ranges(retention=RETENTION, limit=100), SkippedRange, rows)

    def test_passes_over_a_locked_result(self, rival: Rival) -> None:
        rows = [TaskResult.objects.create(task_id=name).pk for name in "ab"]
        TaskResult.objects.update(date_done=factories.now() - RETENTION - DAY)
        self.check(rival, lambda: purge.results(retention=RETENTION, limit=100), TaskResult, rows)

    @staticmethod
    def check(rival: Rival, purge: Callable[[], int], model: type, rows: list[object]) -> None:
        held = rows[0]
        with transaction.atomic():
            model.objects.select_for_update().get(pk=held)  # type: ignore[attr-defined]
            assert rival.do(purge) == 1
        assert list(model.objects.values_list("pk", flat=True)) == [held]  # type: ignore[attr-defined]
        assert purge() == 1

    def test_passes_over_a_record_of_an_effect_that_is_being_counted(self, rival: Rival) -> None:
        old = histories.id_of(factories.now() - RETENTION - DAY)
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO jobs_effect (trigger_id, key, fence) VALUES (%s, 'a', 1), (%s, 'b', 1)",
                [old, old],
            )
            with transaction.atomic():
                cursor.execute("UPDATE jobs_effect SET duplicates = duplicates + 1 WHERE key = 'a'")
                assert rival.do(lambda: purge.effects(retention=RETENTION, limit=100)) == 1
        assert purge.effects(retention=RETENTION, limit=100) == 1


class TestPartitionsAgainstReaders:
    @pytest.fixture
    def reader(self, rival: Rival) -> Iterator[None]:
        """A session reads the attempts for long, as pg_dump does."""
        rival.do(lambda: connection.set_autocommit(False))
        rival.do(lambda: Attempt.objects.count())
        yield
        rival.do(lambda: connection.rollback())
        rival.do(lambda: connection.set_autocommit(True))

    @pytest.fixture
    def clock_back(self) -> Iterator[None]:
        yield
        factories.set_clock(timedelta())

    @pytest.mark.usefixtures("reader", "clock_back")
    def test_give_way_and_are_taken_up_once_more(self, rival: Rival) -> None:
        factories.set_clock(7 * DAY)
        begun = time.monotonic()
        assert partitions.ensure(partitions.ATTEMPTS) == []
        factories.set_clock(RETENTION + 14 * DAY)
        assert partitions.drop(partitions.ATTEMPTS, before=factories.now() - RETENTION) == []
        assert time.monotonic() - begun < 2
        rival.do(lambda: connection.rollback())
        factories.set_clock(timedelta())
