"""No list of workflows or runs reads a big table whole, whichever statistics the planner has of it."""

from itertools import cycle, islice
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from jobs.admin.shared import walks
from jobs.models import Workflow, WorkflowRun, WorkflowVersion
from jobs.models.fields import new_ids
from tests import factories
from tests.interfaces.admin.test_list_plans import rows_read
from tests.store.conftest import make_new
from tests.store.plans.planner import analyze
from tests.workflows.playing import begin, make_workflow

pytestmark = [pytest.mark.slow, pytest.mark.django_db]
TABLES = ("jobs_workflow", "jobs_workflowversion", "jobs_workflowrun", "jobs_taskrun")
#: Numbers of runs on record, of their workflows and tenants. Rows that a page may look at, and that a statement may
#: read.
RUNS, WORKFLOWS, TENANTS = 6_000, 600, 3
SEARCHED, MOST_READ = 200, 1_000
LISTS = [
    f"/admin/jobs/{address}"
    for address in (
        "workflow/",
        "workflow/?tenant__id__exact={tenant}",
        "workflow/?deleted=1",
        "workflow/?q=of-",
        "workflow/?q=nothing-is-named-so",
        "workflowrun/",
        "workflowrun/?p=2",
        "workflowrun/?tenant__id__exact={tenant}",
        "workflowrun/?workflow__id__exact={workflow}",
        "workflowrun/?workflow__id__exact={workflow}&state__exact=failed",
        "workflowrun/?state__exact=failed",
        "workflowrun/?state__exact=running",
        "workflowrun/?created=1h&state__exact=failed",
        "workflowrun/?q={workflow}",
        "workflow/{workflow}/change/",
        "workflowrun/{run}/change/",
    )
]


@pytest.fixture
def many() -> WorkflowRun:
    """A run among many. The tables look as big as they are."""
    make_new(*TABLES)
    tenants = [factories.make_tenant() for _ in range(TENANTS)]
    run = begin(make_workflow(tenants[0], ("extract", "load"), name="of-itself"))
    at = factories.now()
    workflows = Workflow.objects.bulk_create(
        Workflow(tenant=tenant, name=f"of-{number:04}", created_at=at, updated_at=at)
        for number, tenant in enumerate(islice(cycle(tenants), WORKFLOWS))
    )
    versions = WorkflowVersion.objects.bulk_create(
        WorkflowVersion(workflow=workflow, number=1, definition={}, task_count=2, halts=True, created_at=at)
        for workflow in workflows
    )
    WorkflowRun.objects.bulk_create(
        WorkflowRun(
            id=run_id,
            tenant_id=version.workflow.tenant_id,
            workflow_id=version.workflow_id,
            version=version,
            state="succeeded",
            scheduled_for=at + number * factories.SECOND,
            created_at=at,
            finished_at=at,
        )
        for number, (run_id, version) in enumerate(zip(new_ids(RUNS), cycle(versions), strict=False))
    )
    return run


class TestLists:
    @pytest.fixture(autouse=True)
    def narrow(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Pretend that the tables are ten times as large."""
        monkeypatch.setattr(walks, "MAX_SEARCHED", SEARCHED)

    def offenders(self, operator: Client, run: WorkflowRun, *, most: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for address in LISTS:
            url = address.format(tenant=run.tenant_id, workflow=run.workflow_id, run=run.id)
            with CaptureQueriesContext(connection) as queries:
                assert operator.get(url).status_code == 200, url
            assert len(queries) <= 25, url
            for sql in (query["sql"] for query in queries if any(one in query["sql"] for one in TABLES)):
                read, whole = rows_read(sql)
                if whole & set(TABLES) or read > most:
                    found[address] = (read, sorted(whole), sql)
        return found

    def test_look_at_few_rows_when_all_was_analyzed(self, operator: Client, many: WorkflowRun) -> None:
        analyze(*TABLES)
        assert self.offenders(operator, many, most=MOST_READ) == {}

    def test_look_at_the_rows_of_one_tenant_when_nothing_was_analyzed(
        self, operator: Client, many: WorkflowRun
    ) -> None:
        """Without statistics Postgres expects few runs of a tenant, and sorts all of that tenant's runs."""
        assert self.offenders(operator, many, most=RUNS // TENANTS + SEARCHED) == {}
