"""What operators see and change of the whole installation: whether dispatch runs, the levers on each job
type, and the rules for targets."""

from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StrictBool, model_validator

from jobs.core.errors import InvalidInput
from jobs.core.levers.targets import MAX_IN_FLIGHT, MAX_RATE, MIN_RATE
from jobs.shapes.base import Shape, Shown
from jobs.shapes.terms import Between, Line

MAX_REASON_LENGTH = 500
Reason = Annotated[str, Line(MAX_REASON_LENGTH)]


class InstallationChanges(Shape):
    hints = {"dispatch": "Is required: running or stopped."}
    dispatch: Literal["running", "stopped"]
    reason: Reason | None = None
    """Why it is stopped; tenants see it where they ask why a firing waits."""

    @model_validator(mode="after")
    def __check(self) -> Self:
        _check(
            self.reason, given="reason" in self.model_fields_set, lever="dispatch: stopped", pulled=self.stops
        )
        return self

    @property
    def stops(self) -> bool:
        return self.dispatch == "stopped"


class InstallationShape(Shown):
    dispatch: Literal["running", "stopped"]
    """stopped: nothing is dispatched for any tenant, and what is queued does not start."""
    stopped_at: datetime | None
    stopped_by: str
    """The operator, or the API key."""
    reason: str = Field(validation_alias="stop_reason")


class JobTypeChanges(Shape):
    """What is left out stays as it is."""

    paused: StrictBool = Field(default=None)  # type: ignore[assignment]
    """true: nothing more of the type starts, for any tenant."""
    reason: Reason | None = None
    """Why it is paused; tenants see it where they ask why a firing waits."""
    max_in_flight: Annotated[int, Between(1, 1_000_000)] | None = None
    """Queued or running at once, beside what its handler allows: the lower one counts. null lifts it."""

    @model_validator(mode="after")
    def _check_levers(self) -> Self:
        if self.model_fields_set <= {"reason"}:
            raise InvalidInput({"": "Must have paused, max_in_flight or both."})
        _check(
            self.reason,
            given="reason" in self.model_fields_set,
            lever="paused: true",
            pulled=bool(self.paused),
        )
        return self

    @property
    def caps(self) -> bool:
        """Whether it says something of the cap."""
        return "max_in_flight" in self.model_fields_set


class JobTypeLevers(Shown):
    name: str = Field(validation_alias="job_type")
    """As it is stored: a tenant's own type is followed by @ and the tenant's number."""
    paused: bool
    """Nothing of it starts, for any tenant."""
    paused_at: datetime | None
    paused_by: str
    """The operator, or the API key."""
    reason: str = Field(validation_alias="pause_reason")
    max_in_flight: int | None
    """Set by an operator: queued or running at once."""
    own_max_in_flight: int | None
    """What its handler or its declaration allows; the lower one counts."""
    queued: int
    running: int


class JobTypesLevers(Shown):
    results: list[JobTypeLevers]


def _no_slower(rate: float) -> float:
    if 0 < rate < MIN_RATE:
        raise InvalidInput({"": f"Must be 0, for no limit, or from {MIN_RATE:g} to {MAX_RATE:,.0f}."})
    return rate


Rate = Annotated[float, Between(0, MAX_RATE), AfterValidator(_no_slower)]
Cap = Annotated[int, Between(1, MAX_IN_FLIGHT)]


class TargetChanges(Shape):
    """PUT: what is left out is not set. PATCH: it stays as it is."""

    rate_per_second: Rate | None = None
    """Calls a second of each host that the pattern matches, over all tenants; 0: no limit. null: as a less specific
    rule says."""
    max_in_flight: Cap | None = None
    """Queued or running at once to each host, over all tenants. null: as a less specific rule says."""
    paused: StrictBool = Field(default=False)
    """true: nothing that calls such a host starts, for any tenant, and no attempt is spent."""
    reason: Reason | None = None
    """Why it is paused; tenants see it where they ask why a firing waits."""

    @model_validator(mode="after")
    def _check_levers(self) -> Self:
        if self.model_fields_set <= {"reason"}:
            raise InvalidInput({"": "Must have rate_per_second, max_in_flight or paused."})
        _check(self.reason, given="reason" in self.model_fields_set, lever="paused: true", pulled=self.paused)
        return self


class TargetShape(Shown):
    pattern: str
    """A host, where * stands for any characters; with a port, or at any port."""
    source: Literal["operator", "settings"]
    """settings: CARILLON_TARGET_RATES or CARILLON_TARGET_RATE_PER_SECOND. An operator's with the same pattern wins."""
    rate_per_second: float | None
    """null: as a less specific rule says; 0: no limit."""
    max_in_flight: int | None
    paused: bool
    paused_at: datetime | None
    paused_by: str
    """The operator, or the API key."""
    reason: str


class TargetsShape(Shown):
    results: list[TargetShape]


def _check(reason: str | None, *, given: bool, lever: str, pulled: bool) -> None:
    """A reason goes with the lever, and the lever with a reason."""
    if pulled and reason is None:
        raise InvalidInput({"reason": "Is required: a sentence that says why."})
    if given and not pulled:
        raise InvalidInput({"reason": f"Goes with {lever} only."})
