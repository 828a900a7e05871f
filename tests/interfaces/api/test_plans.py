"""Lists stay quick however much there is: the planner never reads a whole table for a page."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.models import Job, Trigger
from tests.factories import make_job, make_tenant, make_trigger
from tests.interfaces.api.caller import Caller

#: Path, and the index its page is read by.
PAGES: dict[str, str] = {
    "/jobs": "job_of_tenant",
    "/jobs?status=active": "job_of_tenant",
    "/jobs/{job}/triggers": "trigger_one_per_firing",
    "/jobs/{job}/attempts": "job_id",
    "/triggers": "trigger_of_tenant",
    "/triggers/{trigger}/attempts": "trigger_id",
    "/dead-letters": "trigger_dead",
}


def fill() -> None:
    """Many jobs, triggers and attempts of many tenants, copied from one of each by the database."""
    trigger = make_trigger(make_job())
    columns = {model: [field.column for field in model._meta.concrete_fields] for model in (Job, Trigger)}
    other = [make_tenant().id for _ in range(20)]
    with connection.cursor() as cursor:
        for model, changed in (
            (
                Job,
                {"name": "name || n", "id": "gen_random_uuid()", "tenant_id": "(%s::bigint[])[n %% 20 + 1]"},
            ),
            (
                Trigger,
                {
                    "id": "gen_random_uuid()",
                    "scheduled_for": "scheduled_for - n * interval '1 second'",
                    "state": "CASE n %% 2 WHEN 0 THEN 'dead' ELSE 'succeeded' END",
                    "reason": "CASE n %% 2 WHEN 0 THEN 'lost' ELSE '' END",
                    "tenant_id": "(%s::bigint[])[n %% 20 + 1]",
                },
            ),
        ):
            table = model._meta.db_table
            values = ", ".join(changed.get(name, f'"{name}"') for name in columns[model])
            names = ", ".join(f'"{name}"' for name in columns[model])
            cursor.execute(
                f"INSERT INTO {table} ({names}) SELECT {values} FROM {table}, generate_series(1, 4000) n",
                [other],
            )
        cursor.execute(
            """
            INSERT INTO jobs_attempt (id, trigger_id, job_id, tenant_id, number, fence, worker, state, started_at)
            SELECT gen_random_uuid(), id, gen_random_uuid(), tenant_id, 1, 1, '', 'started', now()
            FROM jobs_trigger
            """
        )
        cursor.execute("ANALYZE jobs_job, jobs_trigger, jobs_attempt")
    assert trigger.job.tenant


def plan_nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for child in plan.get("Plans", ()) for node in plan_nodes(child))]


class TestPages:
    @pytest.fixture
    def crowded(self, owner: Caller) -> Caller:
        fill()
        return owner

    @pytest.mark.parametrize(
        "path",
        PAGES,
    )
    def test_are_read_by_an_index(self, crowded: Caller, path: str) -> None:
        trigger = make_trigger(make_job(crowded.tenant))
        url = path.format(job=trigger.job_id, trigger=trigger.id)
        with CaptureQueriesContext(connection) as queries:
            assert crowded.get(url).status_code == 200
        (page,) = [
            query["sql"] for query in queries if "ORDER BY" in query["sql"] and "LIMIT 51" in query["sql"]
        ]
        with connection.cursor() as cursor:
            cursor.execute("EXPLAIN (FORMAT JSON) " + page)
            nodes = plan_nodes(cursor.fetchone()[0][0]["Plan"])
        scans = [node for node in nodes if "Relation Name" in node or "Index Name" in node]
        big = [node for node in scans if node["Node Type"] == "Seq Scan" and node["Plan Rows"] > 100]
        assert big == [], big
        assert any(PAGES[path] in node.get("Index Name", "") for node in scans), scans
