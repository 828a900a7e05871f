"""``GET /workflow-runs/{id}/explain``, of runs in states that the engine's own statements brought about."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.explain.workflows import explain_run
from jobs.models import Trigger, WorkflowRun
from tests import factories
from tests.factories import HOUR, make_tenant
from tests.interfaces.api.caller import Caller, faulty_fields
from tests.workflows.playing import begin, claim_due, finish, key_of, make_workflow, play

pytestmark = pytest.mark.django_db(transaction=True)
ETL = (("extract", "load"), ("load", "report"), ("load", "alert", "on_failure"))


@pytest.fixture
def owner() -> Caller:
    return Caller(make_tenant())


def explained(owner: Caller, run: WorkflowRun, task: str | None = None) -> dict[str, Any]:
    answer = owner.get(f"/workflow-runs/{run.id}/explain{f'?task={task}' if task else ''}")
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = answer.json()
    return found


def fail_once(run: WorkflowRun) -> Trigger:
    """Try the due task once: it fails, and is due again in an hour."""
    finish(claim_due(), lambda row: "retrying")
    trigger = Trigger.objects.get(workflow_run_id=run.id, state="retrying")
    Trigger.objects.filter(id=trigger.id).update(due_at=factories.now() + HOUR)
    trigger.refresh_from_db()
    return trigger


class TestARun:
    def test_names_the_task_that_holds_it_and_all_that_holds_its_trigger(self, owner: Caller) -> None:
        run = begin(make_workflow(owner.tenant, *ETL))
        trigger = fail_once(run)
        found = explained(owner, run)
        assert (found["run_id"], found["state"], found["blocking"]) == (str(run.id), "running", ["tasks"])
        assert found["counts"] | {"started": 1, "waiting": 3} == found["counts"]
        [holding] = found["holding"]
        assert (holding["task"], holding["trigger_id"]) == ("extract", str(trigger.id))
        assert holding["detail"].startswith("retrying, next attempt at ")
        assert (found["trigger"]["trigger_id"], found["task"]) == (str(trigger.id), None)
        assert "back_off" in found["trigger"]["blocking"]
        assert found["summary"].startswith("Waits for extract: retrying, next attempt at ")
        assert found["summary"].endswith(found["trigger"]["summary"])

    def test_that_has_ended_tells_how(self, owner: Caller) -> None:
        run = begin(make_workflow(owner.tenant, *ETL))
        play(run, {"load": "dead"})
        found = explained(owner, run)
        assert (found["state"], found["gates"], found["holding"], found["trigger"]) == (
            "failed",
            [],
            [],
            None,
        )
        assert "2 tasks succeeded, 1 task failed, 1 task was skipped. load: failed at " in found["summary"]

    def test_of_others_is_not_there(self, owner: Caller) -> None:
        run = begin(make_workflow(owner.tenant, *ETL))
        assert Caller(make_tenant()).get(f"/workflow-runs/{run.id}/explain").status_code == 404

    def test_costs_as_many_statements_however_many_tasks_it_has(self, owner: Caller) -> None:
        def statements(tasks: int) -> int:
            keys = [f"t{number}" for number in range(tasks)]
            edges = [("t0", key) for key in keys[1:]] + [(key, "end") for key in keys[1:]]
            run = begin(make_workflow(owner.tenant, *edges))
            fail_once(run)
            with CaptureQueriesContext(connection) as asked:
                explain_run(tenant=owner.tenant, run_id=run.id, task="end", available=lambda bucket: None)
            return len(asked)

        assert statements(3) == statements(300) <= 10


class TestATask:
    def test_that_waits_is_told_by_the_trigger_that_it_waits_for(self, owner: Caller) -> None:
        run = begin(make_workflow(owner.tenant, *ETL))
        trigger = fail_once(run)
        found = explained(owner, run, "report")["task"]
        assert (found["task"], found["state"], found["blocking"]) == ("report", "waiting", ["upstream"])
        assert (found["trigger_of"], found["trigger"]["trigger_id"]) == ("extract", str(trigger.id))
        assert found["summary"].startswith("Waits for load: waiting for extract, which is retrying")
        assert "extract: Attempt 1 of " in found["summary"]
        [upstream] = [gate for gate in found["gates"] if gate["gate"] == "upstream"]
        assert upstream["blockers"] == [str(trigger.id)]

    def test_that_is_ready_is_told_by_what_holds_it(self, owner: Caller) -> None:
        workflow = make_workflow(owner.tenant, tasks=["a", "b"], max_parallel=1)
        run = begin(workflow)
        assert explained(owner, run, "b")["task"]["blocking"] == ["max_parallel"]
        owner.post(f"/workflow-runs/{run.id}/pause")
        found = explained(owner, run, "b")
        assert (found["task"]["blocking"], found["blocking"]) == (
            ["paused", "max_parallel"],
            ["paused", "max_parallel", "tasks"],
        )

    def test_that_has_started_is_told_by_its_trigger(self, owner: Caller) -> None:
        run = begin(make_workflow(owner.tenant, *ETL))
        found = explained(owner, run, "extract")["task"]
        assert (found["blocking"], found["trigger_of"]) == (["trigger"], "extract")
        assert found["summary"] == found["trigger"]["summary"]

    def test_that_failed_or_was_skipped_is_told_by_its_cause(self, owner: Caller) -> None:
        run = begin(make_workflow(owner.tenant, *ETL))
        play(run, {"load": "dead"})
        failed = explained(owner, run, "load")["task"]
        assert (failed["state"], failed["gates"]) == ("failed", [])
        assert failed["summary"].startswith("Given up at ")
        skipped = explained(owner, run, "report")["task"]
        assert (skipped["reason"], skipped["trigger"]) == ("upstream", None)
        assert "its edge from load (on_success) could not be met: load failed." in skipped["summary"]

    def test_that_a_retry_skipped_is_not_told_by_the_trigger_of_its_first_start(self, owner: Caller) -> None:
        run = begin(make_workflow(owner.tenant, *ETL))
        play(run)
        owner.post(f"/workflow-runs/{run.id}/retry", {"tasks": ["load"]})
        play(run, {"load": "dead"})
        found = explained(owner, run, "report")["task"]
        assert (found["state"], found["trigger"], found["trigger_of"]) == ("skipped", None, None)
        assert explained(owner, run, "load")["task"]["trigger_of"] == "load"

    def test_that_the_version_does_not_have_is_refused(self, owner: Caller) -> None:
        run = begin(make_workflow(owner.tenant, *ETL))
        assert faulty_fields(owner.get(f"/workflow-runs/{run.id}/explain?task=lode")) == {"task"}
        assert key_of(Trigger.objects.get().id) == "extract"
