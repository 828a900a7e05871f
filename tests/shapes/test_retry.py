"""Retry policies: the JSON that is accepted, and the values that are stored and handed to the engine."""

import pytest

from jobs.core.backoff import Backoff, RetryPolicy
from jobs.core.errors import InvalidInput
from jobs.shapes.retry import Retry

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


class TestRetry:
    @pytest.mark.parametrize(("document", "fields"), REFUSED)
    def test_refuses_naming_every_wrong_field(self, document, fields):
        with pytest.raises(InvalidInput) as refusal:
            Retry.read(document)
        assert set(refusal.value.errors) == fields

    def test_says_of_a_field_without_effect_what_would_give_it_one(self):
        with pytest.raises(InvalidInput) as refusal:
            Retry.read({"backoff": "delays", "initial_delay_seconds": 5})
        right = 'leave it out or set backoff to "fixed" or "exponential".'
        assert refusal.value.errors == {
            "initial_delay_seconds": [f'Does nothing with backoff "delays"; {right}']
        }

    def test_is_the_engine_s_default_when_nothing_is_said(self):
        stored = Retry.read({}).stored()
        assert stored == {
            "max_attempts": 5,
            "backoff": "delays",
            "delays_seconds": [30, 120, 600, 1800, 7200],
            "jitter": "proportional",
        }
        assert RetryPolicy.from_json(stored) == RetryPolicy()

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
    def test_survives_the_way_to_what_is_stored_and_back(self, document, backoff):
        stored = Retry.read(document).stored()
        assert document.items() <= stored.items()
        assert Retry.read(stored).stored() == stored
        assert RetryPolicy.from_json(stored).backoff is backoff

    def test_lets_a_delay_beyond_the_default_ceiling_stand(self):
        assert Retry.read({"initial_delay_seconds": 86_400}).stored()["max_delay_seconds"] == 86_400
