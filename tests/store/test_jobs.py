"""Jobs as the materializer sees them: due ones are taken once, firings inserted once, finished jobs completed."""

import re
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import GeneratedField

from jobs.models import Job, Trigger
from jobs.models.fields import new_id
from jobs.store import db
from jobs.store import jobs as jobs_store
from jobs.store.jobs import Firing
from tests import factories
from tests.factories import ANYONE, HOUR, MINUTE, SECOND, make_job, make_tenant, make_trigger, utc

pytestmark = pytest.mark.django_db


def firing(job: Job, **fields: Any) -> Firing:
    plain = {
        "job_id": job.id,
        "tenant_id": job.tenant_id,
        "job_type": job.job_type,
        "job_version": job.version,
        "priority": job.priority,
        "scheduled_for": utc(2026, 3, 1, 12),
        "due_at": utc(2026, 3, 1, 12, 0, 7),
    }
    return Firing(**(plain | fields))


def taken(*, look_ahead: timedelta = MINUTE, limit: int = 10) -> list[UUID]:
    return [row.id for row in jobs_store.take_due(leadership=ANYONE, look_ahead=look_ahead, limit=limit)]


class TestTakeDue:
    def test_takes_what_enters_the_window_oldest_first(self) -> None:
        moment = factories.now()
        later, earlier = make_job(next_fire_at=moment + 30 * SECOND), make_job(next_fire_at=moment - HOUR)
        make_job(next_fire_at=moment + 2 * MINUTE)
        assert taken() == [earlier.id, later.id]
        assert taken(limit=1) == [earlier.id]

    @pytest.mark.parametrize("status", ["paused", "cancelled", "completed"])
    def test_leaves_jobs_that_are_not_active(self, status: str) -> None:
        make_job(status=status, next_fire_at=factories.now())
        assert taken() == []

    def test_leaves_jobs_whose_schedule_has_no_more(self) -> None:
        make_job(next_fire_at=None)
        assert taken() == []

    def test_names_the_end_of_the_window(self) -> None:
        make_job(next_fire_at=factories.now())
        [row] = jobs_store.take_due(leadership=ANYONE, look_ahead=HOUR, limit=1)
        assert abs(row.window_end - factories.now() - HOUR) < 5 * SECOND


class TestMaterialize:
    def test_inserts_a_pending_trigger_under_its_idempotency_key(self) -> None:
        job = make_job(priority=1, version=4)
        [trigger_id] = jobs_store.materialize([firing(job)])
        trigger = Trigger.objects.get()
        assert (trigger.id, trigger.state, trigger.fence, trigger.job_version) == (
            trigger_id,
            "pending",
            0,
            4,
        )
        assert (trigger.scheduled_for, trigger.due_at) == (utc(2026, 3, 1, 12), utc(2026, 3, 1, 12, 0, 7))
        assert trigger.idempotency_key == f"job:{job.id}:scheduled_for:2026-03-01T12:00:00Z"
        assert (trigger.origin, trigger.priority) == ("schedule", 1)

    def test_leaves_a_firing_that_has_its_trigger_alone(self) -> None:
        job = make_job()
        first = jobs_store.materialize([firing(job)])
        before = Trigger.objects.values().get()
        more = [firing(job, priority=0, job_version=9), firing(job, scheduled_for=utc(2026, 3, 1, 13))]
        second = jobs_store.materialize(more)
        assert (len(first), len(second)) == (1, 1)
        assert Trigger.objects.values().get(id=first[0]) == before

    def test_does_not_double_a_firing_named_twice_in_one_batch(self) -> None:
        job = make_job()
        assert len(jobs_store.materialize([firing(job), firing(job)])) == 1

    def test_keeps_a_key_of_its_own(self) -> None:
        jobs_store.materialize([firing(make_job(), origin="run_now", idempotency_key="run:1")])
        assert Trigger.objects.get().idempotency_key == "run:1"

    def test_takes_an_empty_batch(self) -> None:
        assert jobs_store.materialize([]) == []


class TestAdvance:
    def test_moves_each_job_to_its_own_instant(self) -> None:
        one, two, other = (make_job(next_fire_at=utc(2026, 1, 1)) for _ in range(3))
        jobs_store.advance({one.id: utc(2027, 1, 1), two.id: None})
        instants = dict(Job.objects.values_list("id", "next_fire_at"))
        assert instants == {one.id: utc(2027, 1, 1), two.id: None, other.id: utc(2026, 1, 1)}


class TestPauseBroken:
    def test_pauses_with_a_bounded_reason(self) -> None:
        job = make_job()
        jobs_store.pause_broken(job_id=job.id, reason="x" * 900)
        job.refresh_from_db()
        assert (job.status, len(job.status_reason)) == ("paused", 500)

    def test_leaves_a_job_that_was_cancelled_meanwhile(self) -> None:
        job = make_job(status="cancelled")
        jobs_store.pause_broken(job_id=job.id, reason="x")
        job.refresh_from_db()
        assert (job.status, job.status_reason) == ("cancelled", "")


class TestComplete:
    @staticmethod
    def walk(*, limit: int = 100) -> int:
        after, completed, turns = UUID(int=0), 0, 0
        while True:
            last, done = jobs_store.complete(after=after, limit=limit)
            completed, turns = completed + done, turns + 1
            assert turns < 100
            if last is None:
                return completed
            after = last

    @pytest.mark.parametrize("state", ["succeeded", "dead", "skipped", "cancelled"])
    def test_completes_a_job_whose_triggers_have_all_ended(self, state: str) -> None:
        trigger = make_trigger(state=state)
        assert self.walk() == 1
        assert Job.objects.get(id=trigger.job_id).status == "completed"

    @pytest.mark.parametrize("state", ["pending", "queued", "running", "retrying"])
    def test_leaves_a_job_with_an_unfinished_trigger(self, state: str) -> None:
        make_trigger(state=state)
        assert self.walk() == 0

    def test_leaves_jobs_with_instants_to_come_and_jobs_not_active(self) -> None:
        make_job(next_fire_at=factories.now())
        make_job(status="paused")
        assert self.walk() == 0

    def test_sees_past_a_crowd_of_unfinished_ones(self) -> None:
        for _ in range(5):
            make_trigger()
        done = make_job()
        assert self.walk(limit=2) == 1
        assert Job.objects.get(id=done.id).status == "completed"


class TestScheduleOf:
    def test_reads_the_same_from_a_model_and_from_a_row(self) -> None:
        job = make_job(next_fire_at=factories.now(), starts_at=utc(2026, 1, 1), ends_at=utc(2027, 1, 1))
        job.refresh_from_db()
        [row] = jobs_store.take_due(leadership=ANYONE, look_ahead=MINUTE, limit=1)
        assert jobs_store.schedule_of(row) == jobs_store.schedule_of(job)


class TestLiving:
    def test_counts_the_living_jobs_of_the_tenant_alone(self) -> None:
        tenant = factories.make_tenant()
        for deleted_at in (None, None, factories.now()):
            make_job(tenant, deleted_at=deleted_at)
        make_job()
        assert jobs_store.living(tenant.id) == 2
        assert jobs_store.living(factories.make_tenant().id) == 0

    def test_follows_soft_deletes_and_real_ones_one_by_one_and_in_bulk(self) -> None:
        tenant = factories.make_tenant()
        jobs = [make_job(tenant) for _ in range(6)]
        of_tenant = Job.objects.filter(tenant=tenant)
        of_tenant.filter(id__in=[job.id for job in jobs[:2]]).update(deleted_at=factories.now())
        assert jobs_store.living(tenant.id) == 4
        of_tenant.filter(id=jobs[0].id).update(deleted_at=None)
        assert jobs_store.living(tenant.id) == 5
        of_tenant.update(next_fire_at=factories.now())
        assert jobs_store.living(tenant.id) == 5
        Job.objects.filter(id__in=[job.id for job in jobs[:3]]).delete()
        assert jobs_store.living(tenant.id) == 3

    def test_forgets_a_transaction_that_was_rolled_back(self) -> None:
        tenant = factories.make_tenant()
        with transaction.atomic():
            make_job(tenant)
            transaction.set_rollback(True)
        assert jobs_store.living(tenant.id) == 0

    def test_counts_bulk_inserts_and_nothing_after_a_truncate(self) -> None:
        tenant = factories.make_tenant()
        template = make_job(tenant)
        copies = [Job(**{**row_of(template), "id": new_id(), "name": f"copy {n}"}) for n in range(5)]
        Job.objects.bulk_create(copies)
        assert jobs_store.living(tenant.id) == 6
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; TRUNCATE jobs_job CASCADE")
        assert jobs_store.living(tenant.id) == 0


def row_of(job: Job) -> dict[str, Any]:
    return {field.attname: getattr(job, field.attname) for field in Job._meta.concrete_fields}


def test_no_trigger_is_of_another_tenant_than_its_job() -> None:
    with pytest.raises(IntegrityError, match="trigger_of_its_jobs_tenant"):
        make_trigger(make_job(), tenant_id=make_tenant().id)


class TestEdit:
    #: Never changed by an edit.
    FIXED = {
        "id",
        "tenant_id",
        "status",
        "status_reason",
        "paused_until",
        "created_at",
        "expires_at",
        "deleted_at",
        "workflow_id",
    }

    def test_knows_every_column_that_a_definition_has(self) -> None:
        columns = {
            column.attname for column in Job._meta.concrete_fields if not isinstance(column, GeneratedField)
        }
        sql = db.queries("jobs")["edit"].sql
        one_by_one = re.findall(r'^\s+"?(\w+)"? = CASE', sql, re.MULTILINE)
        together = re.findall(r"\b(\w+) = \(job\)\.\1\b", sql.partition("WHERE")[0])
        assert {*one_by_one, *together} == columns - self.FIXED

    def test_writes_what_is_named_of_each_job_and_nothing_else(self) -> None:
        first = make_job(payload={"a": 1}, notify={"on": ["dead"]}, labels={"x": "y"})
        second = make_job(timeout=9 * SECOND, run_at=utc(2030, 1, 1))
        other = make_job()
        before = {job.id: Job.objects.filter(id=job.id).values().get() for job in (first, second, other)}
        for job in (first, second):
            job.version, job.next_fire_at, job.updated_at = 2, utc(2031, 1, 1), utc(2026, 1, 1)
        first.payload, first.notify, first.labels = {"b": None}, None, {}
        first.timeout = 77 * SECOND  # the edit does not name it
        second.timeout, second.run_at, second.concurrency_key = 7 * SECOND, None, 'k "1"'
        jobs_store.edit({first: ["payload", "notify"], second: ["timeout", "run_at", "concurrency_key"]})
        moved = {"version": 2, "next_fire_at": utc(2031, 1, 1), "updated_at": utc(2026, 1, 1)}
        after = {job.id: Job.objects.filter(id=job.id).values().get() for job in (first, second, other)}
        assert after[first.id] == before[first.id] | moved | {"payload": {"b": None}, "notify": None}
        assert after[second.id] == before[second.id] | moved | {
            "timeout": 7 * SECOND,
            "run_at": None,
            "concurrency_key": 'k "1"',
        }
        assert after[other.id] == before[other.id]
        assert Job.objects.filter(id=first.id, notify__isnull=True).exists()
