"""The effects of the end of a task, step by step. Every statement commits: effects are decided at the commit."""

import pytest
from django.db import DatabaseError, connection

from jobs.actions import triggers
from jobs.actions.jobs import find_job
from jobs.actions.pull import types
from jobs.actions.workflows import definitions
from jobs.core.errors import Conflict, InvalidInput, NotFound
from jobs.models import (
    Change,
    Event,
    Job,
    JobTally,
    Trigger,
    Workflow,
)
from jobs.store import execution, workflows
from jobs.store import jobs as job_store
from jobs.store.console import lists
from jobs.store.insight import find
from tests import factories
from tests.workflows.playing import begin, claim_due, finish, make_workflow, play, states

pytestmark = pytest.mark.django_db(transaction=True)
_FUNCTIONS = ["carillon_note_task", "carillon_settle_tasks"]
DIAMOND = (("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"))


class TestOrder:
    def test_a_diamond_runs_from_its_root_to_its_join(self) -> None:
        run = begin(make_workflow(factories.make_tenant(), *DIAMOND))
        assert play(run) == [["a"], ["b", "c"], ["d"]]
        assert run.state == "succeeded"
        assert run.finished_at is not None

    def test_max_parallel_holds_what_is_ready(self) -> None:
        run = begin(make_workflow(factories.make_tenant(), tasks="abcde", max_parallel=2))
        assert play(run) == [["a", "b"], ["c", "d"], ["e"]]

    def test_runs_of_one_workflow_do_not_meet(self) -> None:
        workflow = make_workflow(factories.make_tenant(), ("a", "b"))
        one, other = begin(workflow), begin(workflow)
        play(one)
        other.refresh_from_db()
        assert (one.state, other.state) == ("succeeded", "succeeded")
        assert Trigger.objects.filter(workflow_run_id__isnull=False).count() == 4

    def test_a_second_run_of_an_instant_is_none(self) -> None:
        workflow = make_workflow(factories.make_tenant(), ("a", "b"))
        begun = {
            "workflow_id": workflow.id,
            "version_id": workflow.versions.get().id,
            "tasks": 2,
            "scheduled_for": factories.now(),
        }
        assert workflows.begin_run(**begun) is not None
        assert workflows.begin_run(**begun) is None


class TestConditions:
    def test_what_hangs_on_a_failure_is_skipped_transitively_when_all_goes_well(self) -> None:
        run = begin(make_workflow(factories.make_tenant(), ("a", "alert", "on_failure"), ("alert", "page")))
        play(run)
        assert states(run) == {"a": "succeeded", "alert": "skipped upstream", "page": "skipped upstream"}
        assert run.state == "succeeded"

    def test_a_join_of_all_finished_runs_whatever_its_branches_came_to(self) -> None:
        edges = (("a", "b"), ("a", "c", "on_failure"), ("b", "d"), ("c", "d"))
        run = begin(make_workflow(factories.make_tenant(), *edges, whens={"d": "all_finished"}))
        play(run)
        assert states(run) == {"a": "succeeded", "b": "succeeded", "c": "skipped upstream", "d": "succeeded"}

    def test_any_success_starts_once(self) -> None:
        run = begin(
            make_workflow(factories.make_tenant(), ("a", "c"), ("b", "c"), whens={"c": "any_success"})
        )
        one, other = claim_due()
        finish([one], lambda _: "succeeded")
        [third] = claim_due()
        finish([other], lambda _: "succeeded")
        assert claim_due() == []
        finish([third], lambda _: "succeeded")
        run.refresh_from_db()
        assert run.state == "succeeded"

    def test_a_cancelled_task_counts_as_failed(self) -> None:
        run = begin(make_workflow(factories.make_tenant(), ("a", "b"), ("a", "alert", "on_failure")))
        play(run, {"a": "cancelled"})
        assert states(run) == {"a": "cancelled", "b": "skipped upstream", "alert": "succeeded"}
        assert run.state == "failed"


class TestHalt:
    EDGES = (("a", "b"), ("b", "c"), ("x", "alert", "on_failure"), ("alert", "page"))

    def test_lets_start_what_handles_the_failure_and_what_comes_after_it_alone(self) -> None:
        run = begin(make_workflow(factories.make_tenant(), *self.EDGES))
        play(run, {"x": "dead"})
        assert states(run) == {
            "a": "succeeded",
            "x": "failed",
            "alert": "succeeded",
            "page": "succeeded",
            "b": "skipped halted",
            "c": "skipped upstream",
        }
        assert run.state == "failed"

    def test_continue_lets_the_rest_go_on(self) -> None:
        run = begin(make_workflow(factories.make_tenant(), *self.EDGES, on_failure="continue"))
        play(run, {"x": "dead"})
        assert (states(run)["b"], states(run)["c"], run.state) == ("succeeded", "succeeded", "failed")


class TestOnce:
    def test_a_late_report_of_a_task_that_ended_starts_nothing_more(self) -> None:
        begin(make_workflow(factories.make_tenant(), ("a", "b")))
        rows = claim_due()
        finish(rows, lambda _: "succeeded")
        finish(rows, lambda _: "succeeded")
        assert Trigger.objects.count() == 2

    def test_a_task_is_not_replayed_by_itself(self) -> None:
        tenant = factories.make_tenant()
        run = begin(make_workflow(tenant, ("a", "b")))
        play(run, {"a": "dead"})
        [dead] = Trigger.objects.all()
        with pytest.raises(Conflict, match="retry the run"):
            triggers.replay_trigger(tenant=tenant, trigger_id=dead.id)
        assert triggers.replay_dead_letters(tenant=tenant) == 0
        assert Trigger.objects.get().state == "dead"


class TestHiddenJobs:
    def test_are_in_no_list_and_count_and_told_of_nowhere(self) -> None:
        tenant = factories.make_tenant()
        run = begin(make_workflow(tenant, ("a", "b")))
        play(run)
        assert Job.with_hidden.filter(tenant=tenant).count() == 2
        assert not Job.objects.filter(tenant=tenant).exists()
        assert job_store.living(tenant.id) == 0
        assert not JobTally.objects.exclude(jobs=0).exists()
        assert not Change.objects.filter(kind="job").exists()
        assert not Event.objects.filter(kind__startswith="job.").exists()

    def test_are_found_and_exported_nowhere(self) -> None:
        tenant = factories.make_tenant()
        make_workflow(tenant, ("extract", "load"), name="etl")
        hidden = Job.with_hidden.filter(tenant=tenant)
        with pytest.raises(NotFound):
            find_job(tenant=tenant, job_id=hidden[0].id)
        assert lists.named(tenant_ids=[tenant.id], prefix="etl") == []
        assert find.names("etl", tenant_ids=[tenant.id], limit=10) == []

    def test_stay_active_though_their_target_is_gone(self) -> None:
        """No one could resume it: the task fails, and its run with it."""
        begin(make_workflow(factories.make_tenant(), tasks=["a"]))
        rows = claim_due()
        finish(rows, lambda _: "dead")
        execution.pause_gone([rows[0].id])
        assert Job.with_hidden.get().status == "active"

    def test_keep_their_type_from_being_withdrawn(self) -> None:
        tenant = factories.make_tenant()
        types.declare_type(tenant=tenant, name="reports.build", declaration={})
        document = {"name": "etl", "tasks": {"build": {"job_type": "reports.build"}}}
        definitions.create_workflow(tenant=tenant, definition=document)
        with pytest.raises(Conflict, match="tasks of workflows are of this type"):
            types.withdraw_type(tenant=tenant, name="reports.build")
        definitions.delete_workflow(tenant=tenant, workflow_id=Workflow.objects.get().id)
        types.withdraw_type(tenant=tenant, name="reports.build")

    def test_are_never_completed(self) -> None:
        tenant = factories.make_tenant()
        play(begin(make_workflow(tenant, ("a", "b"))))
        _, completed = job_store.complete(after=Job(id="0" * 32).id, limit=10)
        assert completed == 0


class TestRefusals:
    def test_name_the_task(self) -> None:
        document = {"name": "etl", "tasks": {"load": {"job_type": "webhook", "payload": {"url": 5}}}}
        with pytest.raises(InvalidInput) as refused:
            definitions.create_workflow(tenant=factories.make_tenant(), definition=document)
        assert all(field.startswith("tasks.load.payload.url") for field in refused.value.errors)
        assert not Workflow.objects.exists()

    @pytest.mark.parametrize(
        ("task", "field"),
        [
            ({"job_type": "no_such"}, "tasks.load.job_type"),
            ({"job_type": "noop", "priority": "urgent"}, "tasks.load.priority"),
            ({"job_type": "noop", "schedule": {}}, "tasks.load.schedule"),
            ({"job_type": "noop", "when": "always"}, "tasks.load.when"),
            (
                {"job_type": "noop", "retry_policy": {"max_attempts": 0}},
                "tasks.load.retry_policy.max_attempts",
            ),
        ],
    )
    def test_name_the_field_of_a_task(self, task: dict[str, object], field: str) -> None:
        with pytest.raises(InvalidInput) as refused:
            definitions.create_workflow(
                tenant=factories.make_tenant(), definition={"name": "etl", "tasks": {"load": task}}
            )
        assert list(refused.value.errors) == [field]

    def test_of_a_name_that_is_taken(self) -> None:
        tenant = factories.make_tenant()
        make_workflow(tenant, tasks=["a"], name="etl")
        with pytest.raises(Conflict):
            make_workflow(tenant, tasks=["a"], name="etl")


class TestPlainFirings:
    def test_come_near_neither_function(self) -> None:
        """Both would divide by zero, and only a trigger of a run would notice."""
        run = begin(make_workflow(factories.make_tenant(), tasks=["a"]))
        rows = claim_due()
        trigger, attempt = factories.make_running()
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT proname, pg_get_functiondef(oid) FROM pg_proc WHERE proname = ANY(%s)", [_FUNCTIONS]
            )
            kept = dict(cursor.fetchall())
            try:
                for name in _FUNCTIONS:
                    cursor.execute(
                        f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql"
                        " AS 'BEGIN PERFORM 1 / 0; RETURN NULL; END'"
                    )
                assert execution.finish([factories.finish_of(trigger, attempt)])
                with pytest.raises(DatabaseError, match="division by zero"):
                    finish(rows, lambda _: "succeeded")
            finally:
                for definition in kept.values():
                    cursor.execute(definition)
        finish(rows, lambda _: "succeeded")
        run.refresh_from_db()
        assert run.state == "succeeded"
