"""The figures that the decision is based on: of one moment, all by the database's clock. Times are in seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field

#: A backlog of this many times a tenant's cap is a flood.
FLOOD_TIMES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderFigures:
    """The leader lease. ``seconds_left``: below 0 it has run out. ``lease_seconds``: its length after a renewal."""

    holder: str
    seconds_left: float
    lease_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """A stop or a pause by an operator."""

    by: str
    reason: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeFigures:
    """A job type. ``queued_seconds``: how long its oldest queued trigger has been queued.

    ``due_seconds``: how long the oldest trigger has been due that is not yet dispatched. ``window``: how many triggers
    may be queued. ``cap``: how many may be in flight. None: unknown, or no cap. ``expired``: running triggers whose
    lease is over. ``late_seconds``: how long the oldest trigger has been due that nothing known keeps from dispatch.
    ``turns``: other triggers of that trigger's tenant are dispatched meanwhile.
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
    """A worker that announced itself lately. ``takes``: names of the job types it serves.

    ``slots``: how many of its slots ordinary work may take. ``running``: how many triggers it has claimed.
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
    """A tenant with work. ``due`` is counted up to a bound.

    ``missed``, ``overlapped``, ``lost`` and ``dead`` are of the last hour. ``is_rated``: it has a rate limit of its
    own. ``overflows``: some of its slots were free when they were counted, yet its backlog waits for its cap.
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
        """Whether more of its triggers are due than its cap lets start in many turns."""
        return self.due >= FLOOD_TIMES * max(1, self.cap)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenBreaker:
    """A target at which a tenant's calls failed, so that its circuit breaker stopped them."""

    target: str
    tenant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockFigures:
    """A process whose clock is certainly off by at least ``off_seconds``."""

    name: str
    off_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One moment of the installation. A figure that is unknown, or that must not be seen, is None or empty.

    ``election``: whether beats elect a leader. ``broker``: whether the broker answers. ``brokerless``: whether messages
    go through Postgres while it does not. ``rates``: whether Redis counts rates. ``missed`` and ``lost``: of the last
    hour, by job type. ``bypassed``: beats that lately rated firings alone. ``partitions``: how far ahead each table has
    partitions. ``open_targets``: the first few of ``open_breakers``. ``connections``: used, and allowed.
    ``lag_warn_seconds``: a trigger is late from this lag on.
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
