"""History: partitions of the attempts, retention, and Celery's results, each written once."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django_celery_results.models import TaskResult

from jobs.models import Attempt, Trigger
from jobs.models.fields import new_id
from jobs.store import history as store
from tests import factories
from tests.factories import HOUR, make_attempt, make_job, make_trigger

pytestmark = pytest.mark.django_db
Clock = Callable[[timedelta], None]
DAY, WEEK, RETENTION = timedelta(days=1), timedelta(days=7), timedelta(days=90)


def partition_of(attempt: Attempt) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT tableoid::regclass::text FROM jobs_attempt WHERE id = %s", [attempt.id])
        return str(cursor.fetchone()[0])


def rows_in(table: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {table}")
        return int(cursor.fetchone()[0])


class TestPartitions:
    def test_are_there_from_the_first_migration(self) -> None:
        attempt = make_attempt(make_trigger())
        monday = factories.now().date() - factories.now().weekday() * DAY
        assert partition_of(attempt) == f"jobs_attempt_{monday:%Y%m%d}"
        assert store.ensure_partitions() == []

    def test_are_created_ahead_week_by_week(self, clock: Clock) -> None:
        clock(WEEK)
        [name] = store.ensure_partitions()
        assert store.ensure_partitions() == []
        clock(5 * WEEK)
        assert partition_of(make_attempt(make_trigger())) == name

    def test_take_over_what_fell_into_the_default_one(self, clock: Clock) -> None:
        clock(20 * WEEK)
        attempt = make_attempt(make_trigger())
        assert partition_of(attempt) == "jobs_attempt_default"
        created = store.ensure_partitions()
        assert len(created) == 5
        assert partition_of(attempt) == created[0]
        assert rows_in("jobs_attempt_default") == 0

    def test_are_dropped_once_past_retention(self, clock: Clock) -> None:
        old = make_attempt(make_trigger())
        name = partition_of(old)
        clock(RETENTION)
        assert name not in store.drop_partitions(retention=RETENTION)
        clock(RETENTION + WEEK)
        store.ensure_partitions()
        new = make_attempt(make_trigger())
        assert name in store.drop_partitions(retention=RETENTION)
        assert list(Attempt.objects.filter(id__in=[old.id, new.id]).values_list("id", flat=True)) == [new.id]
        assert store.drop_partitions(retention=RETENTION) == []


class TestPurgeTriggers:
    @staticmethod
    def aged(days: float, state: str = "succeeded", **columns: Any) -> Trigger:
        moment = factories.now() - days * DAY
        trigger_id = UUID(int=(int(moment.timestamp() * 1000) << 80) | new_id().int & (1 << 80) - 1)
        return make_trigger(
            make_job(), state, id=trigger_id, scheduled_for=moment, **({"finished_at": moment} | columns)
        )

    def test_drops_what_ended_before_the_retention(self) -> None:
        old = [self.aged(91, state) for state in ("succeeded", "dead", "skipped", "cancelled")]
        kept = [self.aged(89), self.aged(91, "pending", finished_at=None)]
        kept.append(self.aged(91, finished_at=factories.now() - DAY))
        assert store.purge_triggers(retention=RETENTION, limit=100) == len(old)
        assert set(Trigger.objects.values_list("id", flat=True)) == {trigger.id for trigger in kept}

    def test_is_bounded_and_begins_with_the_oldest(self) -> None:
        newer, older = self.aged(92), self.aged(95)
        assert store.purge_triggers(retention=RETENTION, limit=1) == 1
        assert (factories.row(older), bool(factories.row(newer))) == ({}, True)


class TestResults:
    @staticmethod
    def keep(task_id: str, result: object, **columns: Any) -> None:
        plain = {
            "task_name": "jobs.noop",
            "worker": "w1",
            "status": "SUCCESS",
            "traceback": None,
            "task_args": "()",
        }
        store.store_result(task_id=task_id, result=result, **(plain | columns))

    def test_are_written_once(self) -> None:
        self.keep("a", {"succeeded": 3})
        self.keep("a", {"stale": 3}, status="FAILURE")
        kept = TaskResult.objects.get()
        assert (kept.task_id, kept.status, kept.result) == ("a", "SUCCESS", '{"succeeded": 3}')
        assert (kept.task_name, kept.worker, kept.as_dict()["result"]) == (
            "jobs.noop",
            "w1",
            '{"succeeded": 3}',
        )

    def test_are_kept_without_name_or_worker(self) -> None:
        self.keep("a", None, task_name=None, worker=None, task_args=None, traceback="Boom")
        assert TaskResult.objects.get().traceback == "Boom"

    def test_are_purged_past_retention_a_bounded_number_at_a_time(self, clock: Clock) -> None:
        for task_id in "abc":
            self.keep(task_id, 1)
        assert store.purge_results(retention=HOUR, limit=2) == 0
        clock(2 * HOUR)
        self.keep("d", 1)
        assert [store.purge_results(retention=HOUR, limit=2) for _ in range(3)] == [2, 1, 0]
        assert TaskResult.objects.get().task_id == "d"
