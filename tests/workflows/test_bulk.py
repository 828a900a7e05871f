"""``/operations`` on runs: one verb for all that match, slice by slice, even if a beat dies in between."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from jobs.actions.bulk import operations
from jobs.actions.bulk import runs as slices
from jobs.actions.bulk.runner import IDLE_SECONDS, Runner
from jobs.actions.workflows import runs
from jobs.models import Change, Operation, TaskRun, Trigger, WorkflowRun
from jobs.selection import walks
from jobs.selection.walks import select
from tests import factories
from tests.interfaces.api.caller import Caller, faulty_fields
from tests.races.conftest import Rival, rival
from tests.workflows.playing import begin, claim_due, finish, make_workflow, play, states

__all__ = ("rival",)
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def owner() -> Caller:
    return Caller(factories.make_tenant())


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of two, which look at three rows."""
    monkeypatch.setattr(operations, "RUN_SLICE", 2)
    monkeypatch.setattr(walks, "SLICE_ROWS", 3)


def ask(owner: Caller, verb: str, **body: Any) -> dict[str, Any]:
    answer = owner.post("/operations", {"verb": verb, "filter": {}, **body})
    assert answer.status_code in (200, 202), answer.content
    found: dict[str, Any] = answer.json()
    return found


def carried_out(owner: Caller, verb: str, **body: Any) -> dict[str, Any]:
    """Carry the operation on to its end, by one beat."""
    path = f"/operations/{ask(owner, verb, **body)['id']}"
    runner = Runner(select)
    for _ in range(50):
        if runner.turn() == IDLE_SECONDS:
            break
    shown: dict[str, Any] = owner.get(path).json()
    assert shown["status"] == "finished"
    return shown


def told(operation: dict[str, Any]) -> tuple[int, int]:
    return operation["done"], operation["refused"]


def state_of(*some: WorkflowRun) -> list[str]:
    return [WorkflowRun.objects.get(id=run.id).state for run in some]


class TestCancel:
    def test_ends_what_matches_and_nothing_else(self, owner: Caller) -> None:
        workflow, other = (make_workflow(owner.tenant, ("a", "b"), name=name) for name in ("w", "v"))
        foreign = begin(make_workflow(factories.make_tenant(), tasks=("a",)))
        matching, others = [], []
        for _ in range(5):
            matching.append(begin(workflow))
            others.append(begin(other))
        done = carried_out(owner, "cancel_runs", filter={"workflow": str(workflow.id), "state": "running"})
        assert told(done) == (5, 0)
        assert set(state_of(*matching)) == {"cancelled"}
        assert set(state_of(*others, foreign)) == {"running"}
        assert states(matching[0]) == {"a": "cancelled", "b": "cancelled"}

    def test_asks_what_runs_to_stop(self, owner: Caller) -> None:
        some = [begin(make_workflow(owner.tenant, ("a", "b"))) for _ in range(3)]
        rows = claim_due()
        assert told(carried_out(owner, "cancel_runs")) == (3, 0)
        assert [Trigger.objects.get(id=row.id).cancel_requested for row in rows] == [True] * 3
        assert set(state_of(*some)) == {"running"}
        finish(rows, lambda _: "cancelled")
        assert set(state_of(*some)) == {"cancelled"}

    def test_goes_on_where_a_beat_died_between_its_two_steps(self, owner: Caller) -> None:
        run = begin(make_workflow(owner.tenant, ("a", "b")))
        [row] = claim_due()
        operation = ask(owner, "cancel_runs")
        assert operations.advance(select)
        assert WorkflowRun.objects.get(id=run.id).cancel_requested
        assert not Trigger.objects.get(id=row.id).cancel_requested
        # Another beat takes it up from its record.
        while operations.advance(select):
            pass
        assert Trigger.objects.get(id=row.id).cancel_requested
        shown = owner.get(f"/operations/{operation['id']}").json()
        assert (shown["status"], told(shown)) == ("finished", (1, 0))

    def test_holds_no_run_while_it_waits_for_triggers(self, owner: Caller, rival: Rival) -> None:
        """A worker that holds a trigger asks for its run's row at its commit: then neither may wait for the other."""
        run = begin(make_workflow(owner.tenant, ("a", "b")))
        rows = claim_due()
        ask(owner, "cancel_runs")

        def finish_slowly() -> None:
            with transaction.atomic():
                finish(rows, lambda _: "succeeded")
                began.set()
                going_on.wait(10)

        began, going_on = threading.Event(), threading.Event()
        ended = rival.start(finish_slowly)
        assert began.wait(10)
        assert operations.advance(select)
        # Although the trigger is held.
        assert WorkflowRun.objects.get(id=run.id).cancel_requested
        going_on.set()
        ended()
        while operations.advance(select):
            pass
        assert states(run) == {"a": "succeeded", "b": "cancelled"}
        assert state_of(run) == ["cancelled"]

    def test_passes_one_that_fails_as_nobody_foresaw(
        self, owner: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        some = [begin(make_workflow(owner.tenant, tasks=("a",))) for _ in range(4)]
        whole = runs.begin_cancel

        def breaks(*, tenant: Any, run_id: Any) -> WorkflowRun:
            if run_id == some[1].id:
                raise ZeroDivisionError
            return whole(tenant=tenant, run_id=run_id)

        monkeypatch.setattr(runs, "begin_cancel", breaks)
        done = carried_out(owner, "cancel_runs")
        assert (told(done), done["refusals"]) == (
            (3, 1),
            [{"id": str(some[1].id), "detail": slices.OUR_FAULT}],
        )
        assert state_of(*some) == ["cancelled", "running", "cancelled", "cancelled"]


class TestPauseAndResume:
    def test_hold_and_release_what_is_ready(self, owner: Caller) -> None:
        some = [begin(make_workflow(owner.tenant, ("a", "b"))) for _ in range(3)]
        ended = begin(make_workflow(owner.tenant, tasks=("a",)))
        runs.cancel_run(tenant=owner.tenant, run_id=ended.id)
        assert told(carried_out(owner, "pause_runs")) == (3, 0)
        finish(claim_due(), lambda _: "succeeded")
        assert TaskRun.objects.filter(state="ready").count() == 3
        assert told(carried_out(owner, "resume_runs")) == (3, 0)
        for run in some:
            play(run)
        assert set(state_of(*some)) == {"succeeded"}

    def test_name_who_asked_on_the_trail(self, owner: Caller) -> None:
        run = begin(make_workflow(owner.tenant, tasks=("a",)))
        carried_out(owner, "pause_runs")
        change = Change.objects.filter(object_id=str(run.workflow_id)).latest("id")
        assert (change.action, change.actor_kind, change.changes["paused"]) == (
            "updated",
            "api_key",
            [False, True],
        )


class TestRetry:
    @pytest.fixture
    def failed(self, owner: Caller) -> list[WorkflowRun]:
        some = [begin(make_workflow(owner.tenant, ("a", "b"))) for _ in range(3)]
        for run in some:
            play(run, {"b": "dead"})
        return some

    def test_lets_the_failed_go_on(self, owner: Caller, failed: list[WorkflowRun]) -> None:
        cancelled = begin(make_workflow(owner.tenant, tasks=("a",)))
        runs.cancel_run(tenant=owner.tenant, run_id=cancelled.id)
        assert told(carried_out(owner, "retry_runs")) == (3, 0)
        assert state_of(*failed, cancelled) == [*["running"] * 3, "cancelled"]
        for run in failed:
            play(run)
        assert set(state_of(*failed)) == {"succeeded"}
        assert told(carried_out(owner, "retry_runs", filter={"state": "cancelled"})) == (1, 0)
        assert state_of(cancelled) == ["running"]

    def test_says_which_it_could_not(self, owner: Caller, failed: list[WorkflowRun]) -> None:
        workflow = failed[1].workflow
        owner.delete(f"/workflows/{workflow.id}")
        done = carried_out(owner, "retry_runs")
        assert told(done) == (2, 1)
        assert done["refusals"] == [
            {"id": str(failed[1].id), "detail": "The workflow of this run is deleted."}
        ]

    def test_keeps_a_pace(self, owner: Caller, failed: list[WorkflowRun]) -> None:
        operation = ask(owner, "retry_runs", per_second=0.1)
        runner = Runner(select)
        for _ in range(5):
            runner.turn()
        assert sorted(state_of(*failed)) == ["failed", "failed", "running"]
        factories.set_clock(timedelta(seconds=10))
        for _ in range(5):
            runner.turn()
        assert sorted(state_of(*failed)) == ["failed", "running", "running"]
        assert owner.get(f"/operations/{operation['id']}").json()["done"] == 2


class TestRequest:
    def test_only_counts_in_a_dry_run(self, owner: Caller) -> None:
        workflow = make_workflow(owner.tenant, tasks=("a",))
        some = [begin(workflow) for _ in range(2)]
        begin(make_workflow(owner.tenant, tasks=("a",)))
        filters = {"workflow": str(workflow.id)}
        counted = ask(owner, "cancel_runs", filter=filters, dry_run=True)
        assert counted == {"matching": 2, "exact": True}
        assert ask(owner, "retry_runs", filter=filters, dry_run=True)["matching"] == 0
        assert set(state_of(*some)) == {"running"}
        assert not Operation.objects.exists()

    @pytest.mark.parametrize(
        ("verb", "body", "field"),
        [
            ("cancel_runs", {"filter": {"state": "succeeded"}}, "filter.state"),
            ("retry_runs", {"filter": {"state": "succeeded"}}, "filter.state"),
            ("pause_runs", {"filter": {"job": "x"}}, "filter.job"),
            ("retry_runs", {"filter": {"workflow": "etl"}}, "filter.workflow"),
            ("cancel_runs", {"per_second": 1}, "per_second"),
        ],
    )
    def test_that_is_wrong_is_refused_by_field(
        self, owner: Caller, verb: str, body: dict[str, Any], field: str
    ) -> None:
        answer = owner.post("/operations", {"verb": verb, "filter": {}, **body})
        assert (answer.status_code, faulty_fields(answer)) == (400, {field})
        assert not Operation.objects.exists()
