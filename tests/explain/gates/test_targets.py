"""Gates of the target that a job calls: its rate, its rules, and a circuit breaker."""

from datetime import datetime
from typing import Any

import pytest

from jobs.actions import targets
from jobs.explain.gate import moment
from jobs.models import Breaker, Trigger
from jobs.store import execution
from tests.explain.asking import Clock, Tokens, blocking, explain, gate, is_dispatched, passed
from tests.factories import (
    MINUTE,
    SECOND,
    claim,
    finish_of,
    make_job,
    make_running,
    make_tenant,
    make_trigger,
    now,
)


class TestTargetRate:
    @pytest.fixture
    def trigger(self, settings: Any) -> Trigger:
        settings.CARILLON = settings.CARILLON.model_copy(update={"target_rates": {"api.example": 2.0}})
        return make_trigger(make_job(job_type="webhook", target="api.example"))

    def test_opens_when_its_turn_comes(self, trigger: Trigger, clock: Clock) -> None:
        called = Tokens(**{"target_api.example": 0})
        assert blocking(trigger, called) == ["target_rate"]
        assert not is_dispatched(trigger, rates=called)
        parked = gate(trigger, "target_rate")
        trigger.refresh_from_db()
        assert blocking(trigger) == ["target_rate"]
        assert parked.opens_at == trigger.parked_until
        clock(2 * SECOND)
        passed(trigger)

    def test_passes_while_the_target_may_be_called(self, trigger: Trigger) -> None:
        assert "2 a second" in gate(trigger, "target_rate").detail
        passed(trigger)


class TestTarget:
    def test_opens_when_the_target_is_resumed(self) -> None:
        trigger, other = make_trigger(make_job(target="api.example")), make_trigger(make_job(target="other"))
        pause = {"paused": True, "reason": "It is down"}
        paused = targets.put_target(pattern="*.example", changes=pause)
        assert (blocking(trigger), blocking(other)) == (["target"], [])
        since = moment(datetime.fromisoformat(paused["paused_at"]))
        said = f"Target api.example, as *.example, is paused since {since} by an operator: It is down."
        assert explain(trigger).summary == said
        assert not is_dispatched(trigger)
        assert blocking(trigger) == ["target"]  # parked by now
        targets.delete_target(pattern="*.example")
        passed(trigger)

    def test_still_blocks_what_is_queued(self) -> None:
        trigger = make_trigger(make_job(target="api.example"), state="queued")
        targets.put_target(pattern="api.example", changes={"paused": True, "reason": "It is down"})
        assert "target" in blocking(trigger)
        assert claim(trigger) == []

    def test_opens_when_another_call_of_a_capped_target_ends(self) -> None:
        other, attempt = make_running(make_job(target="api.example"))
        trigger = make_trigger(make_job(target="api.example"))
        targets.put_target(pattern="*", changes={"max_in_flight": 1})
        assert blocking(trigger) == ["target"]
        assert gate(trigger, "target").detail == "Target api.example is full: 1 at most in flight."
        assert not is_dispatched(trigger)
        execution.finish([finish_of(other, attempt)])
        passed(trigger)


class TestBreaker:
    def test_opens_when_the_target_is_back(self) -> None:
        trigger = make_trigger(make_job(make_tenant(slug="acme", circuit_breaker=True), target="api.example"))
        columns = {"failures": 0, "successes": 0, "openings": 1, "window_ends_at": now(), "changed_at": now()}
        breaker = Breaker.objects.create(
            tenant=trigger.tenant, target="api.example", state="open", probe_at=now() + MINUTE, **columns
        )
        assert blocking(trigger) == ["breaker"]
        whose = "The circuit breaker of tenant acme for api.example is open since "
        assert explain(trigger).summary.startswith(whose)
        assert not is_dispatched(trigger)
        assert blocking(trigger) == ["breaker"]  # parked by now
        Breaker.objects.filter(id=breaker.id).update(state="closed")
        passed(trigger)

    def test_lets_one_through_when_its_time_is_over(self) -> None:
        trigger = make_trigger(make_job(make_tenant(circuit_breaker=True), target="api.example"))
        columns = {"failures": 0, "successes": 0, "openings": 1, "window_ends_at": now(), "changed_at": now()}
        Breaker.objects.create(
            tenant=trigger.tenant, target="api.example", state="open", probe_at=now() - MINUTE, **columns
        )
        passed(trigger)

    def test_still_blocks_what_is_queued(self) -> None:
        job = make_job(make_tenant(circuit_breaker=True), target="api.example")
        trigger = make_trigger(job, state="queued")
        columns = {"failures": 0, "successes": 0, "openings": 1, "window_ends_at": now(), "changed_at": now()}
        Breaker.objects.create(
            tenant=job.tenant, target="api.example", state="open", probe_at=now() - MINUTE, **columns
        )
        assert "breaker" in blocking(trigger)
        assert claim(trigger) == []
