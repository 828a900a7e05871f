"""Retry policies: what JSON may say, and how long each failure waits."""

import random
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.core.backoff import Backoff, Jitter, RetryPolicy, delay_for
from jobs.core.errors import InvalidInput

REFUSED = [
    ({"max_attempts": 0}, {"max_attempts"}),
    ({"max_attempts": 101}, {"max_attempts"}),
    ({"max_attempts": 10**400}, {"max_attempts"}),
    ({"max_attempts": 2.5}, {"max_attempts"}),
    ({"max_attempts": True}, {"max_attempts"}),
    ({"max_attempts": "5"}, {"max_attempts"}),
    ({"max_attempts": None}, {"max_attempts"}),
    ({"attempts": 3}, {"attempts"}),
    ({"backoff": "linear"}, {"backoff"}),
    ({"backoff": ["fixed"]}, {"backoff"}),
    ({"jitter": "some"}, {"jitter"}),
    ({"initial_delay_seconds": 0}, {"initial_delay_seconds"}),
    ({"initial_delay_seconds": float("nan")}, {"initial_delay_seconds"}),
    ({"initial_delay_seconds": float("inf")}, {"initial_delay_seconds"}),
    ({"factor": 0.5}, {"factor"}),
    ({"factor": 101}, {"factor"}),
    ({"max_delay_seconds": 8 * 86_400}, {"max_delay_seconds"}),
    ({"initial_delay_seconds": 60, "max_delay_seconds": 30}, {"max_delay_seconds"}),
    ({"delays_seconds": []}, {"delays_seconds"}),
    ({"delays_seconds": 30}, {"delays_seconds"}),
    ({"delays_seconds": [30] * 101}, {"delays_seconds"}),
    ({"delays_seconds": [30, -1, "x"]}, {"delays_seconds[1]", "delays_seconds[2]"}),
    ({"max_elapsed_seconds": 0}, {"max_elapsed_seconds"}),
    ({"backoff": "delays", "factor": 2}, {"factor"}),
    ({"backoff": "fixed", "factor": 2}, {"factor"}),
    ({"backoff": "exponential", "delays_seconds": [30]}, {"delays_seconds"}),
    ({"initial_delay_seconds": 5, "delays_seconds": [30]}, {"delays_seconds"}),
    ({"max_attempts": -1, "jitter": 1, "surprise": 1}, {"max_attempts", "jitter", "surprise"}),
    ([], {""}),
]


class TestRetryPolicy:
    @pytest.mark.parametrize(("document", "fields"), REFUSED)
    def test_refuses_naming_every_wrong_field(self, document, fields):
        with pytest.raises(InvalidInput) as refusal:
            RetryPolicy.from_json(document)
        assert set(refusal.value.errors) == fields

    def test_is_the_default_when_nothing_is_said(self):
        assert RetryPolicy.from_json({}) == RetryPolicy()
        assert RetryPolicy().to_json() == {
            "max_attempts": 5,
            "backoff": "delays",
            "delays_seconds": [30, 120, 600, 1800, 7200],
            "jitter": "proportional",
        }

    @pytest.mark.parametrize(
        ("document", "backoff"),
        [
            ({"max_attempts": 4, "backoff": "exponential", "initial_delay_seconds": 30}, Backoff.EXPONENTIAL),
            ({"initial_delay_seconds": 0.5}, Backoff.EXPONENTIAL),
            ({"factor": 3, "max_delay_seconds": 60}, Backoff.EXPONENTIAL),
            ({"backoff": "fixed", "initial_delay_seconds": 86_400, "jitter": "none"}, Backoff.FIXED),
            ({"delays_seconds": [1, 2.5], "max_elapsed_seconds": 3600, "jitter": "full"}, Backoff.DELAYS),
        ],
    )
    def test_survives_the_way_to_json_and_back(self, document, backoff):
        policy = RetryPolicy.from_json(document)
        assert policy.backoff is backoff
        assert RetryPolicy.from_json(policy.to_json()) == policy
        assert document.items() <= {**policy.to_json()}.items()


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
            ({"initial_delay_seconds": 10, "max_delay_seconds": 60}, [10, 20, 40, 60, 60]),
            ({"initial_delay_seconds": 1, "factor": 1}, [1, 1, 1]),
        ],
    )
    def test_grows_as_the_policy_says(self, document, expected):
        policy = RetryPolicy.from_json({**document, "jitter": "none"})
        assert [seconds(policy, failures) for failures in range(1, len(expected) + 1)] == expected

    def test_stays_bounded_after_a_hundred_failures(self):
        policy = RetryPolicy.from_json({"factor": 100, "jitter": "none"})
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
