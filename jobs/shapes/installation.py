"""Objects of the whole installation that operators see and change: whether dispatch runs, the levers on each job type,
the rules for targets, and tenants with their API keys. The quotas are those of ``tenants.quotas``."""

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
    """Why dispatch is stopped; tenants see it where they ask why a firing waits."""

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
    """stopped: nothing is dispatched for any tenant, and queued triggers do not start."""
    stopped_at: datetime | None
    stopped_by: str
    """Name of the operator or of the API key."""
    reason: str = Field(validation_alias="stop_reason")


class JobTypeChanges(Shape):
    """A field that is left out stays as it is."""

    paused: StrictBool = Field(default=None)  # type: ignore[assignment]
    """true: no further trigger of the type starts, for any tenant."""
    reason: Reason | None = None
    """Why the type is paused; tenants see it where they ask why a firing waits."""
    max_in_flight: Annotated[int, Between(1, 1_000_000)] | None = None
    """Most triggers queued or running at once. The handler has a limit too: the lower one counts. null: no limit."""

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
    """Stored name of the type: a tenant's own type is followed by @ and the tenant's number."""
    paused: bool
    """true: no trigger of the type starts, for any tenant."""
    paused_at: datetime | None
    paused_by: str
    """Name of the operator or of the API key."""
    reason: str = Field(validation_alias="pause_reason")
    max_in_flight: int | None
    """Most triggers queued or running at once, as an operator has set it."""
    own_max_in_flight: int | None
    """Limit of the handler or of the type's declaration. The lower of this and max_in_flight counts."""
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
    """PUT: a field that is left out is not set. PATCH: it stays as it is."""

    rate_per_second: Rate | None = None
    """Most calls per second to each host that the pattern matches, over all tenants. 0: no limit. null: a less specific
    rule decides."""
    max_in_flight: Cap | None = None
    """Most triggers queued or running at once for each host, over all tenants. null: a less specific rule decides."""
    paused: StrictBool = Field(default=False)
    """true: no trigger that calls such a host starts, for any tenant, and no attempt is spent."""
    reason: Reason | None = None
    """Why the target is paused; tenants see it where they ask why a firing waits."""

    @model_validator(mode="after")
    def _check_levers(self) -> Self:
        if self.model_fields_set <= {"reason"}:
            raise InvalidInput({"": "Must have rate_per_second, max_in_flight or paused."})
        _check(self.reason, given="reason" in self.model_fields_set, lever="paused: true", pulled=self.paused)
        return self


class TargetShape(Shown):
    pattern: str
    """A host, where * stands for any characters. Without a port it matches every port."""
    source: Literal["operator", "settings"]
    """settings: CARILLON_TARGET_RATES or CARILLON_TARGET_RATE_PER_SECOND. An operator's rule for a pattern wins."""
    rate_per_second: float | None
    """Most calls per second to each host. null: a less specific rule decides; 0: no limit."""
    max_in_flight: int | None
    paused: bool
    paused_at: datetime | None
    paused_by: str
    """Name of the operator or of the API key."""
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
    """The pattern of a validator of a model, as JSON Schema has it."""
    return str(getattr(regex, "pattern", regex)).replace(r"\Z", "$")


def _of_quota(quota: Quota) -> Any:
    number = Annotated[int, Between(quota.low, quota.high)]
    kind = number | None if quota.can_be_lifted else number
    return kind, Field(default=None, description=quota.help_text("null"))


def _checked_slug(slug: str) -> str:
    # The whole of it is matched: the model's own check lets a line break at the end pass.
    if not re.fullmatch(SLUG.regex, slug):
        raise InvalidInput({"": str(SLUG.message)})
    return slug


class _Settings(Shape):
    name: Annotated[str, Line(200)] = Field(default=None)  # type: ignore[assignment]
    """Name for people; the slug by default."""
    queues: Annotated[
        list[Annotated[str, Text(200, pattern=_pattern(QUEUES.regex))]], Field(max_length=_MAX_LISTED)
    ] = Field(default=None)  # type: ignore[assignment, arg-type]
    """Further queues that `message` and `celery_task` may write to: names, or patterns with `*` and `?`."""
    disabled_types: Annotated[
        list[Annotated[str, Text(63, pattern=_pattern(TYPE_NAME.regex))]], Field(max_length=_MAX_LISTED)
    ] = Field(default=None)  # type: ignore[assignment, arg-type]
    """Job types of the installation that the tenant may not use."""
    require_if_match: StrictBool = Field(default=None)  # type: ignore[assignment]
    """PUT, PATCH and DELETE of its jobs must name the job's version in If-Match."""
    all_events: StrictBool = Field(default=None)  # type: ignore[assignment]
    """Its event feed also lists each success and each failed attempt that is retried."""
    circuit_breaker: StrictBool = Field(default=None)  # type: ignore[assignment]
    """Its calls to a host stop once they keep failing, until one test call succeeds."""

    @property
    def given(self) -> dict[str, Any]:
        """The fields that were sent, by column."""
        return {
            name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set
        }


_Quotas = composed("_Quotas", _Settings, {quota.name: _of_quota(quota) for quota in QUOTAS})


class NewTenant(_Quotas):  # type: ignore[valid-type, misc]
    """A field that is left out has its default."""

    hints = {"slug": "Is required: 1 to 63 lower-case letters, digits and inner hyphens."}
    slug: Annotated[str, Text(63, pattern=_pattern(SLUG.regex)), AfterValidator(_checked_slug)]
    """Name by which services and receivers know the tenant. It never changes."""


class TenantChanges(_Quotas):  # type: ignore[valid-type, misc]
    """A field left out stays as it is. A quota below the present use removes nothing, and lets nothing more in."""

    hints = {"slug": "Cannot be changed: services and receivers know the tenant by it."}
    status: Status = Field(default=None)  # type: ignore[valid-type]
    """suspended: its keys are refused and nothing starts; due firings wait. frozen: its keys can only read; due firings
    are skipped."""

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
    """Secret with which the tenant's webhooks are signed. It is shown only here."""


class NewKey(Shape):
    hints = {"scopes": f"Is required: some of {', '.join(TENANT_SCOPES)}."}
    name: Annotated[str, Line(100)]
    """Name for people: who uses the key, and where."""
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=len(TENANT_SCOPES))]
    expires_at: Instant | None = None
    """When the key expires; null: never."""
    rate_per_second: Annotated[int, Between(1, 1_000_000)] | None = None
    """Most API calls per second; null: the limit in the settings."""


class KeyShape(Shown):
    prefix: str
    """The key begins with ck_ and this prefix."""
    name: str
    scopes: list[Scope]
    rate_per_second: int | None
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    """When the key was last used, recorded once a minute."""
    created_at: datetime


class CreatedKey(KeyShape):
    key: str | None
    """Text of the key. It is shown only here."""
