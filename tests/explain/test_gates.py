"""Each gate by itself: its cause blocks no other gate, dispatch obeys it, and once passed it lets the trigger go."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from jobs.actions import jobs as actions
from jobs.actions import levers, targets
from jobs.core.states import REASONS
from jobs.explain import GATE_NAMES, explain_trigger
from jobs.explain.gate import moment
from jobs.explain.progress import _ENDS
from jobs.handlers import registry
from jobs.limits import Buckets, Rates, tenant_bucket
from jobs.models import Breaker, Lease, Queue, Trigger, Worker
from jobs.store import execution
from jobs.store.insight import workers
from tests.explain.asking import Tokens, blocking, explain, gate, is_dispatched
from tests.factories import (
    HOUR,
    MINUTE,
    SECOND,
    claim,
    dispatch,
    finish_of,
    make_attempt,
    make_job,
    make_running,
    make_tenant,
    make_trigger,
    now,
    state_of,
    take_lease,
)

Clock = Callable[[timedelta], None]


def passed(trigger: Trigger) -> None:
    """Nothing stands in its way any more, and so it goes."""
    assert blocking(trigger) == []
    assert is_dispatched(trigger)


class TestNoGate:
    def test_blocks_for_a_due_trigger_in_a_calm_system(self) -> None:
        trigger = make_trigger()
        explained = explain(trigger)
        assert tuple(gate.name for gate in explained.gates) == GATE_NAMES
        assert explained.summary == "Nothing stands in its way: the leader's next turn takes it."
        passed(trigger)

    def test_is_asked_about_with_more_than_three_statements(self, django_assert_num_queries: Any) -> None:
        trigger = make_trigger()
        tenant = trigger.tenant
        with django_assert_num_queries(3):
            explain_trigger(tenant=tenant, trigger_id=trigger.id)

    def test_blocks_but_others_go_first(self) -> None:
        job = make_job()
        early = make_trigger(job, due_at=now() - MINUTE)
        late = make_trigger(make_job(job.tenant))
        assert explain(early).fact.ahead == 0
        assert "after 1 trigger due before it" in explain(late).summary

    def test_blocks_for_long_without_a_hint_at_the_broker(self) -> None:
        assert "/readyz" in explain(make_trigger(due_at=now() - MINUTE)).summary


class TestDue:
    def test_opens_when_it_falls_due(self, clock: Clock) -> None:
        trigger = make_trigger(due_at=now() + HOUR, scheduled_for=now() + HOUR)
        assert blocking(trigger) == ["due"]
        assert gate(trigger, "due").opens_at == trigger.due_at
        assert "in 59 min" in gate(trigger, "due").detail
        assert not is_dispatched(trigger)
        clock(HOUR)
        take_lease(duration=HOUR)
        workers.announce(name="w1", queues=["jobs.noop"], concurrency=4)
        passed(trigger)


class TestMisfire:
    @pytest.mark.parametrize(
        ("policy", "columns", "words"),
        [
            ("skip", {}, "the next firing runs"),
            ("fire_once", {"catchup_window": SECOND}, "older than the catch-up window"),
            ("backfill", {"catchup_window": SECOND}, "older than the catch-up window"),
        ],
    )
    def test_shuts_for_good_where_the_policy_lets_it_go(
        self, policy: str, columns: dict[str, Any], words: str
    ) -> None:
        job = make_job(misfire_policy=policy, **columns)
        trigger = make_trigger(job, scheduled_for=now() - 2 * MINUTE)
        assert blocking(trigger) == ["misfire"]
        assert words in gate(trigger, "misfire").detail
        assert not is_dispatched(trigger)
        assert state_of(trigger) == ("skipped", "misfire")

    def test_shuts_for_good_where_a_later_one_runs_in_its_place(self) -> None:
        job = make_job(misfire_policy="fire_once")
        early, late = (make_trigger(job, scheduled_for=now() - n * MINUTE) for n in (3, 2))
        assert blocking(early) == ["misfire"]
        assert blocking(late) == []
        assert is_dispatched(late)
        assert state_of(early) == ("skipped", "coalesced")

    def test_passes_within_the_grace_and_for_what_runs_late(self) -> None:
        passed(make_trigger(make_job(misfire_policy="skip")))
        passed(make_trigger(make_job(misfire_policy="fire_all"), scheduled_for=now() - HOUR))


class TestJob:
    def test_blocks_while_it_is_paused(self) -> None:
        trigger = make_trigger(origin="run_now")  # a scheduled one would be skipped on resume
        job = trigger.job
        actions.pause_job(tenant=job.tenant, job_id=job.id)
        assert blocking(trigger) == ["job"]
        assert not is_dispatched(trigger)
        actions.resume_job(tenant=job.tenant, job_id=job.id)
        passed(trigger)

    def test_says_why_it_is_paused(self) -> None:
        job = make_job(status="paused", status_reason="The target answered 410 Gone.")
        trigger = make_trigger(job, held=True)
        assert gate(trigger, "job").detail == "Its job is paused: The target answered 410 Gone."


class TestTenant:
    @pytest.mark.parametrize("status", ["suspended", "frozen"])
    def test_blocks_while_it_is_not_active(self, status: str) -> None:
        trigger = make_trigger(attempt_count=1, state="retrying")
        tenant = trigger.tenant
        tenant.status = status
        tenant.save()
        assert blocking(trigger) == ["tenant"]
        assert f"{tenant.slug} is {status}" in gate(trigger, "tenant").detail
        assert not is_dispatched(trigger)
        tenant.status = "active"
        tenant.save()
        passed(trigger)


class TestLeader:
    def test_blocks_while_no_beat_leads(self) -> None:
        trigger = make_trigger()
        Lease.objects.update(expires_at=now() - MINUTE)
        assert blocking(trigger) == ["leader"]
        assert "for 1 min" in gate(trigger, "leader").detail
        Lease.objects.all().delete()
        assert "No beat has ever led" in explain(trigger).summary
        take_lease()
        passed(trigger)

    def test_passes_without_election(self, settings: Any) -> None:
        settings.CARILLON = settings.CARILLON.model_copy(update={"leader_election": False})
        Lease.objects.all().delete()
        passed(make_trigger())


class TestTenantCap:
    def test_opens_when_work_of_the_tenant_ends(self) -> None:
        tenant = make_tenant(slug="acme", max_in_flight=2)
        others = [make_running(make_job(tenant)) for _ in range(2)]
        trigger = make_trigger(make_job(tenant))
        assert blocking(trigger) == ["tenant_cap"]
        assert gate(trigger, "tenant_cap").detail == "Tenant acme: 2 of 2 in flight."
        assert not is_dispatched(trigger)
        execution.finish([finish_of(*others[0])])
        passed(trigger)

    def test_is_of_no_interest_to_another_tenant(self) -> None:
        make_running(make_job(make_tenant(max_in_flight=1)))
        passed(make_trigger())


class TestTenantRate:
    def test_opens_when_there_are_tokens_again(self) -> None:
        trigger = make_trigger(make_job(make_tenant(rate_per_second=2, rate_burst=4)))
        spent = Tokens(**{f"tenant_{trigger.tenant_id}": 0})
        assert blocking(trigger, spent) == ["tenant_rate"]
        found = gate(trigger, "tenant_rate", spent)
        assert (found.limit, found.used) == (2, 4)
        assert found.opens_at is not None
        assert timedelta() < found.opens_at - now() <= SECOND / 2
        assert not is_dispatched(trigger, rates=spent)
        assert blocking(trigger, Tokens(**{f"tenant_{trigger.tenant_id}": 1})) == []
        assert is_dispatched(trigger, rates=Tokens(**{f"tenant_{trigger.tenant_id}": 1}))

    def test_goes_by_the_buckets_that_beats_share(self, settings: Any) -> None:
        trigger = make_trigger(make_job(make_tenant(rate_per_second=1, rate_burst=1)))
        bucket = tenant_bucket(trigger.tenant_id, 1, 1)
        assert bucket is not None
        buckets = Buckets(url=settings.REDIS_URL)
        asked = explain_trigger(tenant=trigger.tenant, trigger_id=trigger.id, available=buckets.available)
        assert asked.blocking == []
        buckets.spend({bucket: 5})  # four more than there are: no test takes so long as their seconds
        asked = explain_trigger(tenant=trigger.tenant, trigger_id=trigger.id, available=buckets.available)
        assert [gate.name for gate in asked.blocking] == ["tenant_rate"]
        assert not is_dispatched(trigger, rates=Rates(buckets))

    def test_passes_while_redis_is_away(self) -> None:
        trigger = make_trigger(make_job(make_tenant(rate_per_second=1)))
        away = Buckets(url="redis://127.0.0.1:1/0")
        asked = explain_trigger(tenant=trigger.tenant, trigger_id=trigger.id, available=away.available)
        assert asked.blocking == []
        assert any("each beat counts by itself" in gate.detail for gate in asked.gates)


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


class TestOverlap:
    def test_opens_when_the_others_of_its_job_have_ended(self) -> None:
        job = make_job(overlap_policy="queue")
        other, attempt = make_running(job)
        trigger = make_trigger(job)
        assert blocking(trigger) == ["overlap"]
        assert gate(trigger, "overlap").blockers == (other.id,)
        assert not is_dispatched(trigger)
        assert blocking(trigger) == ["overlap"]  # parked by now
        execution.finish([finish_of(other, attempt)])
        passed(trigger)

    def test_allows_as_many_as_may_run_at_once(self) -> None:
        job = make_job(overlap_policy="allow", max_concurrent=2)
        others = [make_running(job) for _ in range(2)]
        trigger = make_trigger(job)
        assert blocking(trigger) == ["overlap"]
        assert (gate(trigger, "overlap").used, gate(trigger, "overlap").limit) == (2, 2)
        assert not is_dispatched(trigger)
        execution.finish([finish_of(*others[0])])
        passed(trigger)

    def test_shuts_for_good_where_the_policy_skips(self) -> None:
        job = make_job(overlap_policy="skip")
        make_trigger(job, "retrying", due_at=now() + HOUR)
        trigger = make_trigger(job)
        assert blocking(trigger) == ["overlap"]
        assert "it is skipped" in gate(trigger, "overlap").detail
        assert not is_dispatched(trigger)
        assert state_of(trigger) == ("skipped", "overlap")

    def test_of_replace_opens_when_the_others_have_stopped(self) -> None:
        job = make_job(overlap_policy="replace")
        other, attempt = make_running(job)
        trigger = make_trigger(job)
        assert blocking(trigger) == ["overlap"]
        assert not is_dispatched(trigger)
        assert "asked to" in gate(trigger, "overlap").detail
        execution.finish([finish_of(other, attempt, "cancelled")])
        passed(trigger)

    def test_of_collapse_waits_unless_a_newer_one_is_due(self) -> None:
        job = make_job(overlap_policy="collapse")
        other, attempt = make_running(job)
        older, newer = (make_trigger(job, scheduled_for=now() - n * SECOND) for n in (3, 2))
        assert "a newer one that is due runs in its place" in gate(older, "overlap").detail
        assert blocking(newer) == ["overlap"]
        assert not is_dispatched(newer)
        assert state_of(older) == ("skipped", "collapsed")
        execution.finish([finish_of(other, attempt)])
        passed(newer)

    def test_lets_the_earlier_ones_of_its_job_go_first(self) -> None:
        job = make_job(overlap_policy="queue")
        early, late = (make_trigger(job, scheduled_for=now() - n * SECOND) for n in (3, 2))
        assert blocking(early) == []
        assert blocking(late) == ["overlap"]
        assert is_dispatched(early)
        assert state_of(late) == ("pending", "")

    def test_lets_those_that_were_parked_before_it_go_first(self) -> None:
        job = make_job(overlap_policy="allow", max_concurrent=2)
        make_running(job)
        other, attempt = make_running(job)
        early, late = (make_trigger(job, scheduled_for=now() - n * SECOND) for n in (3, 2))
        dispatch()
        execution.finish([finish_of(other, attempt)])
        assert blocking(late) == ["overlap"]
        assert "1 earlier one of the job wait" in gate(late, "overlap").detail
        passed(early)

    def test_of_the_default_policies_knows_that_one_missed_firing_goes_first(self) -> None:
        job = make_job(overlap_policy="skip", misfire_policy="fire_once")
        missed, late = (make_trigger(job, scheduled_for=now() - n * SECOND) for n in (90, 30))
        assert (blocking(missed), blocking(late)) == ([], ["overlap"])
        assert is_dispatched(missed)
        assert state_of(late) == ("skipped", "overlap")


class TestConcurrencyKey:
    def test_opens_when_what_holds_the_key_has_ended(self) -> None:
        tenant = make_tenant()
        first, second = (make_job(tenant, max_concurrent=1, concurrency_key="db") for _ in range(2))
        holder = make_trigger(first)
        dispatch()
        trigger = make_trigger(second)
        assert blocking(trigger) == ["concurrency_key"]
        assert gate(trigger, "concurrency_key").blockers == (holder.id,)
        assert not is_dispatched(trigger)
        assert blocking(trigger) == ["concurrency_key"]  # parked by now
        holder.refresh_from_db()
        [attempt] = claim(holder)
        execution.finish([finish_of(holder, make_attempt_of(attempt))])
        passed(trigger)

    def test_of_another_tenant_is_another_key(self) -> None:
        make_trigger(make_job(max_concurrent=1, concurrency_key="db"))
        dispatch()
        passed(make_trigger(make_job(max_concurrent=1, concurrency_key="db")))


def make_attempt_of(claimed: Any) -> Any:
    """What ``finish_of`` asks of an attempt, from a row of ``claim``."""

    class Attempt:
        id = claimed.attempt_id
        started_at = claimed.attempt_started_at

    return Attempt


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


class TestQueueWindow:
    def test_opens_when_workers_have_taken_what_is_queued(self) -> None:
        dispatch(window=1)  # nothing yet
        other = make_trigger()
        dispatch(window=1)
        assert Queue.objects.get().window == 1
        trigger = make_trigger()
        assert blocking(trigger) == ["queue_window"]
        found = gate(trigger, "queue_window")
        assert (found.used, found.limit) == (0, None)
        assert found.detail.startswith("Queue jobs.noop is full")
        assert not is_dispatched(trigger, window=1)
        other.refresh_from_db()
        claim(other)
        assert blocking(trigger) == []
        assert is_dispatched(trigger, window=1)

    def test_lets_urgent_work_beyond_it_where_workers_keep_slots(self, settings: Any) -> None:
        settings.CARILLON = settings.CARILLON.model_copy(update={"reserved_slots": 1, "queue_window_min": 1})
        make_trigger()
        dispatch(window=1, urgent=1)
        plain, urgent = make_trigger(), make_trigger(make_job(priority=1))
        assert blocking(plain) == ["queue_window"]
        assert blocking(urgent) == []
        assert "is full, and has room for critical and high" in gate(urgent, "queue_window").detail
        assert is_dispatched(urgent, window=1, urgent=1)
        one_more = make_trigger(make_job(priority=0))
        assert blocking(one_more) == ["queue_window"]
        assert not is_dispatched(one_more, window=1, urgent=1)
        assert state_of(plain)[0] == "pending"


class TestBroker:
    def test_blocks_until_a_worker_claims_it(self) -> None:
        trigger = make_trigger()
        make_trigger(make_job(trigger.tenant), state="queued", queued_at=now() - MINUTE)
        make_trigger(state="queued", queued_at=now() - MINUTE)  # another tenant's
        dispatch()
        assert blocking(trigger) == ["broker"]
        assert gate(trigger, "broker").used == 1
        assert "1 trigger of yours queued before it" in explain(trigger).summary
        trigger.refresh_from_db()
        assert claim(trigger)
        assert blocking(trigger) == ["running"]

    def test_tells_when_the_message_is_taken_for_lost(self, clock: Clock) -> None:
        queued_at = now().replace(microsecond=0)
        for fence, seconds in ((1, 30), (2, 30), (3, 60), (4, 120)):
            trigger = make_trigger(state="queued", fence=fence, queued_at=queued_at)
            told = f"Not claimed by {moment(queued_at + timedelta(seconds=seconds))}, it is dispatched again."
            assert told in explain(trigger).summary


class TestWorker:
    def test_opens_when_a_worker_takes_from_its_queue(self) -> None:
        trigger = make_trigger()
        workers.leave(name="w1")
        assert blocking(trigger) == ["worker"]
        workers.announce(name="w2", queues=["jobs.webhook"], concurrency=1)
        assert gate(trigger, "worker").detail == "No worker takes from jobs.noop, and none has lately."
        workers.announce(name="w3", queues=["jobs.noop"], concurrency=2)
        assert "1 worker with room for 2 messages" in gate(trigger, "worker").detail
        passed(trigger)

    @pytest.mark.parametrize(
        ("priority", "kept", "said"), [(3, 1, True), (2, 1, True), (1, 1, False), (3, 0, False)]
    )
    def test_says_what_is_kept_for_urgent_work(
        self, settings: Any, priority: int, kept: int, said: bool
    ) -> None:
        settings.CARILLON = settings.CARILLON.model_copy(update={"reserved_slots": kept})
        detail = gate(make_trigger(priority=priority), "worker").detail
        assert ("1 is kept for critical and high" in detail) is said

    def test_blocks_when_the_last_one_has_fallen_silent(self) -> None:
        trigger = make_trigger()
        Worker.objects.update(seen_at=now() - MINUTE)
        assert blocking(trigger) == ["worker"]
        assert "1 min ago" in gate(trigger, "worker").detail

    def test_blocks_beside_the_broker_s_for_what_is_queued(self) -> None:
        trigger = make_trigger(state="queued")
        workers.leave(name="w1")
        assert blocking(trigger) == ["broker", "worker"]


class TestRunning:
    def test_names_the_worker_the_attempt_and_the_lease(self) -> None:
        trigger, attempt = make_running(make_job(timeout=MINUTE, retry_policy={"max_attempts": 3}))
        assert blocking(trigger) == ["running"]
        found = gate(trigger, "running")
        assert "Running on w1" in found.detail
        assert "attempt 1 of 3" in found.detail
        assert found.opens_at == attempt.started_at + MINUTE
        execution.finish([finish_of(trigger, attempt)])
        assert explain(trigger).gates == ()
        assert explain(trigger).summary.endswith("with attempt 1 of 3.")

    def test_says_so_when_it_was_asked_to_stop(self) -> None:
        trigger, _ = make_running(cancel_requested=True)
        assert "asked to stop" in explain(trigger).summary


class TestBackOff:
    def test_opens_when_it_has_passed(self, clock: Clock) -> None:
        job = make_job(retry_policy={"max_attempts": 5})
        due_at = now() + HOUR
        trigger = make_trigger(job, "retrying", due_at=due_at, attempt_count=2)
        make_attempt(trigger, "failed", number=2, error_code="http_503")
        assert blocking(trigger) == ["back_off"]
        found = gate(trigger, "back_off")
        assert found.opens_at == due_at
        assert found.detail.startswith("Attempt 2 of 5 failed (http_503); the next may start at ")
        assert not is_dispatched(trigger)
        clock(HOUR)
        take_lease(duration=HOUR)
        workers.announce(name="w1", queues=["jobs.noop"], concurrency=4)
        passed(trigger)


class TestTheEnd:
    @pytest.mark.parametrize(
        ("state", "columns", "words"),
        [
            ("succeeded", {}, "Succeeded at"),
            ("dead", {"reason": "exhausted"}, "its retry budget is spent (exhausted)"),
            ("dead", {"reason": "lost"}, "Given up at"),
            ("skipped", {"reason": "overlap"}, "another trigger of its job was unfinished"),
            ("cancelled", {"reason": "requested"}, "it was cancelled on request (requested)"),
        ],
    )
    def test_is_told_with_its_reason(self, state: str, columns: dict[str, Any], words: str) -> None:
        explained = explain(make_trigger(state=state, **columns))
        assert words in explained.summary
        assert explained.gates == ()

    def test_is_told_for_every_reason_there_is(self) -> None:
        assert set(_ENDS) == {
            (state.value, reason) for state, reasons in REASONS.items() for reason in reasons
        }


def test_every_gate_has_a_test_of_its_own() -> None:
    names = {"".join(part.capitalize() for part in name.split("_")) for name in GATE_NAMES}
    assert {f"Test{name}" for name in names} <= set(globals())
