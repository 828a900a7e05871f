"""A target that operators pause, with real dispatches and claims (DESIGN §8)."""

from datetime import timedelta
from typing import Any

import pytest

from jobs.models import Change, Installation, TargetRule
from jobs.store import dispatch as dispatch_store
from jobs.store import execution
from jobs.store.dispatch import Memory
from tests.factories import (
    HOUR,
    SECOND,
    claim,
    claim_token,
    dispatch,
    make_job,
    make_running,
    make_trigger,
    make_triggers,
    release_targets,
    row,
    state_of,
    states,
)
from tests.store.targets.rules import HOST, change, ids, make_calling, pause, put, queued

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("job_types")]


class TestPause:
    def test_that_ends_lets_many_tenants_go_a_statement_at_a_time(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """However many wait. A statement given up for its size would be tried again for ever."""
        monkeypatch.setattr("jobs.store.dispatch.targets.SHOW", 6)
        waiting = [trigger for _ in range(3) for trigger in make_calling(4)]
        pause()
        queued(memory=Memory())
        change(paused=False)
        left = []
        for _ in range(3):
            release_targets()
            left.append(sum(row(trigger)["parked"] for trigger in waiting))
        assert left == [6, 0, 0]

    def test_parks_what_calls_the_host_for_all_tenants_and_nothing_else(self) -> None:
        paused = make_calling(3) + make_calling(3, f"{HOST}:8443")
        free = make_calling(1, "other.example.com") + make_triggers(make_job(), 1)
        pause()
        memory = Memory()
        assert queued(memory=memory) == ids(free)
        stored = [row(trigger) for trigger in paused]
        assert {(each["state"], each["parked"], each["attempt_count"]) for each in stored} == {
            ("pending", True, 0)
        }
        # Out of sight, the triggers cost the next turns nothing.
        assert not dispatch(memory=memory).blocked
        change(paused=False)
        assert queued(memory=memory) == ids(paused)

    def test_matches_by_pattern(self) -> None:
        below, apex = make_calling(1, "a.example.com"), make_calling(1, "example.com")
        pause("*.example.com")
        assert queued() == ids(apex)
        change("*.example.com", paused=False)
        assert queued() == ids(below)

    def test_of_every_host_leaves_what_calls_none(self) -> None:
        paused, free = make_calling(), make_triggers(make_job(), 1)
        pause("*")
        assert queued() == ids(free)
        assert states(paused) == ["pending"]

    def test_acts_on_a_dispatcher_that_remembers_its_backlog(self) -> None:
        memory = Memory()
        assert len(queued(memory=memory)) == 0
        pause()
        waiting = make_calling()
        assert queued(memory=memory) == set()
        change(paused=False)
        assert queued(memory=memory) == ids(waiting)

    def test_hands_back_what_is_queued_at_no_attempts_cost_and_lets_what_runs_end(self) -> None:
        [waiting] = make_calling(state="queued")
        running, attempt = make_running(make_job(target=HOST))
        pause("*.example.com")
        assert claim(waiting) == []
        assert (state_of(waiting), row(waiting)["attempt_count"]) == (("pending", ""), 0)
        assert execution.renew(tokens=[claim_token(running)], lease=30 * SECOND)
        assert attempt.state == "started"
        assert queued() == set()
        change("*.example.com", paused=False)
        assert queued() == {waiting.id}

    def test_does_not_keep_from_claims_what_calls_no_host_or_another(self) -> None:
        pause("*.example.com")
        free = [make_trigger(state="queued"), *make_calling(1, "example.com", "queued")]
        assert {each.id for each in claim(*free)} == ids(free)

    def test_shows_again_after_a_while_what_nobody_lifted_it_for(self, clock: Any) -> None:
        [trigger] = make_calling()
        pause()
        dispatch()
        TargetRule.objects.all().delete()  # by hand: no version shows it
        clock(2 * HOUR)
        dispatch_store.unpark(limit=10)
        assert (row(trigger)["held"], row(trigger)["parked_for"]) == (False, "")

    def test_follows_the_misfire_policy_for_what_is_missed(self, clock: Any) -> None:
        triggers = make_calling(3, misfire_policy="fire_once", misfire_grace=60 * SECOND, catchup_window=HOUR)
        pause()
        dispatch()
        clock(timedelta(minutes=10))
        change(paused=False)
        assert queued() == {triggers[-1].id}
        assert {state_of(each) for each in triggers[:-1]} == {("skipped", "coalesced")}

    def test_keeps_when_it_began_and_takes_another_reason(self) -> None:
        first, again, other = pause(), pause(), pause(reason="Still down.")
        assert first["paused_at"] == again["paused_at"] == other["paused_at"]
        assert (other["reason"], other["paused_by"]) == ("Still down.", "olga")

    def test_leaves_the_rate_and_the_cap_as_they_are(self) -> None:
        put(rate_per_second=5, max_in_flight=3)
        paused = pause()
        assert (paused["rate_per_second"], paused["max_in_flight"]) == (5, 3)
        assert change(paused=False)["rate_per_second"] == 5

    def test_that_was_not_there_is_not_lifted_and_changes_nothing(self) -> None:
        shown = change(paused=False)
        assert (shown["paused"], shown["rate_per_second"]) == (False, None)
        assert not TargetRule.objects.exists()
        assert not Change.objects.filter(kind="target").exists()
        assert not Installation.objects.filter(targets_version__gt=0).exists()

    def test_leaves_no_rule_behind_that_says_nothing(self) -> None:
        pause()
        change(paused=False)
        assert not TargetRule.objects.exists()
