"""Values that a task takes from elsewhere: in its payload when it is claimed, with their types; or the task fails."""

from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import Mock, call

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.actions.pull.types import declare_type
from jobs.actions.workflows import definitions
from jobs.core.errors import InvalidInput
from jobs.core.instants import instant_text
from jobs.core.pull import stored_name
from jobs.core.workflows.flow import Unresolved
from jobs.engine.pull import offers, reports
from jobs.handlers import Context
from jobs.handlers.outcome import outcome_of_return
from jobs.models import Attempt, Trigger, WorkflowRun
from jobs.store.execution import ClaimToken
from jobs.store.pull import Work
from tenants.models import Tenant
from tests import factories
from tests.engine.conftest import Perform, handler, perform
from tests.workflows.playing import begin, claim_due, finish, key_of, make_workflow, states

__all__ = ("handler", "perform")
pytestmark = pytest.mark.django_db(transaction=True)
RESULT = {"rows": [{"id": 7}, {"id": None}], "text": "5", "list": [1.5, True]}


def takes(source: str) -> dict[str, str]:
    return {"$from": source}


def after_extract(payload: dict[str, Any], job_type: str, *, result: object = RESULT, **options: Any) -> Any:
    """The claimed row of ``load``, whose upstream task gave ``result``."""
    workflow = make_workflow(
        factories.make_tenant(), ("extract", "load"), job_type=job_type, payloads={"load": payload}
    )
    begin(workflow, **options)
    finish(claimed(job_type), lambda _: "succeeded", result=result)
    [row] = claimed(job_type)
    return row


def claimed(job_type: str) -> Sequence[Any]:
    factories.dispatch(types=[job_type], limit=1000)
    return factories.claim(*Trigger.objects.filter(state="queued"))


@pytest.fixture
def any_type(handler: Callable[..., str]) -> str:
    """A job type that takes any payload, and gives it back."""
    return handler(lambda ctx, payload: payload)


class TestClaim:
    @pytest.mark.parametrize(
        ("source", "value"),
        [
            ("extract.result", RESULT),
            ("extract.result.rows", RESULT["rows"]),
            ("extract.result.rows.0.id", 7),
            ("extract.result.rows.1.id", None),
            ("extract.result.text", "5"),
            ("extract.result.list.0", 1.5),
            ("extract.result.list.1", True),
            ("workflow.input.day", "monday"),
            ("workflow.input", {"day": "monday"}),
        ],
    )
    def test_finds_the_value_with_its_type(self, any_type: str, source: str, value: object) -> None:
        payload = {"deep": [{"x": takes(source)}], "plain": 1}
        row = after_extract(payload, any_type, run_input={"day": "monday"})
        assert row.payload == {"deep": [{"x": value}], "plain": 1}

    def test_finds_the_instant_of_the_run(self, any_type: str) -> None:
        row = after_extract({"at": takes("run.scheduled_for")}, any_type)
        assert row.payload == {"at": instant_text(row.scheduled_for)}

    def test_finds_what_several_tasks_of_several_runs_take(self, any_type: str) -> None:
        edges = (("a", "c"), ("b", "c"), ("c", "d"))
        payloads = {
            "c": {"x": takes("a.result.key"), "y": takes("b.result.key")},
            "d": {"x": takes("a.result")},
        }
        workflow = make_workflow(factories.make_tenant(), *edges, job_type=any_type, payloads=payloads)
        for _ in range(3):
            begin(workflow)
        for row in claimed(any_type):
            finish(
                [row], lambda _: "succeeded", result={"key": key_of(row.id), "run": str(row.scheduled_for)}
            )
        rows = claimed(any_type)
        assert [row.payload for row in rows] == [{"x": "a", "y": "b"}] * 3
        finish(rows, lambda _: "succeeded")
        for row in claimed(any_type):
            assert row.payload == {"x": {"key": "a", "run": str(row.scheduled_for)}}

    @pytest.mark.parametrize(
        "source", ["extract.result.none", "extract.result.rows.2", "extract.result.text.x", "workflow.input"]
    )
    def test_says_where_there_is_nothing(self, any_type: str, source: str) -> None:
        row = after_extract({"x": takes(source)}, any_type)
        assert row.payload == Unresolved(f"There is no value at {source}.")

    def test_asks_once_for_all_tasks(self, any_type: str) -> None:
        tenant = factories.make_tenant()
        payloads = {
            "b": {"x": takes("a.result")},
            "c": {"x": takes("a.result"), "y": takes("workflow.input")},
        }
        taking = make_workflow(tenant, ("a", "b"), ("a", "c"), job_type=any_type, payloads=payloads)
        begin(taking, run_input=1)
        with CaptureQueriesContext(connection) as first:
            rows = claimed(any_type)
        finish(rows, lambda _: "succeeded", result=5)
        with CaptureQueriesContext(connection) as second:
            rows = claimed(any_type)
        asked = [sum("carillon_value" in one["sql"] for one in queries) for queries in (first, second)]
        assert asked == [1, 1]
        assert sorted(len(row.payload) for row in rows) == [1, 2]


class TestWorker:
    def test_calls_the_handler_with_the_value(self, handler: Callable[..., str], perform: Perform) -> None:
        seen: list[object] = []

        def work(ctx: Context, payload: dict[str, Any]) -> object:
            seen.append(payload)
            return {"n": 1}

        kind = handler(work)
        begin(
            make_workflow(
                factories.make_tenant(),
                ("a", "b"),
                job_type=kind,
                payloads={"b": {"x": takes("a.result.n")}},
            )
        )
        for _ in range(2):
            factories.dispatch(types=[kind])
            assert perform(*Trigger.objects.filter(state="queued")) == {"succeeded": 1}
        assert seen == [{}, {"x": 1}]

    def test_fails_the_attempt_for_good_and_names_the_path(
        self, handler: Callable[..., str], perform: Perform
    ) -> None:
        kind = handler(lambda ctx, payload: {"n": 1})
        workflow = make_workflow(
            factories.make_tenant(),
            ("a", "b"),
            ("b", "c"),
            job_type=kind,
            payloads={"b": {"x": takes("a.result.m")}},
        )
        run = begin(workflow)
        for _ in range(2):
            factories.dispatch(types=[kind])
            perform(*Trigger.objects.filter(state="queued"))
        assert states(run) == {"a": "succeeded", "b": "failed", "c": "skipped upstream"}
        failed = Attempt.objects.get(state="failed")
        assert failed.trigger.reason == "permanent"
        assert failed.error_code == "invalid_payload"
        assert "There is no value at a.result.m." in failed.error_message

    def test_wakes_the_beats_once_a_batch_that_ended_tasks(
        self, handler: Callable[..., str], perform: Perform, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        woken = Mock()
        monkeypatch.setattr("jobs.engine.worker.finisher.wake_beats", woken)
        kind = handler(lambda ctx, payload: None)
        begin(make_workflow(factories.make_tenant(), ("a", "c"), ("b", "c"), job_type=kind))
        perform(factories.make_trigger(factories.make_job(job_type=kind), "queued"))
        woken.assert_not_called()
        factories.dispatch(types=[kind])
        assert perform(*Trigger.objects.filter(state="queued")) == {"succeeded": 2}
        # Twice if the batch took longer than outcomes wait to be written.
        assert woken.call_args_list in ([call()], [call(), call()])


class TestPullWorker:
    TYPE = "reports.build"

    @pytest.fixture
    def tenant(self) -> Tenant:
        tenant = factories.make_tenant()
        declare_type(tenant=tenant, name=self.TYPE, declaration={})
        return tenant

    def claim(self, tenant: Tenant) -> list[Work]:
        stored = stored_name(self.TYPE, tenant_id=tenant.id)
        factories.dispatch(types=[stored])
        return offers.claim(tenant_id=tenant.id, job_types=[stored], capacity=10, worker="w1")

    def begin(self, tenant: Tenant, source: str) -> WorkflowRun:
        payloads = {"b": {"x": takes(source)}}
        run = begin(make_workflow(tenant, ("a", "b"), job_type=self.TYPE, payloads=payloads))
        [first] = self.claim(tenant)
        token = ClaimToken(first.row.id, first.row.fence)
        reports.complete(tenant_id=tenant.id, token=token, outcome=outcome_of_return({"n": 7}))
        return run

    def test_is_given_the_value(self, tenant: Tenant) -> None:
        self.begin(tenant, "a.result.n")
        [second] = self.claim(tenant)
        assert second.row.payload == {"x": 7}

    def test_never_sees_what_lacks_a_value(self, tenant: Tenant) -> None:
        run = self.begin(tenant, "a.result.m")
        assert self.claim(tenant) == []
        assert states(run) == {"a": "succeeded", "b": "failed"}


class TestDefinition:
    def test_a_value_to_come_is_not_held_to_its_type(self) -> None:
        make_workflow(
            factories.make_tenant(), ("a", "b"), payloads={"b": {"sleep_ms": takes("a.result.pause")}}
        )

    def test_what_else_is_wrong_is_told(self) -> None:
        payloads = {"b": {"sleep_ms": takes("a.result.pause"), "fail": "perhaps"}}
        with pytest.raises(InvalidInput) as refused:
            make_workflow(factories.make_tenant(), ("a", "b"), payloads=payloads)
        assert list(refused.value.errors) == ["tasks.b.payload.fail"]

    def test_what_is_not_upstream_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="b is not upstream of a"):
            make_workflow(
                factories.make_tenant(), ("a", "b"), payloads={"a": {"sleep_ms": takes("b.result")}}
            )

    def test_no_value_stands_for_what_a_webhook_calls(self) -> None:
        document = {
            "name": "calls",
            "tasks": {
                "a": {"job_type": "noop"},
                "b": {"job_type": "webhook", "payload": {"url": takes("a.result.url")}},
            },
            "edges": [{"before": "a", "after": "b"}],
        }
        with pytest.raises(InvalidInput) as refused:
            definitions.create_workflow(tenant=factories.make_tenant(), definition=document)
        assert list(refused.value.errors) == ["tasks.b.payload"]


def test_a_claim_of_plain_firings_takes_nothing_over() -> None:
    """Anything that looks like a reference in the payload of a job is the job's own."""
    job = factories.make_job(payload={"x": takes("extract.result")})
    [row] = factories.claim(factories.make_trigger(job, "queued"))
    assert row.payload == {"x": takes("extract.result")}
    assert claim_due() == []
