"""What people do to triggers: cancel and replay, in every state (DESIGN §4)."""

from typing import Any

import pytest

from jobs.actions import triggers as actions
from jobs.core.errors import Conflict, NotFound
from jobs.core.states import ENDED, TriggerState, Verb, targets_of
from jobs.models import Trigger
from tests import factories
from tests.factories import make_job, make_tenant, make_trigger, make_triggers, row, state_of, states

pytestmark = pytest.mark.django_db


class TestCancel:
    @pytest.mark.parametrize("state", ["pending", "queued", "retrying"])
    def test_ends_one_that_waits(self, state: str) -> None:
        trigger = make_trigger(state=state)
        assert actions.cancel_trigger(tenant=trigger.tenant, trigger_id=trigger.id).state == "cancelled"
        assert state_of(trigger) == ("cancelled", "requested")

    def test_asks_one_that_runs_to_stop(self) -> None:
        trigger = make_trigger(state="running")
        asked = actions.cancel_trigger(tenant=trigger.tenant, trigger_id=trigger.id)
        assert (asked.state, asked.cancel_requested) == ("running", True)

    @pytest.mark.parametrize("state", ["succeeded", "dead", "skipped"])
    def test_refuses_one_that_has_ended(self, state: str) -> None:
        trigger = make_trigger(state=state)
        with pytest.raises(Conflict, match=state):
            actions.cancel_trigger(tenant=trigger.tenant, trigger_id=trigger.id)

    def test_may_be_repeated(self) -> None:
        trigger = make_trigger(state="cancelled")
        assert actions.cancel_trigger(tenant=trigger.tenant, trigger_id=trigger.id).state == "cancelled"


class TestReplay:
    @pytest.mark.parametrize("state", list(TriggerState))
    def test_follows_the_state_table(self, state: TriggerState) -> None:
        trigger = make_trigger(state=str(state))
        if targets_of(Verb.REPLAY, state):
            replayed = actions.replay_trigger(tenant=trigger.tenant, trigger_id=trigger.id)
            assert (replayed.state, replayed.replay_count) == ("pending", 1)
            assert replayed.idempotency_key == trigger.idempotency_key
            assert replayed.budget_start == trigger.attempt_count
        else:
            with pytest.raises(Conflict, match=str(state)):
                actions.replay_trigger(tenant=trigger.tenant, trigger_id=trigger.id)
            assert row(trigger)["state"] == state

    def test_refuses_one_of_a_cancelled_or_deleted_job(self) -> None:
        for job in (make_job(status="cancelled"), make_job(deleted_at=factories.now())):
            trigger = make_trigger(job, "dead")
            with pytest.raises(Conflict, match="Its job is"):
                actions.replay_trigger(tenant=job.tenant, trigger_id=trigger.id)

    @pytest.mark.parametrize("action", [actions.replay_trigger, actions.cancel_trigger, actions.find_trigger])
    @pytest.mark.parametrize("trigger_id", ["", "x", None, "018f0000-0000-7000-8000-000000000000"])
    def test_finds_no_trigger_of_that_id(self, action: Any, trigger_id: Any) -> None:
        with pytest.raises(NotFound):
            action(tenant=make_tenant(), trigger_id=trigger_id)

    @pytest.mark.parametrize("action", [actions.replay_trigger, actions.cancel_trigger, actions.find_trigger])
    def test_finds_no_trigger_of_another_tenant(self, action: Any) -> None:
        trigger = make_trigger(state="dead")
        with pytest.raises(NotFound):
            action(tenant=make_tenant(), trigger_id=trigger.id)


class TestReplaySome:
    def test_leaves_out_what_cannot_be_replayed(self) -> None:
        job = make_job()
        every = {str(state): make_trigger(job, str(state)) for state in TriggerState}
        foreign = make_trigger(state="dead")
        ids = [trigger.id for trigger in (*every.values(), foreign)]
        replayed = actions.replay_triggers(tenant=job.tenant, trigger_ids=ids)
        assert set(replayed) == {every[str(state)].id for state in ENDED}
        assert state_of(foreign)[0] == "dead"


class TestReplayAll:
    def test_takes_every_dead_letter_of_the_tenant_in_batches(self) -> None:
        job = make_job()
        dead = make_triggers(job, 7, "dead")
        others = [make_trigger(job, "succeeded"), make_trigger(state="dead")]
        assert actions.replay_dead_letters(tenant=job.tenant, batch=3) == 7
        assert set(states(dead)) == {"pending"}
        assert states(others) == ["succeeded", "dead"]

    def test_takes_those_of_a_queryset_alone(self) -> None:
        tenant = make_tenant()
        wanted, other = (make_trigger(make_job(tenant), "dead") for _ in range(2))
        chosen = Trigger.objects.filter(job=wanted.job).order_by("-scheduled_for")
        assert actions.replay_dead_letters(tenant=tenant, queryset=chosen) == 1
        assert states([wanted, other]) == ["pending", "dead"]

    def test_takes_those_of_every_tenant_for_an_operator(self) -> None:
        dead = [make_trigger(state="dead") for _ in range(3)]
        assert actions.replay_dead_letters(tenant=None, batch=1) == 3
        assert set(states(dead)) == {"pending"}

    def test_passes_over_those_of_a_cancelled_job(self) -> None:
        kept = make_trigger(make_job(status="cancelled"), "dead")
        assert actions.replay_dead_letters(tenant=kept.tenant, batch=1) == 0
        assert state_of(kept)[0] == "dead"
