"""Retry policies: how long each failure waits."""

import random
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.core.backoff import Backoff, Jitter, RetryPolicy, delay_for
from jobs.core.errors import InvalidInput


class TestRetryPolicy:
    def test_reads_what_was_stored_and_has_defaults_for_the_rest(self):
        assert RetryPolicy.from_json({}) == RetryPolicy()
        stored = {
            "backoff": "fixed",
            "initial_delay_seconds": 0.5,
            "max_elapsed_seconds": 60,
            "jitter": "none",
        }
        assert RetryPolicy.from_json(stored) == RetryPolicy(
            backoff=Backoff.FIXED,
            initial_delay=timedelta(seconds=0.5),
            max_elapsed=timedelta(minutes=1),
            jitter=Jitter.NONE,
        )

    @pytest.mark.parametrize(
        "stored",
        [
            {"max_attempts": "many"},
            {"backoff": "linear"},
            {"delays_seconds": 5},
            {"factor": "x"},
            {"initial_delay_seconds": 1e300},
            None,
        ],
    )
    def test_refuses_what_no_shape_has_stored(self, stored):
        with pytest.raises(InvalidInput):
            RetryPolicy.from_json(stored)


def seconds(policy, failures, retry_after=None, rng=None):
    asked = None if retry_after is None else timedelta(seconds=retry_after)
    return delay_for(
        policy, failures=failures, rng=rng or random.Random(1), retry_after=asked
    ).total_seconds()


class TestDelayFor:
    @pytest.mark.parametrize(
        ("document", "expected"),
        [
            ({}, [30, 120, 600, 1800, 7200, 7200]),
            ({"delays_seconds": [5]}, [5, 5, 5]),
            ({"backoff": "fixed", "initial_delay_seconds": 7}, [7, 7, 7]),
            (
                {"backoff": "exponential", "initial_delay_seconds": 10, "max_delay_seconds": 60},
                [10, 20, 40, 60, 60],
            ),
            ({"backoff": "exponential", "initial_delay_seconds": 1, "factor": 1}, [1, 1, 1]),
        ],
    )
    def test_grows_as_the_policy_says(self, document, expected):
        policy = RetryPolicy.from_json({**document, "jitter": "none"})
        assert [seconds(policy, failures) for failures in range(1, len(expected) + 1)] == expected

    def test_stays_bounded_after_a_hundred_failures(self):
        policy = RetryPolicy.from_json({"backoff": "exponential", "factor": 100, "jitter": "none"})
        assert seconds(policy, 100) == 7200

    @pytest.mark.parametrize(
        ("retry_after", "expected"),
        [(0, 30), (-5, 30), (20, 30), (90, 90), (86_400, 86_400), (10**8, 86_400)],
    )
    def test_honours_retry_after_within_a_day(self, retry_after, expected):
        assert seconds(RetryPolicy(jitter=Jitter.NONE), 1, retry_after) == expected

    @given(st.randoms(use_true_random=False), st.integers(1, 100), st.none() | st.integers(-10, 10**6))
    def test_adds_at_most_a_fifth_and_at_most_300_seconds(self, rng, failures, retry_after):
        bare = seconds(RetryPolicy(jitter=Jitter.NONE), failures, retry_after)
        delay = seconds(RetryPolicy(), failures, retry_after, rng)
        assert bare <= delay <= bare + min(bare / 5, 300) + 1e-6

    @given(st.randoms(use_true_random=False), st.integers(1, 100), st.integers(0, 10**6))
    def test_with_full_jitter_lies_below_the_delay_but_never_before_retry_after(
        self, rng, failures, retry_after
    ):
        bare = seconds(RetryPolicy(jitter=Jitter.NONE), failures, retry_after)
        delay = seconds(RetryPolicy(jitter=Jitter.FULL), failures, retry_after, rng)
        assert min(retry_after, 86_400) <= delay <= bare

    def test_differs_between_triggers(self):
        rng = random.Random(7)
        assert len({seconds(RetryPolicy(), 3, rng=rng) for _ in range(20)}) == 20
