"""What a judgement is made of: figures of one moment, all by the database's clock. Times are in seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field

#: A backlog of so many times a tenant's cap is a flood.
FLOOD_TIMES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderFigures:
    """The lease. ``seconds_left``: below 0 it ran out. ``lease_seconds``: how long it is, when it was just renewed."""

    holder: str
    seconds_left: float
    lease_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """What an operator stopped or paused."""

    by: str
    reason: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeFigures:
    """A job type. ``queued_seconds`` and ``due_seconds``: of the oldest that is queued, or due and not yet dispatched.

    ``window``: how many may be queued; ``cap``: how many in flight; None: unknown, or no cap. ``expired``: running
    triggers whose lease is over. ``late_seconds``: of the oldest due one that nothing known keeps from dispatch;
    ``turns``: others of its tenant are dispatched meanwhile.
    """

    name: str
    queued: int = 0
    queued_seconds: float = 0
    running: int = 0
    expired: int = 0
    due_seconds: float = 0
    late_seconds: float = 0
    turns: bool = False
    window: int | None = None
    cap: int | None = None
    paused: Stopped | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFigures:
    """A worker that was heard of lately. ``slots``: how many of its slots ordinary work may take; ``running``: triggers
    that it has claimed; ``takes``: names of the job types it serves.
    """

    name: str
    takes: frozenset[str]
    slots: int
    running: int = 0
    silent_seconds: float = 0

    @property
    def free(self) -> int:
        return max(0, self.slots - self.running)


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantFigures:
    """A tenant with work. ``due`` is counted up to a bound; ``missed``, ``overlapped``, ``lost`` and ``dead`` are of
    the last hour. ``is_rated``: it has a rate limit of its own. ``overflows``: a look found some of its slots free, yet
    its cap is what its backlog waits for.
    """

    id: int
    slug: str
    in_flight: int = 0
    cap: int = 0
    due: int = 0
    due_seconds: float = 0
    is_rated: bool = False
    overflows: bool = False
    is_active: bool = True
    missed: int = 0
    overlapped: int = 0
    lost: int = 0
    dead: int = 0

    @property
    def is_full(self) -> bool:
        return self.in_flight >= self.cap or self.overflows

    @property
    def floods(self) -> bool:
        """Whether more of it is due than its cap lets go in many turns."""
        return self.due >= FLOOD_TIMES * max(1, self.cap)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenBreaker:
    """A target that calls of a tenant fail at, so that they stopped."""

    target: str
    tenant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockFigures:
    """A process whose clock is off for sure by so much."""

    name: str
    off_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One moment of the installation. What is unknown, or not to be seen, is None or empty.

    ``open_targets``: of ``open_breakers`` the first few.
    ``election``: whether beats elect a leader. ``broker`` and ``rates``: whether the broker answers, and whether Redis
    counts rates; ``brokerless``: whether messages go through Postgres while it does not. ``missed`` and ``lost``: of
    the last hour by job type. ``bypassed``: beats that rated firings alone of late. ``partitions``: how far ahead each
    table has some. ``connections``: used, and allowed. ``lag_warn_seconds``: how late is late.
    """

    election: bool = True
    leader: LeaderFigures | None = None
    broker: bool = True
    brokerless: bool = False
    rates: bool = True
    stopped: Stopped | None = None
    types: Mapping[str, TypeFigures] = field(default_factory=dict)
    workers: tuple[WorkerFigures, ...] = ()
    tenants: tuple[TenantFigures, ...] = ()
    missed: Mapping[str, int] = field(default_factory=dict)
    lost: Mapping[str, int] = field(default_factory=dict)
    clocks: tuple[ClockFigures, ...] = ()
    bypassed: tuple[str, ...] = ()
    shared_names: tuple[str, ...] = ()
    partitions: Mapping[str, float] = field(default_factory=dict)
    open_breakers: int = 0
    open_targets: tuple[OpenBreaker, ...] = ()
    paused_targets: int = 0
    materialization_lag_seconds: float = 0
    feed_lag_seconds: float = 0
    past_retention: int = 0
    connections: tuple[int, int] = (0, 0)
    lag_warn_seconds: float = 10
