"""The circuit breaker's transitions, as a table."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from jobs.core.levers.breaker import (
    PROBE_PATIENCE,
    Admits,
    Breaker,
    BreakerState,
    Policy,
    Tally,
    admits,
    after,
    probing,
    reached,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
POLICY = Policy(failures=5, ratio=0.5, window=60 * SECOND, wait=30 * SECOND)
PROBE, OTHER = UUID(int=1), UUID(int=2)
CLOSED, OPEN, HALF_OPEN = BreakerState


def tally(failures: int = 0, successes: int = 0, **probes: bool) -> Tally:
    found = Tally(failures=failures, successes=successes)
    for name, verdict in probes.items():
        found.add({"probe": PROBE, "other": OTHER}[name], verdict)
    return found


def counting(failures: int, successes: int = 0, *, left: float = 30) -> Breaker:
    return Breaker(failures=failures, successes=successes, window_ends_at=NOW + left * SECOND)


def opened(openings: int, wait: float) -> Breaker:
    return Breaker(state=OPEN, openings=openings, probe_at=NOW + wait * SECOND)


OPENED = opened(1, 30)
HALF = Breaker(state=HALF_OPEN, openings=2, probe_at=NOW + SECOND, probe_id=PROBE)
#: The breaker before, the calls' tally, and the breaker after.
TRANSITIONS = [
    # A first failure begins a window.
    (Breaker(), tally(1), counting(1, left=60)),
    (Breaker(), tally(4, 3), counting(4, 3, left=60)),
    (Breaker(), tally(5), OPENED),
    (counting(4), tally(1), OPENED),
    (counting(4), tally(0, 1), counting(4, 1)),
    # Enough failures, but too small a share.
    (counting(4, 6), tally(1), counting(5, 6)),
    (counting(4, 4), tally(1), OPENED),
    (counting(5, 6), tally(1), OPENED),
    # A window that is over counts no more.
    (counting(4, left=0), tally(1), counting(1, left=60)),
    (counting(4, left=-5), tally(4), counting(4, left=60)),
    # Calls that were under way when it opened say nothing new.
    (OPENED, tally(50), OPENED),
    (OPENED, tally(0, 50), OPENED),
    (HALF, tally(50, 50), HALF),
    (HALF, tally(other=True), HALF),
    # The probe decides.
    (HALF, tally(probe=True), Breaker()),
    (HALF, tally(9, probe=True), Breaker()),
    (HALF, tally(0, 9, probe=False), opened(3, 120)),
]


@pytest.mark.parametrize(("before", "shown", "later"), TRANSITIONS)
def test_calls_move_it(before: Breaker, shown: Tally, later: Breaker) -> None:
    assert after(before, shown, now=NOW, policy=POLICY) == later


@pytest.mark.parametrize(
    ("openings", "seconds"), [(1, 30), (2, 60), (3, 120), (4, 240), (5, 480), (6, 480), (400, 480)]
)
def test_each_opening_in_a_row_lasts_twice_as_long_up_to_a_bound(openings: int, seconds: int) -> None:
    assert POLICY.wait_of(openings) == seconds * SECOND


def half(until: timedelta) -> Breaker:
    return Breaker(state=HALF_OPEN, openings=1, probe_at=NOW + until, probe_id=PROBE)


@pytest.mark.parametrize(
    ("breaker", "in_flight", "admitted"),
    [
        (Breaker(), False, Admits.ALL),
        (counting(4), False, Admits.ALL),
        (opened(1, 1), False, Admits.NONE),
        (opened(1, 0), False, Admits.PROBE),
        (opened(1, -9), False, Admits.PROBE),
        (half(60 * SECOND), True, Admits.NONE),
        # The probe's worker died, or the probe was cancelled: the place is free at once.
        (half(60 * SECOND), False, Admits.PROBE),
        # The probe takes too long.
        (half(-SECOND), True, Admits.PROBE),
        (Breaker(state=OPEN), False, Admits.PROBE),
    ],
)
def test_it_admits(breaker: Breaker, in_flight: bool, admitted: Admits) -> None:
    assert admits(breaker, now=NOW, probe_in_flight=in_flight) is admitted


def test_a_probe_has_its_time() -> None:
    trying = probing(OPENED, PROBE, now=NOW)
    assert (trying.state, trying.probe_id, trying.openings) == (HALF_OPEN, PROBE, 1)
    assert trying.probe_at == NOW + PROBE_PATIENCE
    assert admits(trying, now=NOW, probe_in_flight=True) is Admits.NONE


@pytest.mark.parametrize(
    ("attempt_state", "error_code", "http_status", "verdict"),
    [
        ("succeeded", "", 200, True),
        ("succeeded", "", None, True),
        ("failed", "http_404", 404, True),
        ("failed", "http_429", 429, True),
        ("failed", "http_500", 500, False),
        ("failed", "http_503", 503, False),
        ("failed", "connect", None, False),
        ("failed", "disconnected", None, False),
        ("failed", "dns", None, False),
        ("failed", "tls", None, False),
        ("failed", "timeout", None, False),
        ("timed_out", "timeout", None, False),
        # Carillon's failure, not the target's.
        ("failed", "bad_url", None, None),
        ("failed", "type_switched_off", None, None),
        ("failed", "handler_error", None, None),
        ("cancelled", "cancelled", None, None),
        ("lost", "lease_lost", None, None),
    ],
)
def test_an_attempt_shows_whether_its_target_works(
    attempt_state: str, error_code: str, http_status: int | None, verdict: bool | None
) -> None:
    assert reached(attempt_state=attempt_state, error_code=error_code, http_status=http_status) is verdict
