"""The decision on a trigger after a failed attempt, and the words of the policies."""

import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from jobs.core.backoff import Jitter, RetryPolicy
from jobs.core.errors import InvalidInput
from jobs.core.policies import (
    Bury,
    Cancel,
    Decision,
    Delivery,
    JobFacts,
    Priority,
    Retry,
    after_crash,
    after_failure,
    claim_deadline,
    decide,
    decide_unkeyed,
    end_of_missed,
    is_charged,
    key_is_full,
    most_to_run,
    room_to_show,
)
from jobs.core.states import DEAD_REASONS

POLICY = RetryPolicy(max_attempts=3, jitter=Jitter.NONE)
FIRST, SECOND = timedelta(seconds=30), timedelta(minutes=2)

#: The difference from a first ordinary failure of an at-least-once trigger, and the outcome.
OUTCOMES = [
    ({}, Retry(FIRST)),
    ({"attempts": 2}, Retry(SECOND)),
    ({"attempts": 3}, Bury("exhausted")),
    ({"attempts": 4}, Bury("exhausted")),
    ({"permanent": True}, Bury("permanent")),
    ({"permanent": True, "attempts": 3}, Bury("permanent")),
    ({"crashed": True, "crash_count": 1}, Retry(timedelta())),
    ({"crashed": True, "crash_count": 2, "attempts": 2}, Retry(timedelta())),
    ({"crashed": True, "crash_count": 3, "attempts": 3}, Bury("poison")),
    ({"crashed": True, "crash_count": 3, "attempts": 1}, Bury("poison")),
    ({"crashed": True, "crash_count": 1, "attempts": 3}, Bury("exhausted")),
    ({"crash_count": 3}, Retry(FIRST)),
    ({"delivery": Delivery.EXACTLY_ONCE}, Retry(FIRST)),
    ({"delivery": Delivery.AT_MOST_ONCE}, Bury("exhausted")),
    ({"delivery": "at_most_once"}, Bury("exhausted")),
    ({"delivery": Delivery.AT_MOST_ONCE, "permanent": True}, Bury("permanent")),
    ({"delivery": Delivery.AT_MOST_ONCE, "crashed": True, "crash_count": 1}, Bury("lost")),
    ({"delivery": Delivery.AT_MOST_ONCE, "crashed": True, "crash_count": 3}, Bury("lost")),
    ({"delivery": Delivery.AT_MOST_ONCE, "retry_after": timedelta(1)}, Bury("exhausted")),
    ({"retry_after": timedelta(minutes=5)}, Retry(timedelta(minutes=5))),
    ({"elapsed": timedelta(days=30)}, Retry(FIRST)),
    ({"max_elapsed": timedelta(minutes=1), "elapsed": timedelta(seconds=30)}, Retry(FIRST)),
    ({"max_elapsed": timedelta(minutes=1), "elapsed": timedelta(seconds=31)}, Bury("exhausted")),
    ({"max_elapsed": timedelta(minutes=1), "retry_after": timedelta(minutes=2)}, Bury("exhausted")),
]


class TestAfterFailure:
    @pytest.mark.parametrize(("changes", "outcome"), OUTCOMES)
    def test_retries_or_buries_by_the_table(self, changes, outcome):
        facts = {
            "permanent": False,
            "crashed": False,
            "attempts": 1,
            "crash_count": 0,
            "elapsed": timedelta(0),
            "delivery": Delivery.AT_LEAST_ONCE,
            "retry_after": None,
            **changes,
        }
        policy = RetryPolicy(
            max_attempts=3, jitter=Jitter.NONE, max_elapsed=facts.pop("max_elapsed", POLICY.max_elapsed)
        )
        assert after_failure(policy, **facts, rng=random.Random(1)) == outcome

    def test_buries_only_for_reasons_of_the_state_table(self):
        assert {outcome.reason for _, outcome in OUTCOMES if isinstance(outcome, Bury)} == set(DEAD_REASONS)


#: The difference from a first crash of an at-least-once trigger that was alone, and the outcome.
CRASHES = [
    ({}, Retry(timedelta())),
    ({"attempts": 3}, Bury("exhausted")),
    ({"attempts": 3, "charged": False}, Retry(timedelta())),
    ({"attempts": 4, "charged": False}, Bury("exhausted")),
    ({"crash_count": 2}, Bury("poison")),
    ({"crash_count": 2, "charged": False}, Retry(timedelta())),
    ({"crash_count": 3, "charged": False}, Bury("poison")),
    ({"delivery": Delivery.AT_MOST_ONCE}, Bury("lost")),
    ({"delivery": Delivery.AT_MOST_ONCE, "charged": False}, Bury("lost")),
    ({"cancel_requested": True}, Cancel()),
    ({"cancel_requested": True, "crash_count": 2}, Cancel()),
]


class TestAfterCrash:
    @pytest.mark.parametrize(("changes", "outcome"), CRASHES)
    def test_charges_only_for_its_own(self, changes, outcome):
        facts = {
            "charged": True,
            "attempts": 1,
            "crash_count": 0,
            "elapsed": timedelta(0),
            "delivery": Delivery.AT_LEAST_ONCE,
            "cancel_requested": False,
            **changes,
        }
        assert after_crash(POLICY, **facts, rng=random.Random(1)) == outcome

    @pytest.mark.parametrize(
        ("claimed_with", "stopping", "charged"), [(0, False, True), (1, False, False), (0, True, False)]
    )
    def test_is_its_own_where_it_was_alone(self, claimed_with, stopping, charged):
        assert is_charged(claimed_with=claimed_with, stopping=stopping) == charged


class TestClaimDeadline:
    @pytest.mark.parametrize(
        ("unclaimed", "deadlines"), [(0, 1), (1, 1), (2, 1), (3, 2), (4, 4), (8, 64), (9, 64), (40, 64)]
    )
    @pytest.mark.parametrize("attempt_count", [0, 2])
    def test_doubles_from_the_second_unclaimed_dispatch_on(self, attempt_count, unclaimed, deadlines):
        found = claim_deadline(FIRST, fence=attempt_count + unclaimed, attempt_count=attempt_count)
        assert found == FIRST * deadlines


NOW = datetime(2030, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Behind:
    """A job with parked triggers."""

    overlap_policy: str
    max_concurrent: int
    in_flight: int
    retrying: int
    in_sight: int


@dataclass(frozen=True)
class Due:
    """A scheduled firing that fell due a moment ago."""

    scheduled_for: datetime = NOW - timedelta(seconds=1)
    due_at: datetime = NOW - timedelta(seconds=1)
    job_type: str = "noop"
    state: str = "pending"
    origin: str = "schedule"
    attempt_count: int = 0
    replay_count: int = 0


FREE = JobFacts(
    job_type="noop",
    active=True,
    ended=False,
    overlap_policy="queue",
    misfire_policy="fire_once",
    misfire_grace=timedelta(minutes=1),
    catchup_window=timedelta(hours=1),
    max_concurrent=2,
    now=NOW,
)
#: The job's facts, the decision, and the decision if there were no key.
KEYS = [
    ({"keyed": True, "key_in_flight": 1}, Decision.DISPATCH, Decision.DISPATCH),
    ({"keyed": True, "key_in_flight": 2}, Decision.WAIT, Decision.DISPATCH),
    ({"keyed": False, "key_in_flight": 2}, Decision.DISPATCH, Decision.DISPATCH),
    ({"keyed": True, "key_in_flight": 2, "unfinished": 1, "in_flight": 1}, Decision.WAIT, Decision.WAIT),
    ({"keyed": True, "key_in_flight": 2, "overlap_policy": "skip", "unfinished": 1}, *[Decision.OVERLAP] * 2),
    ({"keyed": True, "key_in_flight": 2, "active": False}, Decision.HOLD, Decision.HOLD),
]


class TestDecide:
    @pytest.mark.parametrize(("changes", "decision", "unkeyed"), KEYS)
    def test_waits_for_its_key_where_nothing_else_keeps_it(self, changes, decision, unkeyed):
        facts = replace(FREE, **changes)
        assert (decide(Due(), facts), decide_unkeyed(Due(), facts)) == (decision, unkeyed)
        assert key_is_full(facts) == (changes["keyed"] and changes["key_in_flight"] == 2)
        assert facts == replace(FREE, **changes)  # it is read only


#: Policy, older than the window, passed over, end.
MISSED = [
    ("skip", False, False, Decision.MISFIRE),
    ("skip", True, True, Decision.MISFIRE),
    ("fire_all", True, True, None),
    ("fire_once", False, False, None),
    ("fire_once", False, True, Decision.COALESCED),
    ("fire_once", True, True, Decision.MISFIRE),
    ("backfill", False, False, None),
    ("backfill", False, True, Decision.MISFIRE),
    ("backfill", True, False, Decision.MISFIRE),
]


class TestMissed:
    @pytest.mark.parametrize(("policy", "too_old", "passed_over", "end"), MISSED)
    def test_ends_by_the_table(self, policy, too_old, passed_over, end):
        assert end_of_missed(policy, too_old=too_old, passed_over=passed_over) == end

    @pytest.mark.parametrize(("policy", "most"), [("skip", 0), ("fire_once", 1), ("backfill", 7)])
    def test_runs_as_often_as_the_policy_says(self, policy, most):
        assert most_to_run(policy, max_catchup=7) == most


#: For a job with max_concurrent 3: policy, in flight, retrying, in sight, room.
PARKED = [
    ("allow", 0, 0, 0, 3),
    ("allow", 1, 5, 1, 1),
    ("allow", 2, 0, 2, 0),
    ("queue", 0, 0, 0, 1),
    ("queue", 1, 0, 0, 0),
    ("queue", 0, 1, 0, 0),
    ("queue", 0, 0, 1, 0),
    ("skip", 0, 0, 0, 1),
]


class TestRoomToShow:
    @pytest.mark.parametrize(("policy", "in_flight", "retrying", "in_sight", "room"), PARKED)
    def test_is_what_the_policy_leaves(self, policy, in_flight, retrying, in_sight, room):
        assert room_to_show(Behind(policy, 3, in_flight, retrying, in_sight)) == room


class TestPriority:
    def test_sorts_the_most_urgent_first(self):
        assert [priority.label for priority in sorted(Priority)] == ["critical", "high", "medium", "low"]

    def test_is_read_from_its_label(self):
        assert all(Priority.from_label(priority.label) is priority for priority in Priority)

    @pytest.mark.parametrize("label", ["urgent", "HIGH", "", "1", "x" * 100_000, None])
    def test_refuses_other_words_naming_the_right_ones(self, label):
        with pytest.raises(InvalidInput, match="critical, high, medium, low") as refusal:
            Priority.from_label(label)
        assert len(str(refusal.value)) < 200
