"""Fixtures of the worker's tests: how a handler is registered, and how its trigger ended."""

from collections.abc import Callable

from jobs.models import Trigger
from tests.factories import attempts, row, state_of

Register = Callable[..., str]


def ended(trigger: Trigger) -> tuple[str, str, str]:
    """Trigger's state, its last attempt's state and error code."""
    attempt = attempts(trigger)[-1]
    return state_of(trigger)[0], attempt.state, attempt.error_code


def charged(trigger: Trigger) -> tuple[int, int, bool]:
    """The trigger's crashes, the attempts that its budget does not count, and whether it travels alone from now on."""
    stored = row(trigger)
    return stored["crash_count"], stored["budget_start"], stored["suspect"]
