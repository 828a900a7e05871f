"""An operator asks a run to go on once more, to wait, or to end."""

from functools import partial

import pytest

from jobs.actions.workflows import runs
from jobs.core.errors import Conflict, NotFound
from jobs.models import Attempt, TaskRun, Trigger, WorkflowRun
from jobs.store import workflows
from tests import factories
from tests.races.conftest import at_once
from tests.workflows.playing import begin, claim_due, finish, key_of, make_workflow, play, states

pytestmark = pytest.mark.django_db(transaction=True)


class TestRetry:
    def retry(self, run: WorkflowRun) -> WorkflowRun:
        return runs.retry_run(tenant=run.tenant, run_id=run.id)

    def test_begins_again_with_what_failed_and_keeps_what_succeeded(self) -> None:
        run = begin(make_workflow(factories.make_tenant(), ("a", "b"), ("b", "c"), ("a", "x"), ("x", "c")))
        play(run, {"b": "dead"})
        assert states(run) == {"a": "succeeded", "b": "failed", "x": "succeeded", "c": "skipped upstream"}
        kept = Trigger.objects.get(id=TaskRun.objects.get(run=run, task=0).id)
        again = self.retry(run)
        assert (again.state, again.finished_at, again.halted) == ("running", None, False)
        assert play(run) == [["b"], ["c"]]
        assert run.state == "succeeded"
        assert Trigger.objects.get(id=kept.id).finished_at == kept.finished_at

    def test_replays_the_same_trigger_under_a_higher_fence(self) -> None:
        run = begin(make_workflow(factories.make_tenant(), tasks=["a"]))
        [late] = claim_due()
        finish([late], lambda _: "dead")
        self.retry(run)
        [row] = claim_due()
        assert (row.id, row.attempt_count, row.budget_start) == (late.id, 2, 1)
        assert row.fence > late.fence
        finish([late], lambda _: "succeeded")
        assert states(run) == {"a": "started"}
        finish([row], lambda _: "succeeded")
        assert states(run) == {"a": "succeeded"}

    def test_decides_again_what_came_after_a_failure(self) -> None:
        """The alert ran in vain: after the failure is mended nothing asks for it."""
        run = begin(make_workflow(factories.make_tenant(), ("a", "b"), ("a", "alert", "on_failure")))
        play(run, {"a": "dead"})
        assert states(run) == {"a": "failed", "b": "skipped upstream", "alert": "succeeded"}
        self.retry(run)
        assert play(run) == [["a"], ["b"]]
        assert states(run) == {"a": "succeeded", "b": "succeeded", "alert": "skipped upstream"}

    def test_goes_on_with_what_a_halt_skipped(self) -> None:
        run = begin(make_workflow(factories.make_tenant(), ("a", "b"), ("x", "y")))
        [first, other] = sorted(claim_due(), key=lambda row: key_of(row.id))
        finish([other], lambda _: "dead")
        finish([first], lambda _: "succeeded")
        assert states(run) == {
            "a": "succeeded",
            "b": "skipped halted",
            "x": "failed",
            "y": "skipped upstream",
        }
        self.retry(run)
        assert play(run) == [["b", "x"], ["y"]]

    def test_goes_on_with_a_run_that_was_cancelled(self) -> None:
        tenant = factories.make_tenant()
        run = begin(make_workflow(tenant, ("a", "b"), ("b", "c")))
        finish(claim_due(), lambda _: "succeeded")
        assert runs.cancel_run(tenant=tenant, run_id=run.id).state == "cancelled"
        assert states(run) == {"a": "succeeded", "b": "cancelled", "c": "cancelled"}
        assert self.retry(run).cancel_requested is False
        assert play(run) == [["b"], ["c"]]
        assert run.state == "succeeded"

    def test_may_fail_again_and_be_retried_again(self) -> None:
        run = begin(make_workflow(factories.make_tenant(), ("a", "b")))
        for _ in range(3):
            play(run, {"a": "dead"})
            assert (run.state, states(run)["b"]) == ("failed", "skipped upstream")
            self.retry(run)
        assert play(run) == [["a"], ["b"]]

    def test_starts_a_task_whose_history_was_purged(self) -> None:
        run = begin(make_workflow(factories.make_tenant(), ("a", "b")))
        play(run, {"a": "dead"})
        Attempt.objects.all().delete()
        Trigger.objects.all().delete()
        self.retry(run)
        assert play(run) == [["a"], ["b"]]

    @pytest.mark.parametrize(
        ("ends", "said"), [({}, "nothing to retry: it is succeeded"), (None, "not ended")]
    )
    def test_of_a_run_that_did_not_fail_is_refused(self, ends: dict[str, str] | None, said: str) -> None:
        run = begin(make_workflow(factories.make_tenant(), ("a", "b")))
        if ends is not None:
            play(run, ends)
        with pytest.raises(Conflict, match=said):
            self.retry(run)

    def test_of_another_tenants_run_finds_nothing(self) -> None:
        run = begin(make_workflow(factories.make_tenant(), tasks=["a"]))
        play(run, {"a": "dead"})
        with pytest.raises(NotFound):
            runs.retry_run(tenant=factories.make_tenant(), run_id=run.id)
        run.refresh_from_db()
        assert run.state == "failed"

    def test_of_tasks_that_are_named_begins_again_with_those_alone_and_what_follows(self) -> None:
        run = begin(make_workflow(factories.make_tenant(), ("a", "b"), ("b", "c"), ("a", "x")))
        play(run, {"x": "dead"})
        runs.retry_run(tenant=run.tenant, run_id=run.id, tasks=["b"])
        assert states(run) == {"a": "succeeded", "b": "started", "c": "waiting", "x": "failed"}
        assert play(run) == [["b"], ["c"]]
        assert run.state == "failed"

    def test_of_a_task_that_is_named_runs_what_succeeded_from_its_start(self) -> None:
        run = begin(make_workflow(factories.make_tenant(), ("a", "b")))
        play(run)
        Trigger.objects.update(checkpoint={"at": 3})
        runs.retry_run(tenant=run.tenant, run_id=run.id, tasks=["a"])
        [row] = claim_due()
        assert (key_of(row.id), Trigger.objects.get(id=row.id).checkpoint, row.attempt_count) == (
            "a",
            None,
            2,
        )
        finish([row], lambda _: "dead")
        run.refresh_from_db()
        assert (run.state, states(run)) == ("failed", {"a": "failed", "b": "skipped upstream"})

    def test_does_not_begin_a_task_whose_edges_are_not_met(self) -> None:
        run = begin(make_workflow(factories.make_tenant(), ("a", "b")))
        play(run, {"a": "dead"})
        runs.retry_run(tenant=run.tenant, run_id=run.id, tasks=["b"])
        run.refresh_from_db()
        assert (run.state, states(run)) == ("failed", {"a": "failed", "b": "skipped upstream"})


class TestPause:
    def pause(self, run: WorkflowRun) -> None:
        runs.pause_run(tenant=run.tenant, run_id=run.id)

    def resume(self, run: WorkflowRun) -> None:
        runs.resume_run(tenant=run.tenant, run_id=run.id)

    def test_holds_what_becomes_ready_and_lets_what_has_started_end(self) -> None:
        run = begin(make_workflow(factories.make_tenant(), ("a", "b"), ("b", "c")))
        rows = claim_due()
        self.pause(run)
        finish(rows, lambda _: "succeeded")
        assert (claim_due(), states(run)) == ([], {"a": "succeeded", "b": "ready", "c": "waiting"})
        self.resume(run)
        assert play(run) == [["b"], ["c"]]
        assert run.state == "succeeded"

    def test_lets_a_run_end_of_which_nothing_is_left_to_start(self) -> None:
        run = begin(make_workflow(factories.make_tenant(), ("a", "b")))
        rows = claim_due()
        self.pause(run)
        finish(rows, lambda _: "dead")
        run.refresh_from_db()
        assert (run.state, run.paused_at) == ("failed", None)

    def test_does_not_keep_a_run_from_being_cancelled(self) -> None:
        run = begin(make_workflow(factories.make_tenant(), ("a", "b")))
        rows = claim_due()
        self.pause(run)
        finish(rows, lambda _: "succeeded")
        assert runs.cancel_run(tenant=run.tenant, run_id=run.id).state == "cancelled"
        assert states(run) == {"a": "succeeded", "b": "cancelled"}

    def test_is_over_for_a_run_that_is_retried(self) -> None:
        run = begin(make_workflow(factories.make_tenant(), ("a", "b")))
        finish(claim_due(), lambda _: "succeeded")
        self.pause(run)
        runs.cancel_run(tenant=run.tenant, run_id=run.id)
        runs.retry_run(tenant=run.tenant, run_id=run.id)
        assert play(run) == [["b"]]

    def test_and_resume_beside_tasks_that_end_start_each_task_once(self) -> None:
        run = begin(
            make_workflow(factories.make_tenant(), *(("a", f"b{n}") for n in range(20)), max_parallel=7)
        )
        steer = {"run_id": run.id, "tenant_id": run.tenant_id}
        pause, resume = partial(workflows.pause_run, **steer), partial(workflows.resume_run, **steer)
        while rows := claim_due():
            at_once(partial(finish, rows, lambda _: "succeeded"), pause, resume, resume)
            resume()
        run.refresh_from_db()
        assert run.state == "succeeded"
        assert Attempt.objects.filter(trigger__workflow_run_id=run.id).count() == 21


class TestCancel:
    def test_ends_what_waits_and_asks_what_runs(self) -> None:
        tenant = factories.make_tenant()
        run = begin(make_workflow(tenant, ("a", "c"), ("b", "c"), ("c", "d")))
        rows = claim_due()
        finish(rows[:1], lambda _: "succeeded")
        cancelled = runs.cancel_run(tenant=tenant, run_id=run.id)
        assert (cancelled.state, cancelled.cancel_requested) == ("running", True)
        assert Trigger.objects.get(id=rows[1].id).cancel_requested
        finish(rows[1:], lambda _: "succeeded")
        run.refresh_from_db()
        assert run.state == "cancelled"
        assert states(run) == {"a": "succeeded", "b": "succeeded", "c": "cancelled", "d": "cancelled"}

    def test_of_a_run_that_has_ended_is_refused(self) -> None:
        tenant = factories.make_tenant()
        run = begin(make_workflow(tenant, tasks=["a"]))
        play(run)
        with pytest.raises(Conflict, match="it is succeeded"):
            runs.cancel_run(tenant=tenant, run_id=run.id)

    def test_of_a_run_before_anything_ran_ends_it_at_once(self) -> None:
        tenant = factories.make_tenant()
        run = begin(make_workflow(tenant, ("a", "b")))
        assert runs.cancel_run(tenant=tenant, run_id=run.id).state == "cancelled"
