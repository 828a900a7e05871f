"""Gates of time: a trigger that is not due yet, was missed, or backs off, and one that has ended."""

from typing import Any

import pytest

from jobs.core.states import REASONS
from jobs.explain.progress import _ENDS
from jobs.store.insight import workers
from tests.explain.asking import Clock, blocking, explain, gate, is_dispatched, passed
from tests.factories import (
    HOUR,
    MINUTE,
    SECOND,
    make_attempt,
    make_job,
    make_trigger,
    now,
    state_of,
    take_lease,
)


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
