"""A job's page stays quick however often the job has fired: each of its statements uses an index."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobs.models import Job, Trigger
from tests import factories
from tests.interfaces.admin.world import World

pytestmark = [pytest.mark.slow, pytest.mark.django_db]
FIRINGS = 100_000
BIG = {"jobs_trigger", "jobs_attempt", "jobs_change", "jobs_jobversion", "jobs_catchup", "jobs_skippedrange"}


@pytest.fixture
def busy(world: World) -> Job:
    """A job that has fired ``FIRINGS`` times, now retries one firing and has skipped those since."""
    job = factories.make_job(world.tenant, overlap_policy="skip")
    at = factories.now() - timedelta(seconds=30)
    pattern = factories.make_trigger(job, "succeeded", scheduled_for=at, due_at=at, attempt_count=1)
    names = [f'"{field.column}"' for field in Trigger._meta.concrete_fields if not field.generated]
    own = {
        '"id"': "gen_random_uuid()",
        '"scheduled_for"': "scheduled_for - n * interval '1 minute'",
        '"state"': "CASE WHEN n < 20 THEN 'skipped' WHEN n = 20 THEN 'retrying' ELSE state END",
        '"reason"': "CASE WHEN n < 20 THEN 'overlap' ELSE '' END",
        '"attempt_count"': "CASE WHEN n < 20 THEN 0 ELSE 1 END",
        '"finished_at"': "CASE WHEN n <> 20 THEN finished_at END",
    }
    values = ", ".join(own.get(name, name) for name in names)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO jobs_trigger ({', '.join(names)}) SELECT {values} FROM jobs_trigger, "
            "generate_series(1, %s) n WHERE id = %s",
            [FIRINGS, pattern.id],
        )
        cursor.execute("ANALYZE jobs_trigger")
    skipped = Trigger.objects.filter(job=job, state="skipped").latest("scheduled_for")
    skipped.delete()
    newest = factories.make_trigger(job, "retrying", scheduled_for=at + timedelta(seconds=9), attempt_count=2)
    factories.make_attempt(newest, "failed", error_code="boom")
    return job


def reads_of(captured: CaptureQueriesContext) -> list[str]:
    return [
        query["sql"]
        for query in captured.captured_queries
        if query["sql"].lstrip().startswith(("SELECT", "WITH"))
    ]


def scans(plan: dict[str, Any]) -> Iterator[str]:
    """Big tables that a plan reads from end to end."""
    if plan["Node Type"] == "Seq Scan" and plan["Relation Name"] in BIG:
        yield plan["Relation Name"]
    for inner in plan.get("Plans", ()):
        yield from scans(inner)


def rows_read(plan: dict[str, Any]) -> int:
    own = (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"]
    return max([int(own), *map(rows_read, plan.get("Plans", ()))])


def plan_of(cursor: Any, explain: str) -> dict[str, Any]:
    cursor.execute(explain)
    found = cursor.fetchone()[0]
    [explained] = found if isinstance(found, list) else json.loads(found)
    plan: dict[str, Any] = explained["Plan"]
    return plan


def test_every_statement_goes_by_an_index_and_reads_little(busy: Job, world: World, operator: Client) -> None:
    skipped = Trigger.objects.filter(job=busy, state="skipped").first()
    assert skipped is not None
    for url in (
        reverse("admin:jobs_job_change", args=[busy.id]),
        reverse("admin:jobs_trigger_change", args=[skipped.id]),
    ):
        with CaptureQueriesContext(connection) as captured:
            assert operator.get(url).status_code == 200
        assert len(captured) <= 25
        with connection.cursor() as cursor:
            for statement in reads_of(captured):
                assert rows_read(plan_of(cursor, f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}")) <= 1_100, (
                    statement
                )
                # Postgres rightly scans a table that it knows to have a handful of rows. So check that there is an
                # index for it.
                cursor.execute("SET LOCAL enable_seqscan = off")
                assert list(scans(plan_of(cursor, f"EXPLAIN (FORMAT JSON) {statement}"))) == [], statement
                cursor.execute("SET LOCAL enable_seqscan = on")
