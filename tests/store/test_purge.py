"""Retention: partitions of the attempts, rows that are deleted past it, and Celery's results, each written once."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.sessions.models import Session
from django.db import connection
from django_celery_results.models import TaskResult

from jobs.models import Attempt, CatchUp, Job, JobVersion, SkippedRange, Trigger
from jobs.models.fields import new_id
from jobs.store import execution, partitions, purge
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


def id_of(moment: datetime) -> UUID:
    """A UUIDv7 made at ``moment``."""
    return UUID(int=(int(moment.timestamp() * 1000) << 80) | new_id().int & (1 << 80) - 1)


def drop_past() -> list[str]:
    return partitions.drop(partitions.ATTEMPTS, before=factories.now() - RETENTION)


class TestPartitions:
    def test_are_there_from_the_first_migration(self) -> None:
        attempt = make_attempt(make_trigger())
        monday = factories.now().date() - factories.now().weekday() * DAY
        assert partition_of(attempt) == f"jobs_attempt_{monday:%Y%m%d}"
        assert partitions.ensure(partitions.ATTEMPTS) == []

    def test_are_created_ahead_week_by_week(self, clock: Clock) -> None:
        clock(WEEK)
        [name] = partitions.ensure(partitions.ATTEMPTS)
        assert partitions.ensure(partitions.ATTEMPTS) == []
        clock(5 * WEEK)
        assert partition_of(make_attempt(make_trigger())) == name

    def test_take_over_what_fell_into_the_default_one(self, clock: Clock) -> None:
        clock(20 * WEEK)
        attempt = make_attempt(make_trigger())
        assert partition_of(attempt) == "jobs_attempt_default"
        created = partitions.ensure(partitions.ATTEMPTS)
        assert len(created) == 5
        assert partition_of(attempt) == created[0]
        assert rows_in("jobs_attempt_default") == 0

    def test_are_dropped_once_past_retention(self, clock: Clock) -> None:
        old = make_attempt(make_trigger())
        name = partition_of(old)
        clock(RETENTION)
        assert name not in drop_past()
        clock(RETENTION + WEEK)
        partitions.ensure(partitions.ATTEMPTS)
        new = make_attempt(make_trigger())
        assert name in drop_past()
        assert list(Attempt.objects.filter(id__in=[old.id, new.id]).values_list("id", flat=True)) == [new.id]
        assert drop_past() == []

    def test_are_left_alone_by_a_role_that_may_not_make_tables_which_says_so(
        self, clock: Clock, caplog: pytest.LogCaptureFixture
    ) -> None:
        with connection.cursor() as cursor:
            cursor.execute("CREATE ROLE carillon_plain")
            cursor.execute(
                "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO carillon_plain"
            )
            cursor.execute("SET LOCAL ROLE carillon_plain")
            clock(RETENTION + 2 * WEEK)
            assert partitions.ensure(partitions.ATTEMPTS) == []
            assert drop_past() == []
            cursor.execute("RESET ROLE")
        assert partition_of(make_attempt(make_trigger())) == "jobs_attempt_default"
        assert "GRANT CREATE ON SCHEMA public" in caplog.text


class TestPurgeTriggers:
    @staticmethod
    def aged(days: float, state: str = "succeeded", **columns: Any) -> Trigger:
        moment = factories.now() - days * DAY
        return make_trigger(
            make_job(), state, id=id_of(moment), scheduled_for=moment, **({"finished_at": moment} | columns)
        )

    def test_drops_what_ended_before_the_retention(self) -> None:
        old = [self.aged(91, state) for state in ("succeeded", "dead", "skipped", "cancelled")]
        kept = [self.aged(89), self.aged(91, "pending", finished_at=None)]
        kept.append(self.aged(91, finished_at=factories.now() - DAY))
        assert purge.triggers(retention=RETENTION, limit=100) == len(old)
        assert set(Trigger.objects.values_list("id", flat=True)) == {trigger.id for trigger in kept}

    def test_is_bounded_and_begins_with_the_oldest(self) -> None:
        newer, older = self.aged(92), self.aged(95)
        assert purge.triggers(retention=RETENTION, limit=1) == 1
        assert (factories.row(older), bool(factories.row(newer))) == ({}, True)


class TestPurgePasts:
    """Catch-up, ranges of skipped firings and entries of timelines: nothing that an audit within retention needs."""

    @staticmethod
    def caught_up(days: float, *, job: Job | None = None, **columns: Any) -> CatchUp:
        """A catch-up that began so many days ago, and also finished then unless told otherwise."""
        job, moment = job or make_job(), factories.now() - days * DAY
        plain = {
            "id": id_of(moment),
            "job": job,
            "tenant_id": job.tenant_id,
            "job_version": 1,
            "origin": "outage",
            "policy": "skip",
            "from_at": moment - HOUR,
            "until_at": moment,
            "cursor": moment,
            "created_at": moment,
            "finished_at": moment,
        }
        return CatchUp.objects.create(**(plain | columns))

    @staticmethod
    def skipped(days: float, **columns: Any) -> SkippedRange:
        job, moment = make_job(), factories.now() - days * DAY
        plain = {
            "id": id_of(moment),
            "job": job,
            "tenant_id": job.tenant_id,
            "job_version": 1,
            "from_at": moment - HOUR,
            "until_at": moment,
            "count": 60,
            "reason": "misfire",
            "created_at": moment,
        }
        return SkippedRange.objects.create(**(plain | columns))

    @staticmethod
    def timeline(job: Job, *days: float) -> list[JobVersion]:
        """Versions 1, 2, …, each in force from so many days ago on."""
        return [
            JobVersion.objects.create(
                job=job,
                tenant_id=job.tenant_id,
                version=version,
                status="active",
                schedule={},
                valid_from=factories.now() - ago * DAY,
            )
            for version, ago in enumerate(days, start=1)
        ]

    @staticmethod
    def purge_versions(*, limit: int) -> int:
        """Walk all timelines once. Returns how many entries were deleted."""
        dropped, after = 0, purge.FIRST_ENTRY
        for _ in range(100):
            after, number = purge.versions(retention=RETENTION, limit=limit, after=after)
            dropped += number
            if after == purge.FIRST_ENTRY:
                return dropped
        raise AssertionError("the walk has no end")

    def test_drops_catch_up_that_was_finished_before_the_retention(self) -> None:
        self.caught_up(91)
        kept = [
            self.caught_up(89),
            self.caught_up(200, finished_at=None),
            self.caught_up(91, finished_at=factories.now() - 89 * DAY),
        ]
        assert purge.catchups(retention=RETENTION, limit=100) == 1
        assert set(CatchUp.objects.values_list("id", flat=True)) == {row.id for row in kept}

    def test_drops_ranges_that_lie_wholly_before_the_retention(self) -> None:
        self.skipped(91)
        now = factories.now()
        kept = [
            self.skipped(89),
            self.skipped(91, until_at=now - 89 * DAY),
            self.skipped(89, until_at=now - 91 * DAY, from_at=now - 92 * DAY),
        ]
        assert purge.ranges(retention=RETENTION, limit=100) == 1
        assert set(SkippedRange.objects.values_list("id", flat=True)) == {row.id for row in kept}

    @pytest.mark.parametrize("limit", [1, 2, 3, 100])
    def test_keeps_the_version_in_force_when_the_retention_began(self, limit: int) -> None:
        jobs = [make_job() for _ in range(4)]
        timelines = [
            self.timeline(jobs[0], 200, 150, 91, 89, 1),
            self.timeline(jobs[1], 200),
            self.timeline(jobs[2], 89, 88),
            self.timeline(jobs[3], 200, 100),
        ]
        assert self.purge_versions(limit=limit) == 3
        kept = {entry.id for entry in JobVersion.objects.all()}
        assert [[entry.version for entry in timeline if entry.id in kept] for timeline in timelines] == [
            [3, 4, 5],
            [1],
            [1, 2],
            [2],
        ]

    def test_keeps_the_version_that_catch_up_in_hand_goes_by(self) -> None:
        job = make_job(version=3)
        self.timeline(job, 300, 200, 100)
        self.caught_up(250, job=job, finished_at=None)
        self.caught_up(150, job=job, job_version=2)
        assert self.purge_versions(limit=100) == 1
        assert set(JobVersion.objects.values_list("version", flat=True)) == {1, 3}

    def test_of_two_changes_at_one_moment_keeps_the_latter(self) -> None:
        job = make_job()
        first, second = self.timeline(job, 200, 200)
        JobVersion.objects.filter(id=second.id).update(valid_from=first.valid_from)
        assert self.purge_versions(limit=1) == 1
        assert JobVersion.objects.get().id == max(first.id, second.id)

    def test_is_bounded_and_begins_with_the_oldest(self) -> None:
        newer, older = self.skipped(92), self.skipped(95)
        assert purge.ranges(retention=RETENTION, limit=1) == 1
        assert SkippedRange.objects.get().id == newer.id != older.id
        newest, oldest = self.caught_up(92), self.caught_up(95)
        assert purge.catchups(retention=RETENTION, limit=1) == 1
        assert CatchUp.objects.get().id == newest.id != oldest.id


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
        execution.store_result(task_id=task_id, result=result, **(plain | columns))

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
        assert purge.results(retention=HOUR, limit=2) == 0
        clock(2 * HOUR)
        self.keep("d", 1)
        assert [purge.results(retention=HOUR, limit=2) for _ in range(3)] == [2, 1, 0]
        assert TaskResult.objects.get().task_id == "d"


def test_sessions_that_are_over_go() -> None:
    for name, age in (("over", HOUR), ("long over", 30 * HOUR), ("going on", -HOUR)):
        Session.objects.create(session_key=name, session_data="", expire_date=factories.now() - age)
    assert [purge.sessions(limit=1) for _ in range(3)] == [1, 1, 0]
    assert Session.objects.get().session_key == "going on"
