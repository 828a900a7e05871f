"""A task's handler learns of the workflow that it is part of: ``ctx.workflow``, and ``workflow`` of a claim."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.actions.pull.types import declare_type
from jobs.actions.workflows import definitions
from jobs.core.instants import instant_text
from jobs.core.pull import stored_name
from jobs.core.workflows.flow import TaskContext
from jobs.handlers import Context
from jobs.models import Trigger, WorkflowRun
from jobs.models.fields import new_id
from jobs.store import db, execution
from jobs.store.execution import ClaimToken
from tests import factories
from tests.engine.conftest import Perform, handler, perform
from tests.interfaces.api.caller import Caller
from tests.workflows.playing import begin, claim_due, make_workflow

__all__ = ("handler", "perform")
pytestmark = pytest.mark.django_db(transaction=True)


def expected(run: WorkflowRun, task: str, *, version: int = 1) -> TaskContext:
    return TaskContext(
        workflow_id=run.workflow_id,
        workflow_name=run.workflow.name,
        version=version,
        run_id=run.id,
        task=task,
        scheduled_for=run.scheduled_for,
        input=run.input,
    )


class TestHandler:
    def test_is_told_run_workflow_and_task(self, handler: Callable[..., str], perform: Perform) -> None:
        seen: list[object] = []
        kind = handler(lambda ctx, payload: seen.append(ctx.workflow))
        run = begin(
            make_workflow(factories.make_tenant(), ("a", "b"), job_type=kind), run_input={"day": "monday"}
        )
        for _ in range(2):
            factories.dispatch(types=[kind])
            assert perform(*Trigger.objects.filter(state="queued")) == {"succeeded": 1}
        assert seen == [expected(run, "a"), expected(run, "b")]

    def test_of_a_plain_firing_is_told_nothing(self, handler: Callable[..., str], perform: Perform) -> None:
        seen: list[object] = []

        def work(ctx: Context, payload: dict[str, Any]) -> None:
            seen.append(ctx.workflow)

        perform(factories.make_trigger(factories.make_job(job_type=handler(work)), "queued"))
        assert seen == [None]


class TestClaim:
    def test_tells_each_of_its_own_run(self) -> None:
        workflow = make_workflow(factories.make_tenant(), tasks=("a", "b"))
        began = [begin(workflow, run_input=value) for value in ({"n": 1}, None, [2])]
        plain = factories.make_trigger(factories.make_job(), "pending")
        rows = {row.id: row.workflow for row in claim_due()}
        assert rows.pop(plain.id) is None
        assert sorted(rows.values(), key=lambda told: (told.scheduled_for, told.task)) == [
            expected(run, task) for run in began for task in ("a", "b")
        ]

    def test_tells_of_the_version_on_which_the_run_is(self) -> None:
        workflow = make_workflow(factories.make_tenant(), tasks=("a",))
        run = begin(workflow)
        edited = definitions.find_version(workflow, 1).definition | {"name": "renamed"}
        definitions.edit_workflow(tenant=workflow.tenant, workflow_id=workflow.id, definition=edited)
        run.workflow.refresh_from_db()
        assert [row.workflow for row in claim_due()] == [expected(run, "a", version=1)]
        assert run.workflow.name == "renamed"

    def test_that_is_repeated_tells_it_again(self) -> None:
        run = begin(make_workflow(factories.make_tenant(), tasks=("a",)))
        factories.dispatch(limit=10)
        [trigger] = Trigger.objects.all()
        token = ClaimToken(trigger.id, trigger.fence)
        how: dict[str, Any] = {
            "tokens": [token], "job_types": ["noop"], "worker": "w1", "celery_task_id": "c1",
            "lease": factories.HOUR, "attempt_ids": [new_id()],
        }  # fmt: skip
        first, again = execution.claim(**how), execution.claim(**how)
        assert [row.workflow for row in (*first, *again)] == [expected(run, "a")] * 2

    def test_asks_one_statement_more_for_tasks_and_none_for_plain_firings(self) -> None:
        tenant = factories.make_tenant()
        workflow = make_workflow(tenant, tasks=("a", "b"))

        def asked() -> int:
            factories.dispatch(limit=1000)
            queued = list(Trigger.objects.filter(state="queued"))
            with CaptureQueriesContext(connection) as queries:
                assert len(factories.claim(*queued)) == 2
            return sum("jobs_workflowrun" in one["sql"] for one in queries)

        factories.make_triggers(factories.make_job(tenant=tenant), 2)
        assert asked() == 0
        begin(workflow)
        assert asked() == 1

    def test_reads_the_input_once_a_run(self) -> None:
        began = [
            begin(make_workflow(factories.make_tenant(), tasks=tuple("abc")), run_input=n) for n in (1, 2)
        ]
        rows = claim_due()
        assert sorted(row.workflow.input for row in rows) == [1, 1, 1, 2, 2, 2]
        answered = db.queries("workflows")["values"](ids=[row.id for row in rows], references=[".task"] * 6)
        assert sorted(row.input for row in answered if row.input) == [run.input for run in began]


class TestPullWorker:
    def test_is_answered_the_same(self) -> None:
        tenant = factories.make_tenant()
        declare_type(tenant=tenant, name="reports.build", declaration={})
        run = begin(make_workflow(tenant, tasks=("a",), job_type="reports.build"), run_input=[1])
        factories.make_trigger(
            factories.make_job(tenant, job_type=stored_name("reports.build", tenant_id=tenant.id))
        )
        factories.dispatch(types=[stored_name("reports.build", tenant_id=tenant.id)])
        asked = {"worker": "w1", "job_types": ["reports.build"], "capacity": 2}
        answer = Caller(tenant, scopes=("worker",)).post("/worker/claim", asked).json()
        told = {work["job_name"].split("/")[0]: work["workflow"] for work in answer["triggers"]}
        assert told.pop(run.workflow.name) == {
            "workflow_id": str(run.workflow_id),
            "workflow_name": run.workflow.name,
            "version": 1,
            "run_id": str(run.id),
            "task": "a",
            "scheduled_for": instant_text(run.scheduled_for),
            "input": [1],
        }
        assert list(told.values()) == [None]
