"""Gates that operators shut for all tenants: a stop of dispatch, and a job type that is paused or capped."""

from jobs.actions import levers
from jobs.explain.gate import moment
from jobs.handlers import registry
from jobs.store import execution
from jobs.store.insight import workers
from tests.explain.asking import blocking, explain, gate, is_dispatched, passed
from tests.factories import claim, finish_of, make_job, make_running, make_trigger


class TestDispatch:
    def test_opens_when_the_stop_is_lifted(self) -> None:
        trigger = make_trigger()
        assert gate(trigger, "dispatch").passed
        stopped = levers.change_installation(changes={"dispatch": "stopped", "reason": "Incident 42."})
        assert blocking(trigger) == ["dispatch"]
        assert stopped.stopped_at is not None
        since = moment(stopped.stopped_at)
        said = f"Dispatch is stopped since {since} by an operator, for all tenants: Incident 42."
        assert explain(trigger).summary == said
        assert not is_dispatched(trigger)
        levers.change_installation(changes={"dispatch": "running"})
        passed(trigger)

    def test_still_blocks_what_is_queued(self) -> None:
        trigger = make_trigger(state="queued")
        levers.change_installation(changes={"dispatch": "stopped", "reason": "Incident 42."})
        assert "dispatch" in blocking(trigger)
        assert claim(trigger) == []


class TestJobType:
    def test_opens_when_the_type_is_resumed(self) -> None:
        trigger, other = make_trigger(), make_trigger(make_job(job_type="webhook"))
        paused = levers.change_type(name="noop", changes={"paused": True, "reason": "Bad deploy"})
        assert (blocking(trigger), blocking(other)) == (["job_type"], [])
        said = f"Job type noop is paused since {moment(paused.paused_at)} by an operator: Bad deploy."
        assert explain(trigger).summary == said
        assert not is_dispatched(trigger)
        levers.change_type(name="noop", changes={"paused": False})
        passed(trigger)

    def test_still_blocks_what_is_queued(self) -> None:
        trigger = make_trigger(state="queued")
        levers.change_type(name="noop", changes={"paused": True, "reason": "Bad deploy"})
        assert "job_type" in blocking(trigger)
        assert claim(trigger) == []


class TestTypeCap:
    def test_names_the_operators_where_it_is_the_lower_one(self) -> None:
        other, attempt = make_running()
        trigger = make_trigger()
        levers.change_type(name="noop", changes={"max_in_flight": 1})
        assert blocking(trigger) == ["type_cap"]
        said = "Job type noop is full: 1 at most in flight, set by an operator, 0 of yours are."
        assert gate(trigger, "type_cap").detail == said
        assert not is_dispatched(trigger)
        execution.finish([finish_of(other, attempt)])
        passed(trigger)

    def test_opens_when_work_of_its_type_ends(self) -> None:
        registry.job_type("capped", max_in_flight=1)(lambda context, payload: None)
        workers.announce(name="w2", queues=["jobs.capped"], concurrency=1)
        other, attempt = make_running(make_job(job_type="capped"))
        trigger = make_trigger(make_job(job_type="capped"))
        assert blocking(trigger) == ["type_cap"]
        assert (
            gate(trigger, "type_cap").detail
            == "Job type capped is full: 1 at most in flight, 0 of yours are."
        )
        assert not is_dispatched(trigger)
        execution.finish([finish_of(other, attempt)])
        passed(trigger)

    def test_blocks_while_no_handler_is_registered(self) -> None:
        workers.announce(name="w2", queues=["jobs.gone"], concurrency=1)
        trigger = make_trigger(make_job(job_type="gone"))
        assert blocking(trigger) == ["type_cap"]
        assert not is_dispatched(trigger)
