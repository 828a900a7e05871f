"""Tasks that are a run of another workflow."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from jobs.actions.workflows import definitions, runs
from jobs.core.errors import InvalidInput
from jobs.explain.workflows import explain_run
from jobs.models import DueCancel, TaskRun, WorkflowRun
from jobs.store import workflows as store
from tests import factories
from tests.engine.conftest import Perform, handler, perform
from tests.factories import attempts
from tests.interfaces.api.caller import Caller
from tests.races.conftest import at_once
from tests.workflows.inner import inner_of, make, outer, starts
from tests.workflows.playing import claim_due, finish, key_of, make_workflow, play, states

__all__ = ("handler", "perform")
pytestmark = pytest.mark.django_db(transaction=True)


class TestAnInnerRun:
    def test_begins_with_its_task_and_ends_it(self, perform: Perform) -> None:
        make(tenant := factories.make_tenant())
        run = outer(tenant, {"name": "load", "input": {"day": {"$from": "a.result.day"}, "n": 1}})
        [start] = starts()
        assert perform(start) == {"succeeded": 1}
        inner = inner_of(run)
        assert (inner.input, inner.origin, inner.depth) == ({"day": "Monday", "n": 1}, "workflow", 1)
        assert (inner.root_id, inner.trigger_id, inner.trace) == (run.id, start.id, run.trace)
        assert states(run)["inner"] == "started"
        assert play(run) == [["x"], ["y"], ["b"]]
        assert run.state == "succeeded"
        assert states(run) == {
            "a": "succeeded",
            "inner": "succeeded",
            "b": "succeeded",
            "alert": "skipped upstream",
        }

    def test_that_fails_fails_its_task(self, perform: Perform) -> None:
        make(tenant := factories.make_tenant())
        run = outer(tenant, {"name": "load"})
        [start] = starts()
        perform(start)
        assert play(run, {"x": "dead"}) == [["x"], ["alert"]]
        assert run.state == "failed"
        assert states(run)["inner"] == "failed"
        # The retries of the task are for the beginning of its run: there is no second run, however long one waits.
        factories.set_clock(timedelta(days=1))
        assert starts() == []
        assert [attempt.state for attempt in attempts(start)] == ["succeeded"]
        assert WorkflowRun.objects.count() == 2

    def test_gives_the_results_of_its_tasks(self, perform: Perform) -> None:
        tenant = factories.make_tenant()
        make_workflow(
            tenant,
            ("x", "each"),
            name="load",
            maps={"each": {"over": {"$from": "workflow.input"}}},
            payloads={"each": {"sleep_ms": {"$from": "map.item"}}},
        )
        outer(
            tenant,
            {"name": "load", "input": {"$from": "a.result.list"}},
            payloads={
                "b": {"sleep_ms": {"$from": "inner.result.each.1"}, "fail": {"$from": "inner.result.x.ill"}}
            },
        )
        perform(*starts())
        finish(claim_due(), lambda _: "succeeded", result={"ill": False})
        rows = sorted(claim_due(), key=lambda row: row.payload["sleep_ms"])
        assert [row.payload["sleep_ms"] for row in rows] == [3, 4]
        for row in rows:
            finish([row], lambda _: "succeeded", result=row.payload["sleep_ms"] * 10)
        [last] = claim_due()
        assert (key_of(last.id), last.payload) == ("b", {"sleep_ms": 40, "fail": False})

    def test_of_an_inner_run_of_an_inner_run_is_reached_by_its_path(self, perform: Perform) -> None:
        tenant = factories.make_tenant()
        make(tenant, "deep")
        make_workflow(tenant, tasks=["mid"], name="load", inner={"mid": {"name": "deep"}})
        payloads = {"b": {"sleep_ms": {"$from": "inner.result.mid.y.ms"}}}
        run = outer(tenant, {"name": "load"}, payloads=payloads)
        perform(*starts())
        perform(*starts())
        for _ in "xy":
            finish(claim_due(), lambda _: "succeeded", result={"ms": 7})
        [last] = claim_due()
        assert (key_of(last.id), last.payload) == ("b", {"sleep_ms": 7})
        assert sorted(WorkflowRun.objects.exclude(id=run.id).values_list("depth", "root_id")) == [
            (1, run.id),
            (2, run.id),
        ]

    def test_is_one_for_each_item_of_a_map(self, perform: Perform) -> None:
        make(tenant := factories.make_tenant())
        over = {"inner": {"over": {"$from": "a.result.list"}}}
        run = outer(tenant, {"name": "load", "input": {"$from": "map.item"}}, maps=over)
        assert perform(*starts()) == {"succeeded": 2}
        inner = list(WorkflowRun.objects.exclude(id=run.id))
        assert sorted(one.input for one in inner) == [3, 4]
        assert play(run) == [["x", "x"], ["y", "y"], ["b"]]
        items = {
            item["inner_run_id"]
            for item in Caller(tenant)
            .call("GET", f"/workflow-runs/{run.id}/tasks/inner/items")
            .json()["results"]
        }
        assert items == {str(one.id) for one in inner}

    def test_is_shown_with_its_outer_run(self, perform: Perform) -> None:
        make(tenant := factories.make_tenant())
        run = outer(tenant, {"name": "load"})
        perform(*starts())
        caller, inner = Caller(tenant), inner_of(run)
        shown = caller.call("GET", f"/workflow-runs/{inner.id}").json()
        assert (shown["outer_run_id"], shown["origin"]) == (str(run.id), "workflow")
        [task] = [
            one
            for one in caller.call("GET", f"/workflow-runs/{run.id}").json()["tasks"]
            if one["task"] == "inner"
        ]
        assert (task["inner_run_id"], task["inner_run_state"]) == (str(inner.id), "running")
        assert caller.call("GET", f"/workflow-runs/{run.id}").json()["outer_run_id"] is None

    def test_is_explained(self, perform: Perform) -> None:
        make(tenant := factories.make_tenant())
        run = outer(tenant, {"name": "load"})
        perform(*starts())
        inner = inner_of(run)
        told = explain_run(tenant=tenant, run_id=run.id, task="b").representation()
        assert f"Waits for inner: going on as run {inner.id}." in told["task"]["summary"]
        assert f"It is going on as run {inner.id}." in str(
            explain_run(tenant=tenant, run_id=run.id, task="inner").representation()["task"]["gates"]
        )


class TestACancel:
    def test_of_the_outer_run_cancels_the_inner_ones(self, perform: Perform) -> None:
        make(tenant := factories.make_tenant())
        run = outer(tenant, {"name": "load"})
        perform(*starts())
        inner = inner_of(run)
        runs.cancel_run(tenant=tenant, run_id=run.id)
        assert DueCancel.objects.filter(run_id=inner.id, reason="outer").exists()
        store.cancel_due(limit=10)
        inner.refresh_from_db()
        run.refresh_from_db()
        assert (inner.state, inner.cancel_reason) == ("cancelled", "outer")
        assert (run.state, states(run)["inner"]) == ("cancelled", "cancelled")

    def test_before_it_began_leaves_no_run_behind(self) -> None:
        make(tenant := factories.make_tenant())
        run = outer(tenant, {"name": "load"})
        [row] = factories.claim(*starts())
        runs.cancel_run(tenant=tenant, run_id=run.id)
        assert store.begin_inner(trigger_id=row.id, fence=row.fence, workflow="load") is None
        finish([row], lambda _: "cancelled")
        run.refresh_from_db()
        assert (run.state, WorkflowRun.objects.count()) == ("cancelled", 1)

    def test_and_a_beginning_at_once_leave_nothing_that_goes_on(self) -> None:
        make(tenant := factories.make_tenant())
        for _ in range(10):
            run = outer(tenant, {"name": "load"})
            [row] = factories.claim(*starts())
            at_once(
                partial(store.begin_inner, trigger_id=row.id, fence=row.fence, workflow="load"),
                partial(runs.cancel_run, tenant=tenant, run_id=run.id),
            )
            inner = WorkflowRun.objects.filter(trigger_id=row.id).first()
            finish([row], lambda _, begun=inner: "succeeded" if begun else "cancelled")
            store.cancel_due(limit=10)
            run.refresh_from_db()
            assert run.state == "cancelled"
            assert not WorkflowRun.objects.filter(state="running").exists()

    def test_of_the_inner_run_cancels_its_task(self, perform: Perform) -> None:
        make(tenant := factories.make_tenant())
        run = outer(tenant, {"name": "load"})
        perform(*starts())
        runs.cancel_run(tenant=tenant, run_id=inner_of(run).id)
        assert states(run)["inner"] == "cancelled"
        assert play(run) == [["alert"]]
        assert run.state == "failed"


class TestARetry:
    def test_begins_another_run_and_the_one_before_counts_no_more(self, perform: Perform) -> None:
        make(tenant := factories.make_tenant())
        run = outer(tenant, {"name": "load"})
        perform(*starts())
        first = inner_of(run)
        play(run, {"x": "dead"})
        runs.retry_run(tenant=tenant, run_id=run.id)
        assert perform(*starts()) == {"succeeded": 1}
        second = inner_of(run)
        assert second.id != first.id
        # The first one is retried by hand, beside the second.
        runs.retry_run(tenant=tenant, run_id=first.id)
        rows = {row.workflow.run_id: row for row in claim_due()}
        finish([rows[first.id]], lambda _: "dead")
        first.refresh_from_db()
        assert (first.state, states(run)["inner"]) == ("failed", "started")
        finish([rows[second.id]], lambda _: "succeeded")
        assert play(run) == [["y"], ["b"]]
        assert run.state == "succeeded"

    def test_of_the_inner_run_alone_leaves_the_outer_one_as_it_ended(self, perform: Perform) -> None:
        make(tenant := factories.make_tenant())
        run = outer(tenant, {"name": "load"})
        perform(*starts())
        play(run, {"x": "dead"})
        inner = inner_of(run)
        runs.retry_run(tenant=tenant, run_id=inner.id)
        play(inner)
        run.refresh_from_db()
        assert (inner.state, run.state, states(run)["inner"]) == ("succeeded", "failed", "failed")


class TestADefinition:
    @pytest.mark.parametrize(
        ("task", "field", "said"),
        [
            ({"workflow": {"name": "gone"}}, "tasks.t.workflow.name", "There is no workflow named gone."),
            ({"workflow": {"name": "outer"}}, "tasks.t.workflow.name", "cannot be a task of itself"),
            ({"workflow": {}}, "tasks.t.workflow.name", ""),
            ({"workflow": {"name": "load", "x": 1}}, "tasks.t.workflow.x", ""),
            ({"workflow": {"name": "load"}, "job_type": "noop"}, "tasks.t.job_type", "one of"),
            ({"workflow": {"name": "load"}, "payload": {"a": 1}}, "tasks.t.payload", "Does not belong"),
            (
                {"workflow": {"name": "load", "input": {"$from": "map.item"}}},
                "tasks.t.workflow.input",
                "of a map",
            ),
            (
                {"workflow": {"name": "load", "input": {"$from": "b.result"}}},
                "tasks.t.workflow.input",
                "not upstream",
            ),
        ],
    )
    def test_that_is_wrong_is_refused_by_name(self, task: dict[str, Any], field: str, said: str) -> None:
        make(tenant := factories.make_tenant())
        document = {"name": "outer", "tasks": {"t": task, "b": {"job_type": "noop"}}}
        with pytest.raises(InvalidInput) as caught:
            definitions.create_workflow(tenant=tenant, definition=document)
        assert said in " ".join(caught.value.errors[field])
        assert definitions.workflows_of(tenant).count() == 1

    def test_may_not_take_the_whole_result_of_an_inner_run(self) -> None:
        make(tenant := factories.make_tenant())
        with pytest.raises(InvalidInput) as caught:
            make_workflow(
                tenant,
                ("inner", "b"),
                inner={"inner": {"name": "load"}},
                payloads={"b": {"sleep_ms": {"$from": "inner.result"}}},
            )
        assert "name a task of that workflow" in str(caught.value)

    def test_of_another_tenant_is_not_there(self) -> None:
        make(factories.make_tenant())
        with pytest.raises(InvalidInput):
            make_workflow(factories.make_tenant(), tasks=["inner"], inner={"inner": {"name": "load"}})


def test_runs_past_the_deadline_of_the_outer_one_are_cancelled(perform: Perform) -> None:
    make(tenant := factories.make_tenant())
    run = outer(tenant, {"name": "load"}, deadline_seconds=60)
    perform(*starts())
    factories.set_clock(timedelta(seconds=61))
    for _ in range(2):
        store.cancel_due(limit=10)
    run.refresh_from_db()
    assert (run.state, run.cancel_reason, inner_of(run).cancel_reason) == ("cancelled", "deadline", "outer")
    assert not TaskRun.objects.filter(state="started").exists()
