"""Acts of people on triggers: cancel, replay and dismiss, in every state (DESIGN §4)."""

from typing import Any

import pytest

from jobs.actions import triggers as actions
from jobs.core.errors import Conflict, NotFound
from jobs.core.states import ENDED, TriggerState, Verb, targets_of
from jobs.explain import explain_trigger
from jobs.models import Trigger
from jobs.models.firings.trigger import DEAD_LETTERS
from jobs.store.trail import Actor, ActorKind, acting_as
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


class TestDismiss:
    @pytest.mark.parametrize("state", list(TriggerState))
    def test_takes_dead_letters_alone(self, state: TriggerState) -> None:
        trigger = make_trigger(state=str(state))
        if state is TriggerState.DEAD:
            done = actions.dismiss_trigger(
                tenant=trigger.tenant, trigger_id=trigger.id, note="The host is gone."
            )
            assert (done.state, done.dismissed_note, done.dismissed_by) == (
                "dead",
                "The host is gone.",
                "unknown",
            )
            assert done.dismissed_at is not None
            assert done.dismissed_at >= trigger.created_at
        else:
            with pytest.raises(Conflict, match=str(state)):
                actions.dismiss_trigger(tenant=trigger.tenant, trigger_id=trigger.id, note="x")
            assert row(trigger)["dismissed_at"] is None

    def test_keeps_the_first_note(self) -> None:
        dead = make_trigger(state="dead")
        with acting_as(Actor(ActorKind.OPERATOR, "ada")):
            actions.dismiss_trigger(tenant=dead.tenant, trigger_id=dead.id, note="first")
        with pytest.raises(Conflict, match="ada has already dismissed it"):
            actions.dismiss_trigger(tenant=dead.tenant, trigger_id=dead.id, note="second")
        assert actions.dismiss_triggers(tenant=dead.tenant, trigger_ids=[dead.id], note="third") == []
        assert row(dead)["dismissed_note"] == "first"

    def test_takes_no_other_tenants(self) -> None:
        dead, other = make_trigger(state="dead"), make_tenant()
        with pytest.raises(NotFound):
            actions.dismiss_trigger(tenant=other, trigger_id=dead.id, note="x")
        assert actions.dismiss_triggers(tenant=other, trigger_ids=[dead.id], note="x") == []
        every = Trigger.objects.all()
        assert actions.dismiss_dead_letters(tenant=other, queryset=every, note="x", chosen={}) == 0
        assert row(dead)["dismissed_at"] is None

    def test_takes_all_of_a_queryset_in_batches(self) -> None:
        job = make_job()
        dead, done = make_triggers(job, 7, "dead"), make_trigger(job, "succeeded")
        every = Trigger.objects.order_by("-scheduled_for")
        told = {"queryset": every, "note": "x", "chosen": {"filter": {}}, "batch": 3}
        assert actions.dismiss_dead_letters(tenant=job.tenant, **told) == 7
        assert actions.dismiss_dead_letters(tenant=job.tenant, **told) == 0
        assert states([*dead, done]) == ["dead"] * 7 + ["succeeded"]
        assert row(done)["dismissed_at"] is None

    def test_hides_it_from_a_replay_of_all_but_not_from_one_of_its_id(self) -> None:
        dead, kept = make_triggers(make_job(), 2, "dead")
        actions.dismiss_trigger(tenant=dead.tenant, trigger_id=dead.id, note="x")
        assert actions.replay_dead_letters(tenant=dead.tenant) == 1
        assert states([dead, kept]) == ["dead", "pending"]
        replayed = actions.replay_trigger(tenant=dead.tenant, trigger_id=dead.id)
        assert (replayed.dismissed_at, replayed.dismissed_by, replayed.dismissed_note) == (None, "", "")
        assert not Trigger.objects.filter(DEAD_LETTERS).exists()

    def test_is_told_by_its_explanation(self) -> None:
        dead = make_trigger(state="dead", reason="exhausted")
        actions.dismiss_trigger(tenant=dead.tenant, trigger_id=dead.id, note="The host is gone.")
        summary = explain_trigger(tenant=dead.tenant, trigger_id=dead.id).summary
        assert summary.endswith(": The host is gone.")
        assert "unknown dismissed it at " in summary
