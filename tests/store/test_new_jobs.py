"""New jobs by one statement: each column as in the model, the timeline's first entry, and names that are taken."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from jobs.actions import overdue
from jobs.actions.jobs import create_job
from jobs.core.errors import Conflict
from jobs.models import Job, JobVersion, Trigger
from jobs.models.fields import new_id
from jobs.store import db, jobs
from tests.factories import make_job, make_tenant
from tests.interfaces.api.caller import Caller, noop_job

pytestmark = pytest.mark.django_db
MOMENT = datetime(2031, 2, 3, 4, 5, 6, 789012, tzinfo=UTC)
#: A value of each column that is not its default.
UNUSUAL: dict[str, Any] = {
    "name": 'a "name" with \\ % and é',
    "labels": {"env": "test", "a.b/c": "1"},
    "job_type": "webhook",
    "payload": {"n": [1, 2.5, None, True, {"é": "\\u0001 ' \" %s %(x)s \U0001f600"}], "big": 2**53},
    "target": "example.com:8443",
    "schedule_type": "cron",
    "cron_expression": "5 4 * * *",
    "cron_dialect": "quartz",
    "timezone": "Asia/Kolkata",
    "interval": timedelta(days=3, seconds=5, microseconds=7),
    "run_at": MOMENT,
    "starts_at": MOMENT + timedelta(days=1),
    "ends_at": MOMENT + timedelta(days=2),
    "dst_policy": "skip",
    "jitter": timedelta(seconds=1.5),
    "priority": 3,
    "timeout": timedelta(minutes=7),
    "delivery": "at_most_once",
    "retry_policy": {"max_attempts": 3},
    "overlap_policy": "queue",
    "max_concurrent": 4,
    "concurrency_key": "printer",
    "misfire_policy": "skip",
    "misfire_grace": timedelta(seconds=61),
    "catchup_window": timedelta(hours=2),
    "max_catchup": 9,
    "status": "paused",
    "status_reason": "because",
    "paused_until": MOMENT + timedelta(days=3),
    "notify": {"on": ["dead"]},
    "watched": True,
    "pause_after_failures": 5,
    "delete_after": timedelta(hours=9),
    "version": 6,
    "next_fire_at": MOMENT,
    "created_at": MOMENT - timedelta(days=1),
    "updated_at": MOMENT,
    "expires_at": MOMENT + timedelta(days=4),
    "deleted_at": MOMENT,
    "workflow_id": None,
}


def a_job(**values: Any) -> Job:
    tenant = values.pop("tenant", None) or make_tenant()
    return Job(
        id=new_id(),
        tenant=tenant,
        **{
            "name": "n",
            "job_type": "noop",
            "schedule_type": "immediate",
            "timeout": timedelta(seconds=1),
            "created_at": MOMENT,
            "updated_at": MOMENT,
        }
        | values,
    )


class TestInsert:
    def test_names_every_column_of_the_model(self) -> None:
        sql = db.queries("jobs")["insert"].sql
        listed = re.search(r"INSERT INTO jobs_job \((.*?)\)", sql, re.DOTALL)
        assert listed is not None
        names = [name.strip(' "\n') for name in listed[1].split(",")]
        assert sorted(names) == sorted(field.column for field in Job._meta.concrete_fields)
        assert set(UNUSUAL) == {field.attname for field in Job._meta.concrete_fields} - {"id", "tenant_id"}

    @pytest.mark.parametrize("values", [{}, UNUSUAL], ids=["defaults", "unusual"])
    def test_writes_what_the_model_holds(self, values: dict[str, Any]) -> None:
        job = a_job(**values)
        assert jobs.insert([job]) == {job.id}
        names = [field.attname for field in Job._meta.concrete_fields]
        assert Job.objects.values(*names).get(id=job.id) == {name: getattr(job, name) for name in names}
        # To Django the job is a stored row now: a save updates it.
        job.save(update_fields=["version"])

    def test_begins_the_timeline_as_every_change_goes_on_with_it(self) -> None:
        job = a_job(**UNUSUAL)
        jobs.insert([job])
        jobs.note_versions([job.id])
        columns = ("job_id", "tenant_id", "version", "status", "schedule", "valid_from")
        first, second = JobVersion.objects.filter(job_id=job.id).values(*columns)
        assert first == second
        assert jobs.schedule_then(first["schedule"]) == jobs.schedule_of(job)

    def test_leaves_out_what_has_a_living_jobs_name_and_nothing_else(self) -> None:
        tenant = make_tenant()
        taken, gone = make_job(tenant, name="taken"), make_job(tenant, name="gone", deleted_at=MOMENT)
        wanted = [
            a_job(tenant=tenant, name=name) for name in (taken.name, gone.name, "free", "twice", "twice")
        ]
        elsewhere = a_job(name=taken.name)
        with transaction.atomic():
            written = jobs.insert([*wanted, elsewhere])
        assert written == {wanted[1].id, wanted[2].id, wanted[3].id, elsewhere.id}
        assert set(JobVersion.objects.values_list("job_id", flat=True)) >= written
        assert not JobVersion.objects.filter(job_id__in=[wanted[0].id, wanted[4].id]).exists()

    def test_keeps_apart_what_python_calls_equal(self) -> None:
        first = a_job(payload={"n": 1}, labels={})
        second = a_job(tenant=first.tenant, name="second", payload={"n": True}, labels={})
        third = a_job(tenant=first.tenant, name="third", payload={"n": 1.0}, labels={})
        jobs.insert([first, second, third])
        with connection.cursor() as cursor:
            cursor.execute("SELECT payload::text FROM jobs_job ORDER BY name = 'third', name = 'second'")
            assert [text for (text,) in cursor.fetchall()] == ['{"n": 1}', '{"n": true}', '{"n": 1.0}']

    def test_raises_what_else_is_wrong(self) -> None:
        job = a_job(timeout=timedelta())
        with pytest.raises(IntegrityError, match="job_timeout_positive"), transaction.atomic():
            jobs.insert([job])


class TestAnImmediateJob:
    def test_is_written_with_the_trigger_that_a_beat_would_materialize(self) -> None:
        job = a_job(next_fire_at=MOMENT, jitter=timedelta(seconds=9), priority=3, version=2)
        jobs.insert([job])
        (trigger,) = job.triggers.values()
        job.triggers.all().delete()
        overdue.materialize(job=job, instants=[MOMENT])
        (expected,) = job.triggers.values()
        own = {"id", "created_at", "announced_at"}
        assert trigger["announced_at"] is not None
        assert {**trigger, **dict.fromkeys(own)} == {**expected, **dict.fromkeys(own)}

    def test_leaves_nothing_to_materialize(self) -> None:
        job = a_job(next_fire_at=MOMENT)
        jobs.insert([job])
        assert Job.objects.get(id=job.id).next_fire_at is None
        assert job.next_fire_at == MOMENT

    def test_that_begins_later_is_left_to_a_beat(self) -> None:
        job = a_job(next_fire_at=MOMENT + timedelta(seconds=1))
        jobs.insert([job])
        assert Job.objects.get(id=job.id).next_fire_at == job.next_fire_at
        assert not job.triggers.exists()

    def test_whose_name_is_taken_gets_no_trigger(self) -> None:
        first = a_job(next_fire_at=MOMENT)
        second = a_job(tenant=first.tenant, next_fire_at=MOMENT)
        assert jobs.insert([first, second]) == {first.id}
        assert list(Trigger.objects.values_list("job_id", flat=True)) == [first.id]


class TestCreating:
    def test_takes_two_statements_where_the_quota_is_far(self, job_types: None) -> None:
        tenant = make_tenant(max_jobs=100_000)
        with CaptureQueriesContext(connection) as queries:
            create_job(tenant=tenant, definition=noop_job())
        # Django captures neither statement: both are prepared.
        assert not queries.captured_queries
        with connection.cursor() as cursor:
            for number in range(db.KEEP_AFTER):
                create_job(tenant=tenant, definition=noop_job(name=f"job {number}"))
            cursor.execute(
                "SELECT count(*) FROM pg_prepared_statements "
                "WHERE statement LIKE '-- Write new jobs%' OR statement LIKE '-- The facts that creating a job needs%'"
            )
            assert cursor.fetchone() == (2,)

    def test_leaves_the_transaction_it_was_refused_in_as_it_was(self, job_types: None) -> None:
        tenant = make_tenant(max_jobs=100_000)
        with transaction.atomic():
            create_job(tenant=tenant, definition=noop_job())
            with pytest.raises(Conflict, match="Another job"):
                create_job(tenant=tenant, definition=noop_job())
            create_job(tenant=tenant, definition=noop_job(name="other"))
        assert Job.objects.filter(tenant=tenant).count() == 2

    def test_finds_the_tenants_own_type(self, job_types: None) -> None:
        caller = Caller(make_tenant(max_jobs=100_000))
        assert caller.post("/jobs", noop_job(job_type="team.own")).status_code == 400
        assert caller.put("/job-types/team.own", {}).status_code == 201
        own = caller.post("/jobs", noop_job(job_type="team.own"))
        assert own.status_code == 201, own.content
        assert own.json()["job_type"] == "team.own"
