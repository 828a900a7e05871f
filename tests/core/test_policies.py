"""What becomes of a trigger after a failed attempt, and the words of the policies."""

import random
from datetime import timedelta

import pytest

from jobs.core.backoff import Jitter, RetryPolicy
from jobs.core.errors import InvalidInput
from jobs.core.policies import Bury, Delivery, Priority, Retry, after_failure
from jobs.core.states import DEAD_REASONS

POLICY = RetryPolicy(max_attempts=3, jitter=Jitter.NONE)
FIRST, SECOND = timedelta(seconds=30), timedelta(minutes=2)

#: What differs from a first ordinary failure of an at-least-once trigger, and the outcome.
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
