"""Work that fires, runs and ends by itself never comes near the audit trail: no row, and no call of its triggers."""

from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from jobs.models import Change, Job, Trigger
from jobs.store import db, execution
from jobs.store import jobs as job_store
from jobs.store.db.values import as_literal
from jobs.store.jobs import Firing
from tests.factories import HOUR, attempts, claim, dispatch, finish_of, make_job, now, state_of

pytestmark = pytest.mark.django_db
CALLS = (
    "SELECT coalesce(sum(pg_stat_get_xact_function_calls(oid)), 0) FROM pg_proc "
    "WHERE proname LIKE 'carillon_trail%'"
)


def calls_of_triggers() -> int:
    with connection.cursor() as cursor:
        cursor.execute(CALLS)
        return int(cursor.fetchone()[0])


def explained(query: db.Query, **parameters: Any) -> list[dict[str, Any]]:
    """The triggers that EXPLAIN ANALYZE saw fire."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"EXPLAIN (ANALYZE, FORMAT JSON) {query.sql.rstrip(';')}",
            {name: as_literal(value) for name, value in parameters.items()},
        )
        return cursor.fetchone()[0][0]["Triggers"]


def test_the_materializers_update_of_jobs_calls_no_trigger_and_leaves_no_row() -> None:
    jobs = [make_job(next_fire_at=now()) for _ in range(3)]
    Change.objects.all().delete()
    fired = explained(
        db.queries("jobs")["advance"], ids=[job.id for job in jobs], next_fire_ats=[now() + HOUR] * len(jobs)
    )
    assert [one for one in fired if one["Trigger Name"].startswith("jobs_trail")] == []
    assert Change.objects.count() == 0


def test_a_job_that_fires_once_comes_to_its_end_without_the_trail(job_types: None) -> None:
    at = now()
    job = make_job(schedule_type="once", run_at=at, next_fire_at=at)
    Change.objects.all().delete()
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL track_functions = 'pl'")
    before = calls_of_triggers()
    job_store.materialize([Firing(job.id, job.tenant_id, "noop", 1, 2, at, at)])
    job_store.advance({job.id: None})
    [queued] = dispatch(types=("noop",)).queued
    trigger = Trigger.objects.get(id=queued.id)
    claim(trigger)
    execution.finish([finish_of(trigger, attempts(trigger)[0])])
    job_store.complete(after=UUID(int=0), limit=10)
    job.refresh_from_db()
    assert (job.status, state_of(trigger)) == ("completed", ("succeeded", ""))
    assert (calls_of_triggers(), Change.objects.count()) == (before, 0)
    Job.objects.filter(id=job.id).update(priority=0)  # shows that calls are counted at all
    assert calls_of_triggers() == before + 1
