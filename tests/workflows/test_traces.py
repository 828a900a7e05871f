"""One trace a run: the trace of the call that asked for it, kept with every task's trigger as it starts."""

import pytest

from jobs.models import Trigger, WorkflowRun
from tests.factories import make_tenant
from tests.interfaces.api.caller import Caller
from tests.interfaces.api.test_traces import TRACED, TRACEPARENT
from tests.workflows.playing import key_of, make_workflow, play

pytestmark = pytest.mark.django_db(transaction=True)
OTHER = TRACEPARENT.replace("0af", "1af")


@pytest.fixture
def owner() -> Caller:
    return Caller(make_tenant())


def begun(owner: Caller, **headers: str) -> WorkflowRun:
    """A run of extract, then load, then report."""
    workflow = make_workflow(owner.tenant, ("extract", "load"), ("load", "report"))
    answer = owner.post(f"/workflows/{workflow.id}/runs", **headers)
    assert answer.status_code == 201, answer.content
    return WorkflowRun.objects.get(id=answer.json()["id"])


def kept() -> dict[str, str | None]:
    return {key_of(trigger.id): trigger.trace for trigger in Trigger.objects.all()}


class TestTasks:
    def test_are_part_of_the_trace_of_the_call_that_began_their_run(self, owner: Caller) -> None:
        run = begun(owner, **TRACED)
        assert kept() == {"extract": TRACEPARENT}
        play(run)
        assert kept() == dict.fromkeys(("extract", "load", "report"), TRACEPARENT)

    def test_of_a_run_without_a_trace_have_none_of_a_caller(self, owner: Caller) -> None:
        play(begun(owner))
        assert kept() == dict.fromkeys(("extract", "load", "report"))

    def test_that_start_again_are_part_of_the_trace_of_the_retry(self, owner: Caller) -> None:
        run = begun(owner, **TRACED)
        play(run, {"load": "dead"})
        owner.post(f"/workflow-runs/{run.id}/retry", traceparent=OTHER)
        play(run)
        assert kept() == {"extract": TRACEPARENT, "load": OTHER, "report": OTHER}
        owner.post(f"/workflow-runs/{run.id}/retry", {"tasks": ["report"]})
        play(run)
        assert kept() == {"extract": TRACEPARENT, "load": OTHER, "report": None}
