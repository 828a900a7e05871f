"""The starts of tasks that are a run of another workflow."""

from datetime import timedelta
from functools import partial
from typing import Any, NoReturn

import pytest
from django.db import DataError, connection

from jobs.actions.workflows import definitions
from jobs.core.backoff import RetryPolicy, ladder
from jobs.core.workflows.states import MAX_DEPTH
from jobs.models import Trigger, WorkflowRun
from jobs.store import workflows as store
from tests import factories
from tests.engine.conftest import Perform, handler, perform
from tests.factories import attempts
from tests.races.conftest import at_once
from tests.workflows.inner import make, outer, starts
from tests.workflows.playing import begin, claim_due, finish, make_workflow, play, states

__all__ = ("handler", "perform")
pytestmark = pytest.mark.django_db(transaction=True)


def _fail(error: Exception, **_: Any) -> NoReturn:
    raise error


class TestAStart:
    def test_that_is_executed_again_begins_no_second_run(self, perform: Perform) -> None:
        make(tenant := factories.make_tenant())
        run = outer(tenant, {"name": "load"})
        [start] = starts()
        [row] = factories.claim(start)
        begin_it = partial(store.begin_inner, trigger_id=row.id, fence=row.fence, workflow="load")
        first = begin_it()
        assert {begin_it(), *at_once(*[begin_it] * 4)} == {first}
        assert store.begin_inner(trigger_id=row.id, fence=row.fence + 1, workflow="load") is None
        assert WorkflowRun.objects.count() == 2
        finish([row], lambda _: "succeeded")
        assert play(run) == [["x"], ["y"], ["b"]]

    def test_has_a_run_that_overlap_counts_from_its_beginning(self) -> None:
        """A schedule's firing in flight counts by itself, so its run does not count. This run is of no schedule."""
        make(tenant := factories.make_tenant())
        outer(tenant, {"name": "load"})
        [row] = factories.claim(*starts())
        inner = store.begin_inner(trigger_id=row.id, fence=row.fence, workflow="load")
        workflow_id = WorkflowRun.objects.get(id=inner).workflow_id
        with connection.cursor() as cursor:
            cursor.execute("SELECT carillon_running_runs(%s)", [workflow_id])
            assert cursor.fetchone() == (1,)

    def test_that_is_written_after_its_run_has_ended_ends_the_task(self) -> None:
        """Its worker was frozen just after it had begun the run."""
        make(tenant := factories.make_tenant())
        run = outer(tenant, {"name": "load"})
        [row] = factories.claim(*starts())
        store.begin_inner(trigger_id=row.id, fence=row.fence, workflow="load")
        assert play(run, {"y": "dead"}) == [["x"], ["y"]]
        assert states(run)["inner"] == "started"
        finish([row], lambda _: "succeeded")
        assert states(run)["inner"] == "failed"
        assert play(run) == [["alert"]]

    def test_and_its_run_may_end_at_once(self) -> None:
        make(tenant := factories.make_tenant(), tasks=())
        for _ in range(10):
            run = outer(tenant, {"name": "load"})
            [row] = factories.claim(*starts())
            store.begin_inner(trigger_id=row.id, fence=row.fence, workflow="load")
            finish(claim_due(), lambda _: "succeeded")
            last = claim_due()
            at_once(
                partial(finish, [row], lambda _: "succeeded"), partial(finish, last, lambda _: "succeeded")
            )
            assert states(run)["inner"] == "succeeded"
            assert play(run) == [["b"]]

    def test_that_died_after_it_began_its_run_leaves_the_task_to_it(self) -> None:
        make(tenant := factories.make_tenant())
        run = outer(tenant, {"name": "load"})
        [row] = factories.claim(*starts())
        store.begin_inner(trigger_id=row.id, fence=row.fence, workflow="load")
        finish([row], lambda _: "dead")
        assert states(run)["inner"] == "started"
        assert play(run) == [["x"], ["y"], ["b"]]
        assert run.state == "succeeded"

    def test_that_fails_is_tried_again_after_a_second_and_for_an_hour(
        self, perform: Perform, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A definition cannot set this: retries of a task that is a run are Carillon's own."""
        make(tenant := factories.make_tenant())
        run = outer(tenant, {"name": "load"})
        [start] = starts()
        with monkeypatch.context() as patched:
            patched.setattr(store, "begin_inner", partial(_fail, DataError("deliberate")))
            assert perform(start) == {"retrying": 1}
        start.refresh_from_db()
        [failed] = attempts(start)
        assert timedelta(seconds=0.9) < start.due_at - failed.finished_at < timedelta(seconds=1.3)
        waits = ladder(RetryPolicy.from_json(start.job.retry_policy))
        assert timedelta(minutes=50) < sum(waits, timedelta()) < timedelta(minutes=70)
        assert (states(run)["inner"], WorkflowRun.objects.count()) == ("started", 1)
        factories.set_clock(timedelta(seconds=2))
        assert perform(*starts()) == {"succeeded": 1}
        assert play(run) == [["x"], ["y"], ["b"]]

    def test_of_a_workflow_that_is_gone_fails(self, perform: Perform) -> None:
        make(tenant := factories.make_tenant())
        run = outer(tenant, {"name": "load"})
        load = definitions.workflows_of(tenant).get(name="load")
        definitions.delete_workflow(tenant=tenant, workflow_id=load.id)
        [start] = starts()
        assert perform(start) == {"dead": 1}
        [attempt] = attempts(start)
        assert (attempt.error_code, attempt.error_message) == (
            "run_refused",
            "There is no workflow named load.",
        )
        assert states(run)["inner"] == "failed"

    def test_is_refused_too_deep(self, perform: Perform) -> None:
        """Two workflows name each other."""
        tenant = factories.make_tenant()
        make(tenant, "one")
        make_workflow(tenant, tasks=["inner"], name="two", inner={"inner": {"name": "one"}})
        one = definitions.workflows_of(tenant).get(name="one")
        document = {"name": "one", "tasks": {"inner": {"workflow": {"name": "two"}}}}
        definitions.edit_workflow(tenant=tenant, workflow_id=one.id, definition=document)
        run = begin(one)
        for _ in range(MAX_DEPTH):
            assert perform(*starts()) == {"succeeded": 1}
        [last] = starts()
        assert perform(last) == {"dead": 1}
        assert "8 deep" in attempts(last)[0].error_message
        run.refresh_from_db()
        assert run.state == "failed"
        assert set(WorkflowRun.objects.values_list("state", flat=True)) == {"failed"}

    def test_is_refused_with_an_input_over_the_tenants_quota(self, perform: Perform) -> None:
        make(tenant := factories.make_tenant(max_payload_bytes=1024))
        outer(tenant, {"name": "load", "input": {"$from": "a.result"}})
        Trigger.objects.filter(state="succeeded").update(result={"long": "x" * 2000})
        [start] = starts()
        assert perform(start) == {"dead": 1}
        assert "max_payload_bytes allows 1,024" in attempts(start)[0].error_message

    def test_below_one_run_are_bounded(self, perform: Perform, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("jobs.store.workflows.runs.MAX_BELOW", 1)
        make(tenant := factories.make_tenant())
        over = {"inner": {"over": {"$from": "a.result.list"}}}
        outer(tenant, {"name": "load"}, maps=over)
        assert perform(*starts()) == {"succeeded": 1, "dead": 1}
