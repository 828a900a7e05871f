"""Tasks that wait: for an instant, for a signal, for an approval."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from jobs.actions.workflows import answers, runs
from jobs.core.errors import Conflict, InvalidInput, NotFound
from jobs.core.instants import instant_text
from jobs.models import Attempt, Change, Trigger, WorkflowRun
from tests import factories
from tests.engine.conftest import Perform, handler, perform
from tests.interfaces.api.caller import Caller, faulty_fields
from tests.races.conftest import at_once
from tests.workflows.playing import begin, claim_due, finish, key_of, make_workflow, play, states

__all__ = ("handler", "perform")
pytestmark = pytest.mark.django_db(transaction=True)
SIGNAL = {"type": "signal", "name": "paid", "timeout_seconds": 60}
APPROVAL = {"type": "approval", "message": "Release it?"}


def waiting(wait: dict[str, Any], **options: Any) -> WorkflowRun:
    """A run of a, a wait, and b. The task a has ended."""
    edges = (("a", "wait"), ("wait", "b"), ("wait", "alert", "on_failure"))
    run = begin(make_workflow(factories.make_tenant(), *edges, waits={"wait": wait}, **options))
    finish(claim_due(), lambda _: "succeeded", result=options.pop("result", None))
    assert states(run)["wait"] == "started"
    return run


def after(seconds: float, perform: Perform) -> dict[str, int]:
    """Perform the waits that are over by then. Returns how many ended how."""
    factories.set_clock(timedelta(seconds=seconds))
    factories.dispatch(types=["carillon.wait"])
    queued = Trigger.objects.filter(state="queued")
    return dict(perform(*queued)) if queued else {}


class TestTime:
    def test_is_over_after_its_seconds_and_not_before(self, perform: Perform) -> None:
        run = waiting({"type": "time", "seconds": 3600})
        assert after(3590, perform) == {}
        assert after(3601, perform) == {"succeeded": 1}
        assert play(run) == [["b"]]

    def test_is_over_at_its_instant(self, perform: Perform) -> None:
        until = instant_text(factories.now() + timedelta(hours=2))
        run = waiting({"type": "time", "until": until})
        assert Trigger.objects.get(job_type="carillon.wait").due_at == factories.now().fromisoformat(until)
        assert after(7201, perform) == {"succeeded": 1}
        assert play(run) == [["b"]]

    def test_takes_its_instant_from_a_task_upstream(self, perform: Perform) -> None:
        run = begin(
            make_workflow(
                factories.make_tenant(),
                ("a", "wait"),
                waits={"wait": {"type": "time", "until": {"$from": "a.result.at"}}},
            )
        )
        at = factories.now() + timedelta(hours=2)
        finish(claim_due(), lambda _: "succeeded", result={"at": instant_text(at)})
        assert Trigger.objects.get(job_type="carillon.wait").due_at == at
        assert after(7201, perform) == {"succeeded": 1}
        run.refresh_from_db()
        assert run.state == "succeeded"

    @pytest.mark.parametrize(
        ("result", "said"),
        [
            ({"at": "tomorrow"}, "payload.until: Must be a time like"),
            ({"at": "2030-01-31T00:00:00"}, "payload.until: Has no offset"),
            ({"at": "2130-01-31T00:00:00Z"}, "payload.until: Must lie between"),
            ({"at": 5}, "payload.until: Must be a time like"),
            ({}, "There is no value at a.result.at."),
        ],
    )
    def test_of_no_instant_fails_and_says_so(self, perform: Perform, result: object, said: str) -> None:
        run = begin(
            make_workflow(
                factories.make_tenant(),
                ("a", "wait"),
                waits={"wait": {"type": "time", "until": {"$from": "a.result.at"}}},
            )
        )
        finish(claim_due(), lambda _: "succeeded", result=result)
        # Postgres may take such a value for a time to come. It is looked at when that time has come.
        after(6 * 365 * 86_400, perform)
        assert states(run)["wait"] == "failed"
        assert said in Attempt.objects.get(state="failed").error_message

    def test_takes_no_place_of_max_parallel(self) -> None:
        run = begin(
            make_workflow(
                factories.make_tenant(),
                tasks=["wait", "a", "b"],
                waits={"wait": {"type": "time", "seconds": 60}},
                max_parallel=1,
            )
        )
        assert play(run) == [["a"], ["b"]]

    def test_is_ended_by_a_cancel(self) -> None:
        run = waiting({"type": "time", "seconds": 3600})
        assert runs.cancel_run(tenant=run.tenant, run_id=run.id).state == "cancelled"


class TestSignal:
    def send(self, run: WorkflowRun, payload: object = None, name: str = "paid") -> WorkflowRun:
        return answers.signal(tenant=run.tenant, run_id=run.id, name=name, payload=payload)

    def test_ends_the_wait_and_its_payload_goes_on(self) -> None:
        tenant = factories.make_tenant()
        workflow = make_workflow(
            tenant,
            ("paid", "b"),
            waits={"paid": {"type": "signal"}},
            payloads={"b": {"sleep_ms": {"$from": "paid.result.pause"}}},
        )
        run = begin(workflow)
        self.send(run, {"pause": 7})
        [row] = claim_due()
        assert (key_of(row.id), row.payload) == ("b", {"sleep_ms": 7})
        [change] = Change.objects.filter(kind="workflow", action="updated")
        assert change.changes["signal paid"] == [None, "given"]

    def test_of_which_many_come_at_once_counts_once(self) -> None:
        run = waiting(SIGNAL)
        done = at_once(*[partial(self._sent, run)] * 4)
        assert sorted(done) == [False, False, False, True]
        assert play(run) == [["b"]]

    def _sent(self, run: WorkflowRun) -> bool:
        try:
            self.send(run)
        except Conflict:
            return False
        return True

    def test_that_does_not_come_in_time_fails_its_task(self, perform: Perform) -> None:
        run = waiting(SIGNAL)
        after(61, perform)
        assert play(run) == [["alert"]]
        assert states(run) == {
            "a": "succeeded",
            "wait": "failed",
            "b": "skipped upstream",
            "alert": "succeeded",
        }
        failed = Attempt.objects.get(state="failed")
        assert failed.error_code == "wait_timed_out"
        assert failed.error_message == "No signal paid came within 60 s."
        with pytest.raises(Conflict):
            self.send(run)

    def test_for_which_nothing_waits_is_refused(self) -> None:
        run = begin(make_workflow(factories.make_tenant(), ("a", "wait"), waits={"wait": SIGNAL}))
        for name in ("paid", "other"):
            with pytest.raises(Conflict, match=f"Nothing in this run waits for the signal {name}"):
                self.send(run, name=name)

    def test_of_another_tenant_finds_nothing(self) -> None:
        run = waiting(SIGNAL)
        with pytest.raises(NotFound):
            answers.signal(tenant=factories.make_tenant(), run_id=run.id, name="paid")
        assert states(run)["wait"] == "started"

    def test_that_is_too_large_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="payload"):
            self.send(waiting(SIGNAL), "x" * 70_000)

    def test_is_waited_for_again_in_a_run_that_is_retried(self, perform: Perform) -> None:
        run = waiting(SIGNAL)
        after(61, perform)
        play(run)
        runs.retry_run(tenant=run.tenant, run_id=run.id)
        assert states(run)["wait"] == "started"
        self.send(run)
        assert play(run) == [["b"]]


class TestApproval:
    def test_lets_the_run_go_on_and_says_who_gave_it(self) -> None:
        run = waiting(APPROVAL)
        answers.decide(tenant=run.tenant, run_id=run.id, task="wait", approved=True, comment="Go.")
        assert play(run) == [["b"]]
        result = Trigger.objects.get(job_type="carillon.wait").result
        assert (result["approved"], result["comment"]) == (True, "Go.")

    def test_that_is_refused_cancels_its_task(self) -> None:
        run = waiting(APPROVAL)
        answers.decide(tenant=run.tenant, run_id=run.id, task="wait", approved=False)
        assert play(run) == [["alert"]]
        assert states(run)["wait"] == "cancelled"
        trigger = Trigger.objects.get(job_type="carillon.wait")
        assert (trigger.state, trigger.reason) == ("cancelled", "requested")
        with pytest.raises(Conflict, match="does not wait for an approval now"):
            answers.decide(tenant=run.tenant, run_id=run.id, task="wait", approved=True)


class TestApi:
    def test_shows_a_wait_as_it_may_be_sent_back(self) -> None:
        caller = Caller(factories.make_tenant())
        tasks = {"paid": {"wait": {"type": "signal"}}, "at": {"wait": {"type": "time", "seconds": 5}}}
        shown = caller.post("/workflows", {"name": "etl", "tasks": tasks}).json()
        path = f"/workflows/{shown['id']}"
        assert caller.put(path, shown["definition"]).json()["version"] == 1
        assert caller.get(path).json() == shown

    def test_shows_what_is_waited_for_and_takes_the_answer(self) -> None:
        run = waiting(APPROVAL)
        caller = Caller(run.tenant)
        path = f"/workflow-runs/{run.id}"
        [_, wait, *_] = caller.get(path).json()["tasks"]
        assert (wait["task"], wait["wait"]["message"]) == ("wait", "Release it?")
        assert caller.post(f"{path}/tasks/nothing/approve").status_code == 404
        assert caller.post(f"{path}/tasks/a/approve").status_code == 409
        assert faulty_fields(caller.post(f"{path}/tasks/wait/approve", {"comment": 5})) == {"comment"}
        answer = caller.post(f"{path}/tasks/wait/approve", {"comment": "Go."})
        assert (answer.status_code, answer.json()["tasks"][1]["state"]) == (200, "succeeded")

    def test_shows_and_restores_a_version_that_waits(self) -> None:
        workflow = make_workflow(factories.make_tenant(), ("a", "wait"), waits={"wait": APPROVAL})
        caller, path = Caller(workflow.tenant), f"/workflows/{workflow.id}"
        shown = caller.get(path).json()["definition"]
        assert shown["tasks"]["wait"]["wait"]["message"] == APPROVAL["message"]
        assert caller.put(path, shown | {"max_parallel": 1}).json()["version"] == 2
        restored = caller.post(f"{path}/versions/1/restore")
        assert (restored.json()["version"], restored.json()["definition"]) == (3, shown)

    def test_takes_signals(self) -> None:
        run = waiting(SIGNAL)
        caller = Caller(run.tenant)
        path = f"/workflow-runs/{run.id}/signals"
        assert caller.post(f"{path}/other").status_code == 409
        assert caller.post(f"{path}/paid", {"payload": {"sum": 5}}).status_code == 200
        assert Trigger.objects.get(job_type="carillon.wait").result == {"sum": 5}

    @pytest.mark.parametrize(
        ("task", "field"),
        [
            ({}, "job_type"),
            ({"wait": {"type": "signal"}, "job_type": "noop"}, "job_type"),
            ({"wait": {"type": "signal"}, "payload": {"x": 1}}, "payload"),
            ({"wait": {"type": "signal"}, "map": {"over": {"$from": "workflow.input"}}}, "map"),
            ({"wait": {}}, "wait.type"),
            ({"wait": 5}, "wait"),
            ({"wait": {"type": "signal", "name": "Paid!"}}, "wait.name"),
            ({"wait": {"type": "signal", "timeout_seconds": 0}}, "wait.timeout_seconds"),
            ({"wait": {"type": "time"}}, "wait.seconds"),
            ({"wait": {"type": "time", "seconds": 5, "until": "2030-01-01T00:00:00Z"}}, "wait.seconds"),
            ({"wait": {"type": "time", "until": "tomorrow"}}, "wait.until"),
            ({"wait": {"type": "time", "until": {"$from": "nothing.result"}}}, "wait.until"),
            ({"wait": {"type": "time", "until": {"from": "x"}}}, "wait.until"),
            ({"job_type": "carillon.wait", "payload": {"type": "time"}}, "job_type"),
        ],
    )
    def test_refuses_a_wait_by_its_field(self, task: dict[str, Any], field: str) -> None:
        answer = Caller(factories.make_tenant()).post("/workflows", {"name": "etl", "tasks": {"t": task}})
        assert answer.status_code == 400, answer.content
        assert faulty_fields(answer) == {f"tasks.t.{field}"}
