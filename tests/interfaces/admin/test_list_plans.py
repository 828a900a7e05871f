"""No tab and no filter of a list reads a big table whole, whichever statistics the planner has of it."""

import json
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from jobs.admin.firings import lists
from jobs.admin.shared import walks
from jobs.models import CatchUp, Job, JobVersion, SkippedRange, Trigger
from tests.store.conftest import make_new
from tests.store.plans.ledger import BIG, MIXED, fill
from tests.store.plans.planner import analyze, filled_tables, nodes

pytestmark = [pytest.mark.slow, pytest.mark.django_db]
_TRIGGERS, _DEAD, _ATTEMPTS = (
    "/admin/jobs/trigger/",
    "/admin/jobs/trigger/dead-letters/",
    "/admin/jobs/attempt/",
)
TABS = [f"{_TRIGGERS}?tab={tab.name}" for tab in lists.TABS]
FILTERS = (
    [
        f"{_TRIGGERS}?{query}"
        for query in (
            "state__exact=cancelled",
            "origin__exact=backfill",
            "priority__exact=0",
            "reason=poison",
            "label=env%3Dprod",
            "error_code=timeout",
            "job_type=webhook",
            "created=1h",
            "since=2020-01-01",
            "tenant__id__exact={tenant}",
            "tenant__id__exact={tenant}&reason=poison",
            "tenant__id__exact={tenant}&label=env%3Dprod",
            "tab=running&tenant__id__exact={tenant}",
            "tab=late&tenant__id__exact={tenant}",
            "tab=late&job_type=webhook",
            "tab=held&origin__exact=backfill",
            "tab=retrying&priority__exact=0",
        )
    ]
    + [
        f"{_DEAD}?{query}"
        for query in (
            "",
            "tenant__id__exact={tenant}",
            "reason=poison",
            "job_type=webhook",
            "label=env%3Dprod",
            "error_code=timeout",
            "error_code=timeout&http_status=503&target=api.example",
            "died=1h",
            "since=2020-01-01&reason=poison",
        )
    ]
    + [
        f"{_ATTEMPTS}?{query}"
        for query in (
            "",
            "state__exact=lost",
            "error_code=timeout",
            "http_status=503",
            "job_type=webhook",
            "tenant={slug}",
            "tenant={slug}&state__exact=lost",
            "created=1h",
        )
    ]
)
_JOBS = [
    f"/admin/jobs/job/?{query}"
    for query in (
        "",
        "tab=next",
        "tab=next&tenant__id__exact={tenant}",
        "tenant__id__exact={tenant}",
        "tenant__id__exact={tenant}&job_type=webhook",
        "status__exact=paused",
        "status__exact=active",
        "schedule_type__exact=once",
        "label=env%3Dprod",
        "deleted=1",
        "q=nothing-is-named-so",
    )
]
#: Of 20,000 triggers and as many attempts: those a page may look at, twice, and as many again in look-ups by key.
SEARCHED, MOST_READ = 200, 4_000


def rows_read(sql: str) -> tuple[int, set[str]]:
    """The number of rows of the engine's tables that the statement looks at, and the tables that it reads whole."""
    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) " + sql.replace("%", "%%"), [])
        [found] = cursor.fetchone()
    [explained] = json.loads(found) if isinstance(found, str) else found
    read, whole = 0, set()
    for node in nodes(explained["Plan"]):
        if not str(node.get("Relation Name", "")).startswith("jobs_"):
            continue
        seen = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        read += int(seen * node["Actual Loops"])
        if node["Node Type"] == "Seq Scan":
            whole.add(node["Relation Name"])
    return read, whole & filled_tables()


class TestLists:
    @pytest.fixture(autouse=True)
    def narrow(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Pretend that the tables are ten times as large."""
        make_new(*BIG)
        monkeypatch.setattr(walks, "MAX_SEARCHED", SEARCHED)
        monkeypatch.setattr(lists, "MAX_AHEAD", 2 * SEARCHED)

    def offenders(self, operator: Client) -> dict[str, Any]:
        trigger = Trigger.objects.select_related("tenant").first()
        assert trigger is not None
        found: dict[str, Any] = {}
        for address in TABS + FILTERS + _JOBS:
            url = address.format(tenant=trigger.tenant_id, slug=trigger.tenant.slug)
            with CaptureQueriesContext(connection) as queries:
                assert operator.get(url).status_code == 200
            asked = [
                query["sql"]
                for query in queries
                if any(table in query["sql"] for table in ("jobs_trigger", "jobs_attempt", "jobs_job"))
            ]
            assert len(queries) <= 25, url
            for sql in asked:
                read, whole = rows_read(sql)
                if whole or read > MOST_READ:
                    found[address] = (read, sorted(whole), sql)
        return found

    def test_look_at_few_rows_when_all_was_analyzed(self, operator: Client) -> None:
        fill(MIXED)
        analyze(*BIG)
        assert self.offenders(operator) == {}

    def test_look_at_few_rows_when_nothing_was_analyzed(self, operator: Client) -> None:
        fill(MIXED)
        assert self.offenders(operator) == {}

    def test_look_at_few_rows_when_the_tables_looked_otherwise_while_analyzed(self, operator: Client) -> None:
        fill({"pending": 100})
        analyze("jobs_trigger", "jobs_job")
        for model in (Trigger, CatchUp, SkippedRange, JobVersion, Job):
            model.objects.all().delete()
        fill(MIXED)
        assert self.offenders(operator) == {}
