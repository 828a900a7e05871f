"""Events of workflows, their runs and triggers of tasks: written by the transaction that makes the change."""

from typing import Any

import pytest
from django.db import connection, transaction

from jobs.actions.workflows import definitions, runs
from jobs.models import Event, Trigger, WorkflowRun
from jobs.store import events
from tests.factories import make_tenant
from tests.interfaces.api.caller import Caller
from tests.workflows.playing import begin, claim_due, finish, make_workflow, play

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def owner() -> Caller:
    return Caller(make_tenant())


def told(owner: Caller, of: str = "workflow") -> list[dict[str, Any]]:
    """The events that the feed shows, in order."""
    found: list[dict[str, Any]] = owner.get("/events").json()["results"]
    return [event for event in found if event["kind"].startswith(of)]


def kinds(owner: Caller, of: str = "workflow_run.") -> list[str]:
    return [event["kind"].removeprefix(of) for event in told(owner, of)]


class TestWorkflows:
    def test_tell_of_their_whole_life(self, owner: Caller) -> None:
        created = owner.post("/workflows", {"name": "etl", "tasks": {"load": {"job_type": "noop"}}}).json()
        path = f"/workflows/{created['id']}"
        owner.put(path, {"name": "elt", "tasks": {"load": {"job_type": "noop"}}})
        owner.put(path, {"name": "elt", "tasks": {"load": {"job_type": "noop"}}})
        owner.delete(path)
        found = told(owner)
        assert [event["kind"] for event in found] == [
            "workflow.created",
            "workflow.updated",
            "workflow.deleted",
        ]
        assert {(event["job_id"], event["trigger_id"], event["workflow_run_id"]) for event in found} == {
            (None, None, None)
        }
        assert {event["workflow_id"] for event in found} == {created["id"]}
        assert [event["data"] for event in found] == [
            {"workflow_name": "etl", "version": 1},
            {"workflow_name": "elt", "version": 2},
            {"workflow_name": "elt", "version": 2},
        ]

    def test_tell_nothing_of_what_was_rolled_back(self, owner: Caller) -> None:
        with transaction.atomic():
            make_workflow(owner.tenant, tasks=["load"])
            transaction.set_rollback(True)
        assert told(owner) == []

    def test_that_are_dropped_past_retention_have_told_of_it(self, owner: Caller) -> None:
        workflow = make_workflow(owner.tenant, tasks=["load"])
        definitions.delete_workflow(tenant=owner.tenant, workflow_id=workflow.id)
        before = told(owner)
        with connection.cursor() as cursor:
            cursor.execute("UPDATE jobs_workflow SET updated_at = now(), version = 7")
        assert told(owner) == before


class TestRuns:
    def test_tell_of_their_begin_and_end(self, owner: Caller) -> None:
        workflow = make_workflow(owner.tenant, ("extract", "load"), name="etl")
        run = begin(workflow)
        play(run)
        started, succeeded = told(owner, "workflow_run.")
        assert (started["kind"], succeeded["kind"]) == ("workflow_run.started", "workflow_run.succeeded")
        for event in (started, succeeded):
            assert (event["workflow_id"], event["workflow_run_id"]) == (str(workflow.id), str(run.id))
            assert (event["job_id"], event["trigger_id"]) == (None, None)
            assert event["data"].pop("scheduled_for").startswith("20")
        assert started["data"] == {"workflow_name": "etl", "version": 1}
        run.refresh_from_db()
        assert run.finished_at is not None
        seconds = (run.finished_at - run.created_at).total_seconds()
        assert succeeded["data"] == {"workflow_name": "etl", "version": 1, "seconds": pytest.approx(seconds)}

    def test_that_fail_name_the_tasks_that_did(self, owner: Caller) -> None:
        keys = [f"t{number}" for number in range(12)]
        run = begin(make_workflow(owner.tenant, tasks=[*keys, "good"]))
        play(run, {"t0": "cancelled"} | dict.fromkeys(keys[1:], "dead"))
        *_, failed = told(owner, "workflow_run.")
        assert (failed["kind"], failed["data"]["failed_tasks"]) == ("workflow_run.failed", keys[:10])

    def test_tell_of_every_steering_once(self, owner: Caller) -> None:
        run = begin(make_workflow(owner.tenant, tasks=["load"]))
        path = f"/workflow-runs/{run.id}"
        for verb in ("pause", "pause", "resume", "resume", "pause"):
            owner.post(f"{path}/{verb}")
        # The end clears the pause. That is no resumption.
        play(run, {"load": "dead"})
        owner.post(f"{path}/retry")
        owner.post(f"{path}/cancel")
        owner.post(f"{path}/cancel")
        assert kinds(owner) == ["started", "paused", "resumed", "paused", "failed", "retried", "cancelled"]

    def test_tell_nothing_of_what_was_rolled_back(self, owner: Caller) -> None:
        run = begin(make_workflow(owner.tenant, tasks=["load"]))
        with transaction.atomic():
            runs.pause_run(tenant=owner.tenant, run_id=run.id)
            transaction.set_rollback(True)
        assert kinds(owner) == ["started"]

    def test_end_in_the_transaction_that_ended_their_last_task(self, owner: Caller) -> None:
        run = begin(make_workflow(owner.tenant, tasks=["load"]))
        rows = claim_due()
        finish(rows, lambda row: "succeeded")
        [ended] = Event.objects.filter(kind="workflow_run.succeeded")
        with connection.cursor() as cursor:
            cursor.execute("SELECT xmin FROM jobs_trigger WHERE id = %s", [rows[0].id])
            [xmin] = cursor.fetchone()
        assert int(ended.xid) % 2**32 == int(xmin)
        assert WorkflowRun.objects.get(id=run.id).state == "succeeded"

    def test_are_read_by_their_tenant_alone(self, owner: Caller) -> None:
        begin(make_workflow(owner.tenant, tasks=["load"]))
        assert told(Caller(make_tenant())) == []
        assert len(events.page(tenant_id=owner.tenant.id, after=events.START, limit=10)) == 2


class TestTriggersOfTasks:
    def test_name_their_run_and_their_task(self, owner: Caller) -> None:
        workflow = make_workflow(owner.tenant, tasks=["load"])
        run = begin(workflow)
        play(run, {"load": "dead"})
        [dead] = told(owner, "trigger.")
        trigger = Trigger.objects.get()
        assert (dead["workflow_id"], dead["workflow_run_id"]) == (str(workflow.id), str(run.id))
        assert (dead["trigger_id"], dead["job_id"]) == (str(trigger.id), str(trigger.job_id))
        assert dead["data"]["task"] == "load"
        assert not {"workflow_id", "workflow_run_id"} & dead["data"].keys()

    def test_come_before_the_end_of_their_run(self, owner: Caller) -> None:
        play(begin(make_workflow(owner.tenant, tasks=["load"])), {"load": "dead"})
        assert [event["kind"] for event in told(owner, "")] == [
            "workflow.created",
            "workflow_run.started",
            "trigger.dead",
            "workflow_run.failed",
        ]
