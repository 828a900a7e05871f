"""Circuit breaker: when one tenant's calls of one target stop, which call probes it, and when they go on.

    closed ── enough calls of a window failed ──▶ open ── its time is over, one call probes ──▶ half_open
      ▲                                            ▲                                              │
      │                                            └────────── the probe failed: a longer time ◀──┤
      └───────────────────────────────────────────────────────────────── the probe got through ◀──┘

A probe may end without an answer of the target, as when its worker died. It then leaves the place to the next trigger.
A probe that is under way for ``PROBE_PATIENCE`` does the same. So no breaker stays open for good while a trigger wants
to call.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

#: Each further opening in a row lasts twice as long, up to this many times.
MAX_DOUBLINGS = 4
PROBE_PATIENCE = timedelta(minutes=15)
#: Codes of attempts that did not reach the target, or got no whole answer from it.
UNREACHED = frozenset({"connect", "disconnected", "timeout", "dns", "dns_timeout", "tls", "bad_response"})


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Admits(StrEnum):
    """The triggers that a breaker lets through."""

    ALL = "all"
    #: One trigger, to see whether the target is back.
    PROBE = "probe"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Policy:
    """Open once ``failures`` calls within ``window`` failed, and ``ratio`` of all. ``wait``: before the first probe."""

    failures: int
    ratio: float
    window: timedelta
    wait: timedelta

    def wait_of(self, openings: int) -> timedelta:
        """How long opening number ``openings`` in a row lasts."""
        doublings: int = min(max(openings, 1) - 1, MAX_DOUBLINGS)
        return self.wait * float(2**doublings)


@dataclass(frozen=True, slots=True)
class Breaker:
    """``probe_id``: the trigger that probes. ``openings``: how many in a row.

    ``window_ends_at``: the end of the window in which calls are counted while closed. ``probe_at``: while open, when a
    trigger may probe; while half-open, when another one may take its place.
    """

    state: BreakerState = BreakerState.CLOSED
    failures: int = 0
    successes: int = 0
    window_ends_at: datetime | None = None
    openings: int = 0
    probe_at: datetime | None = None
    probe_id: UUID | None = None


@dataclass(slots=True)
class Tally:
    """The results of one tenant's calls of one target. ``verdicts``: by trigger, whether its target answered."""

    verdicts: dict[UUID, bool] = field(default_factory=dict)
    failures: int = 0
    successes: int = 0

    def add(self, trigger_id: UUID, reached: bool) -> None:
        self.verdicts[trigger_id] = reached
        if reached:
            self.successes += 1
        else:
            self.failures += 1


def reached(*, attempt_state: str, error_code: str, http_status: int | None) -> bool | None:
    """Whether an attempt shows that its target works; None: it says nothing of that.

    A refusal (4xx) is an answer. 5xx, time-outs and broken connections are failures. An error that the handler makes by
    itself is neither.
    """
    if attempt_state == "succeeded":
        return True
    if attempt_state == "timed_out" or error_code in UNREACHED:
        return False
    if attempt_state == "failed" and http_status is not None:
        return http_status < 500
    return None


def after(breaker: Breaker, tally: Tally, *, now: datetime, policy: Policy) -> Breaker:
    """The breaker once these calls have ended. Calls that were under way when it opened change nothing."""
    if breaker.state is BreakerState.CLOSED:
        return _counted(breaker, tally, now=now, policy=policy)
    if breaker.state is BreakerState.OPEN or breaker.probe_id is None:
        return breaker
    verdict = tally.verdicts.get(breaker.probe_id)
    if verdict is None:
        return breaker
    return Breaker() if verdict else _opened(breaker.openings + 1, now=now, policy=policy)


def _counted(breaker: Breaker, tally: Tally, *, now: datetime, policy: Policy) -> Breaker:
    over = breaker.window_ends_at is None or breaker.window_ends_at <= now
    failures = tally.failures + (0 if over else breaker.failures)
    successes = tally.successes + (0 if over else breaker.successes)
    if failures >= policy.failures and failures >= policy.ratio * (failures + successes):
        return _opened(1, now=now, policy=policy)
    ends_at = now + policy.window if over else breaker.window_ends_at
    return Breaker(failures=failures, successes=successes, window_ends_at=ends_at)


def _opened(openings: int, *, now: datetime, policy: Policy) -> Breaker:
    return Breaker(state=BreakerState.OPEN, openings=openings, probe_at=now + policy.wait_of(openings))


def admits(breaker: Breaker, *, now: datetime, probe_in_flight: bool) -> Admits:
    """The triggers that it lets through now. ``probe_in_flight``: the trigger that probes is queued or running."""
    if breaker.state is BreakerState.CLOSED:
        return Admits.ALL
    due = breaker.probe_at is None or breaker.probe_at <= now
    if breaker.state is BreakerState.HALF_OPEN:
        due = due or not probe_in_flight
    return Admits.PROBE if due else Admits.NONE


def probing(breaker: Breaker, trigger_id: UUID, *, now: datetime) -> Breaker:
    """The breaker while this trigger probes."""
    return replace(breaker, state=BreakerState.HALF_OPEN, probe_id=trigger_id, probe_at=now + PROBE_PATIENCE)


#: A tenant and a target.
Pair = tuple[int, str]
