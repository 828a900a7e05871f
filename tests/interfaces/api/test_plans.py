"""Lists stay quick however many rows there are: the planner never reads a whole table for a page."""

from dataclasses import dataclass
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.api.pagination import IdCursorPagination
from jobs.models import Job, Trigger
from tests.factories import make_attempt, make_job, make_tenant, make_trigger
from tests.interfaces.api.caller import Caller
from tests.store.conftest import make_new

#: Path, and the index by which its page is read.
PAGES: dict[str, str] = {
    "/jobs": "job_of_tenant",
    "/jobs?status=active": "job_of_tenant",
    "/jobs?status=paused": "job_at_rest",
    "/jobs?ordering=name": "job_name_unique_among_living",
    "/jobs?name_prefix=job-": "job_name_unique_among_living",
    "/jobs?labels=env=prod": "joblabel",
    "/jobs/{job}/triggers": "trigger_one_per_firing",
    "/jobs/{job}/attempts": "jobs_attempt_job",
    "/triggers": "trigger_of_tenant",
    "/triggers/{trigger}/attempts": "jobs_attempt_trigger",
    "/attempts": "jobs_attempt_failed",
    "/attempts?state=failed": "jobs_attempt_failed",
    "/attempts?error_code=timeout": "jobs_attempt_failed",
    "/attempts?http_status=503": "jobs_attempt_failed",
    "/attempts?job_type=noop": "jobs_attempt_failed",
    "/attempts?started_after=2020-01-01T00:00:00Z": "jobs_attempt_failed",
    "/attempts?started_before=2090-01-01T00:00:00Z": "jobs_attempt_failed",
    "/attempts?error_code=timeout&state=timed_out&job_type=noop&http_status=503": "jobs_attempt_failed",
    "/attempts?job={job}": "jobs_attempt_job",
    "/attempts?job={job}&state=failed": "jobs_attempt_job",
    "/dead-letters": "trigger_dead_letter",
    "/dead-letters?error_code=timeout": "trigger_dead_letter",
    "/dead-letters?http_status=503": "trigger_dead_letter",
    "/dead-letters?target=api.example": "trigger_dead_letter",
    "/dead-letters?finished_after=2020-01-01T00:00:00Z": "trigger_dead_letter",
    "/dead-letters?finished_before=2090-01-01T00:00:00Z&http_status=503&target=api.example": "trigger_dead_letter",
}


def fill() -> None:
    """Many jobs, triggers and attempts of many tenants, copied from one of each by the database."""
    trigger = make_trigger(make_job())
    columns = {
        model: [field.column for field in model._meta.concrete_fields if not field.generated]
        for model in (Job, Trigger)
    }
    other = [make_tenant().id for _ in range(20)]
    with connection.cursor() as cursor:
        for model, changed in (
            (
                Job,
                {
                    "name": "name || n",
                    "id": "gen_random_uuid()",
                    "tenant_id": "(%s::bigint[])[n %% 20 + 1]",
                    "status": "CASE n %% 3 WHEN 0 THEN 'paused' ELSE 'active' END",
                    "labels": """CASE n %% 2 WHEN 0 THEN '{"env": "prod"}' ELSE '{}' END::jsonb""",
                },
            ),
            (
                Trigger,
                {
                    "id": "gen_random_uuid()",
                    "scheduled_for": "scheduled_for - n * interval '1 second'",
                    "state": "CASE n %% 2 WHEN 0 THEN 'dead' ELSE 'succeeded' END",
                    "reason": "CASE n %% 2 WHEN 0 THEN 'lost' ELSE '' END",
                    "tenant_id": "(%s::bigint[])[n %% 20 + 1]",
                    "job_id": "(SELECT id FROM jobs_job WHERE tenant_id = (%s::bigint[])[n %% 20 + 1] LIMIT 1)",
                },
            ),
        ):
            table = model._meta.db_table
            values = ", ".join(changed.get(name, f'"{name}"') for name in columns[model])
            names = ", ".join(f'"{name}"' for name in columns[model])
            statement = (
                f"INSERT INTO {table} ({names}) SELECT {values} FROM {table}, generate_series(1, 4000) n"
            )
            cursor.execute(statement, [other] * statement.count("%s"))
        cursor.execute(
            """
            INSERT INTO jobs_attempt
                (id, trigger_id, job_id, tenant_id, number, fence, worker, state, started_at, error_code)
            SELECT gen_random_uuid(), id, gen_random_uuid(), tenant_id, 1, 1, '', 'started', now(),
                CASE row_number() OVER () % 10 WHEN 0 THEN 'timeout' ELSE '' END
            FROM jobs_trigger
            """
        )
        cursor.execute("ANALYZE jobs_job, jobs_joblabel, jobs_trigger, jobs_attempt")
    assert trigger.job.tenant


def partitioned(names: set[str]) -> set[str]:
    """The indexes that these are parts of. Postgres itself chooses the names of parts for later partitions."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT inhparent::regclass::text FROM pg_inherits WHERE inhrelid = ANY(%s::regclass[])",
            [list(names)],
        )
        return {name for (name,) in cursor.fetchall()}


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
        used = {node["Index Name"] for node in scans if "Index Name" in node}
        assert any(PAGES[path] in name for name in used | partitioned(used)), scans


class TestAnAttempt:
    def test_is_read_by_its_key_in_each_partition(self, owner: Caller) -> None:
        fill()
        attempt = make_attempt(make_trigger(make_job(owner.tenant), "running"), output="said")
        with CaptureQueriesContext(connection) as queries:
            assert owner.get(f"/attempts/{attempt.id}").json()["output"] == "said"
        [asked] = [query["sql"] for query in queries if 'FROM "jobs_attempt"' in query["sql"]]
        with connection.cursor() as cursor:
            cursor.execute("EXPLAIN (FORMAT JSON) " + asked)
            nodes = plan_nodes(cursor.fetchone()[0][0]["Plan"])
        scans = [node for node in nodes if "Relation Name" in node]
        assert [node for node in scans if node["Node Type"] == "Seq Scan" and node["Plan Rows"] > 1] == []
        used = partitioned({node["Index Name"] for node in nodes if "Index Name" in node})
        assert used == {"jobs_attempt_pkey"}


@dataclass(frozen=True)
class Read:
    """The number of rows of tables and indexes that the statements of a page read, whether used or not."""

    rows: int
    statements: list[str]


def read_by(caller: Caller, path: str) -> Read:
    with CaptureQueriesContext(connection) as queries:
        assert caller.get(path).status_code == 200
    # Not the statement that finds the key: with few tenants the planner may read them all.
    statements = [
        query["sql"]
        for query in queries
        if "ORDER BY" in query["sql"] and 'FROM "tenants_apikey"' not in query["sql"]
    ]
    rows = 0
    for statement in statements:
        with connection.cursor() as cursor:
            cursor.execute("EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) " + statement)
            for node in plan_nodes(cursor.fetchone()[0][0]["Plan"]):
                if "Relation Name" in node or "Index Name" in node:
                    removed = node.get("Rows Removed by Filter", 0) + node.get(
                        "Rows Removed by Index Recheck", 0
                    )
                    rows += int((node["Actual Rows"] + removed) * node["Actual Loops"])
    return Read(rows, statements)


class TestALargeTenant:
    """60,000 jobs: every second is labelled prod, one in 10,000 rare; as many are paused, and as many are webhooks."""

    JOBS = 60_000
    #: A page, twice over: the rows that an index gives, and the rows that they lead to.
    PAGE = 210

    @pytest.fixture
    def large(self, owner: Caller) -> Caller:
        template = make_job(owner.tenant)
        own = {
            "id": "lpad(to_hex(n), 32, '0')::uuid",
            "name": "'job-' || lpad(n::text, 8, '0')",
            "labels": 'CASE WHEN n % 10000 = 7 THEN \'{"env": "rare"}\' '
            "WHEN n % 2 = 0 THEN '{\"env\": \"prod\"}' ELSE '{}' END::jsonb",
            "status": "CASE WHEN n % 10000 = 7 THEN 'paused' ELSE 'active' END",
            "job_type": "CASE WHEN n % 10000 = 7 THEN 'webhook' ELSE 'noop' END",
        }
        columns = [field.column for field in Job._meta.concrete_fields]
        values = ", ".join(own.get(name, f'"{name}"') for name in columns)
        names = ", ".join(f'"{name}"' for name in columns)
        with connection.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO jobs_job ({names}) SELECT {values} FROM jobs_job, generate_series(1, {self.JOBS}) n "
                f"WHERE jobs_job.id = '{template.id}'"
            )
            cursor.execute("ANALYZE jobs_job, jobs_joblabel")
        return owner

    def test_gets_each_page_for_a_bounded_number_of_rows(self, large: Caller) -> None:
        walked = [
            "/jobs",
            "/jobs?ordering=name",
            "/jobs?status=paused",
            "/jobs?labels=env=prod",
            "/jobs?labels=env=rare",
            "/jobs?labels=env=none",
            "/jobs?name_prefix=job-0000",
            "/jobs?name_prefix=job-&ordering=-name",
            "/jobs?name=job-00000007",
        ]
        sifted = [
            "/jobs?job_type=webhook",
            "/jobs?status=active&job_type=webhook",
            "/jobs?priority=low&ordering=name",
            "/jobs?labels=env=prod&job_type=webhook",
            "/jobs?labels=env=prod&status=paused&ordering=name",
            "/jobs?name_prefix=job-&job_type=webhook",
            "/jobs?created_after=2099-01-01T00:00:00Z",
        ]
        read = {path: read_by(large, path).rows for path in walked + sifted}
        assert {path: rows for path, rows in read.items() if path in walked and rows > self.PAGE} == {}
        # Rows and index entries: to find where the page must end, and then to sift it.
        reach = 6 * IdCursorPagination.most_rows
        assert {path: rows for path, rows in read.items() if path in sifted and rows > reach} == {}
        following = large.get("/jobs?job_type=webhook").json()["next"]
        assert read_by(large, following).rows <= reach


class TestALargeHistory:
    """Two jobs with 40,000 attempts each: every second attempt failed, and one in 4,000 was answered by 418."""

    ATTEMPTS = 40_000

    @pytest.fixture
    def large(self, owner: Caller) -> Caller:
        # The planner would read all jobs if it knew that there are few. Autovacuum may have told it.
        make_new("jobs_job")
        self.job = make_job(owner.tenant)
        trigger = make_trigger(self.job, "succeeded")
        self.foreign = make_trigger(make_job(), "succeeded").job
        with connection.cursor() as cursor:
            for job in (self.job, self.foreign):
                cursor.execute(
                    "INSERT INTO jobs_attempt (id, trigger_id, job_id, tenant_id, number, fence, worker, state, "
                    "    started_at, error_code, http_status) "
                    "SELECT gen_random_uuid(), %s, %s, %s, n, 1, '', "
                    "    CASE n %% 2 WHEN 0 THEN 'failed' ELSE 'succeeded' END, now(), "
                    "    CASE n %% 2 WHEN 0 THEN 'exception' ELSE '' END, "
                    "    CASE n %% 4000 WHEN 8 THEN 418 ELSE 200 END FROM generate_series(1, %s) n",
                    [trigger.id, job.id, job.tenant_id, self.ATTEMPTS],
                )
            cursor.execute("ANALYZE jobs_trigger, jobs_attempt")
        return owner

    def test_gives_each_page_for_a_bounded_number_of_rows(self, large: Caller) -> None:
        page, reach = 210, 6 * IdCursorPagination.most_rows
        most = {
            "/attempts": page,
            f"/attempts?job={self.job.id}": page,
            # Another tenant's attempts are not looked at.
            f"/attempts?job={self.foreign.id}&state=failed": 0,
            "/attempts?state=failed": reach,
            "/attempts?error_code=none": reach,
            "/attempts?http_status=418": reach,
            "/attempts?job_type=webhook": reach,
            f"/attempts?job={self.job.id}&error_code=none": reach,
            f"/attempts?job={self.job.id}&state=succeeded": reach,
            "/attempts?started_before=2090-01-01T00:00:00Z&http_status=418": reach,
        }
        read = {path: read_by(large, path).rows for path in most}
        assert {path: rows for path, rows in read.items() if rows > most[path]} == {}
        following = large.get("/attempts?http_status=418").json()["next"]
        assert 0 < read_by(large, following).rows <= reach
