"""What operators see and change of the whole installation: whether dispatch runs, the levers on each job type, the
rules for targets, and tenants with their API keys. The quotas are those of ``tenants.quotas``."""

import re
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, StrictBool, model_validator

from jobs.core.errors import InvalidInput
from jobs.core.levers.targets import MAX_IN_FLIGHT, MAX_RATE, MIN_RATE
from jobs.shapes.base import Shape, Shown, composed
from jobs.shapes.terms import Between, Instant, Line, Text
from tenants.actions import TENANT_SCOPES
from tenants.models import QUEUES, SLUG, TYPE_NAME, Tenant
from tenants.quotas import QUOTAS, Quota

MAX_REASON_LENGTH = 500
Reason = Annotated[str, Line(MAX_REASON_LENGTH)]
Status = Literal[tuple(Tenant.Status.values)]  # type: ignore[valid-type]
Scope = Literal[TENANT_SCOPES]  # type: ignore[valid-type]
_MAX_LISTED = 100


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


def _pattern(regex: Any) -> str:
    """Of a validator of a model, as JSON Schema has it."""
    return str(getattr(regex, "pattern", regex)).replace(r"\Z", "$")


def _of_quota(quota: Quota) -> Any:
    number = Annotated[int, Between(quota.low, quota.high)]
    kind = number | None if quota.can_be_lifted else number
    return kind, Field(default=None, description=quota.help_text("null"))


def _checked_slug(slug: str) -> str:
    # The whole of it: the model's own check lets a line break at the end pass.
    if not re.fullmatch(SLUG.regex, slug):
        raise InvalidInput({"": str(SLUG.message)})
    return slug


class _Settings(Shape):
    name: Annotated[str, Line(200)] = Field(default=None)  # type: ignore[assignment]
    """For people; the slug by default."""
    queues: Annotated[
        list[Annotated[str, Text(200, pattern=_pattern(QUEUES.regex))]], Field(max_length=_MAX_LISTED)
    ] = Field(default=None)  # type: ignore[assignment, arg-type]
    """Queues that `message` and `celery_task` may write to beside its own: names, or patterns with `*` and `?`."""
    disabled_types: Annotated[
        list[Annotated[str, Text(63, pattern=_pattern(TYPE_NAME.regex))]], Field(max_length=_MAX_LISTED)
    ] = Field(default=None)  # type: ignore[assignment, arg-type]
    """Job types of the installation that it may not use."""
    require_if_match: StrictBool = Field(default=None)  # type: ignore[assignment]
    """PUT, PATCH and DELETE of its jobs must name the version they mean."""
    all_events: StrictBool = Field(default=None)  # type: ignore[assignment]
    """Its event feed also tells of each success and each failed attempt that is retried."""
    circuit_breaker: StrictBool = Field(default=None)  # type: ignore[assignment]
    """Its calls of a host stop once they keep failing, until one call shows that it is back."""

    @property
    def given(self) -> dict[str, Any]:
        """What was sent, by column."""
        return {
            name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set
        }


_Quotas = composed("_Quotas", _Settings, {quota.name: _of_quota(quota) for quota in QUOTAS})


class NewTenant(_Quotas):  # type: ignore[valid-type, misc]
    """What is left out has its default."""

    hints = {"slug": "Is required: 1 to 63 lower-case letters, digits and inner hyphens."}
    slug: Annotated[str, Text(63, pattern=_pattern(SLUG.regex)), AfterValidator(_checked_slug)]
    """Services and receivers know it by this: it never changes."""


class TenantChanges(_Quotas):  # type: ignore[valid-type, misc]
    """What is left out stays as it is. A quota below what is in use takes nothing back, and lets nothing more in."""

    hints = {"slug": "Cannot be changed: services and receivers know the tenant by it."}
    status: Status = Field(default=None)  # type: ignore[valid-type]
    """suspended: its keys are refused and nothing starts; what falls due waits. frozen: its keys only read; what falls
    due is skipped."""

    @model_validator(mode="after")
    def _check_changes(self) -> "TenantChanges":
        if not self.model_fields_set:
            raise InvalidInput({"": "Must have something to change."})
        return self


class _Shown(Shown):
    slug: str
    name: str
    status: Status  # type: ignore[valid-type]


class InstallationTenant(
    composed(  # type: ignore[misc]
        "_ShownQuotas",
        _Shown,
        {
            quota.name: (
                int | None if quota.can_be_lifted else int,
                Field(description=quota.help_text("null")),
            )
            for quota in QUOTAS
        },
    )
):
    """A tenant as an operator sees it."""

    queues: list[str]
    disabled_types: list[str]
    require_if_match: bool
    all_events: bool
    circuit_breaker: bool
    created_at: datetime
    updated_at: datetime


class CreatedTenant(InstallationTenant):
    signing_secret: str | None
    """Its webhooks are signed with it. Shown this once."""


class NewKey(Shape):
    hints = {"scopes": f"Is required: some of {', '.join(TENANT_SCOPES)}."}
    name: Annotated[str, Line(100)]
    """For people: who uses it, and where."""
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=len(TENANT_SCOPES))]
    expires_at: Instant | None = None
    """When it ends; null: never."""
    rate_per_second: Annotated[int, Between(1, 1_000_000)] | None = None
    """API calls a second; null: as the settings say."""


class KeyShape(Shown):
    prefix: str
    """The key begins with ck_ and this."""
    name: str
    scopes: list[Scope]
    rate_per_second: int | None
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    """Noted once a minute."""
    created_at: datetime


class CreatedKey(KeyShape):
    key: str | None
    """Its text. Shown this once."""
