"""``retry_policy`` of a job: its back-off, given or told by the other fields, says which fields it has."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator

from jobs.core.backoff import Backoff, Jitter, RetryPolicy
from jobs.core.errors import InvalidInput
from jobs.shapes.base import OneOf, Shape, changes_of
from jobs.shapes.terms import Between

_DEFAULT = RetryPolicy()
_MAX_ATTEMPTS = 100
_Delay = Annotated[float, Between(0.1, 7 * 86_400)]


class _Retries(Shape):
    max_attempts: Annotated[int, Between(1, _MAX_ATTEMPTS)] = _DEFAULT.max_attempts
    jitter: Jitter = _DEFAULT.jitter
    max_elapsed_seconds: Annotated[float, Between(0.1, 366 * 86_400)] | None = None


class _SteadyRetries(_Retries):
    initial_delay_seconds: _Delay = _DEFAULT.initial_delay.total_seconds()
    max_delay_seconds: _Delay = Field(
        default_factory=lambda given: max(_DEFAULT.max_delay.total_seconds(), given["initial_delay_seconds"])
    )
    """No shorter than initial_delay_seconds."""

    @model_validator(mode="after")
    def _check_delays(self) -> Self:
        if self.max_delay_seconds < self.initial_delay_seconds:
            raise InvalidInput({"max_delay_seconds": "Must not be shorter than initial_delay_seconds."})
        return self


class FixedRetries(_SteadyRetries):
    """The same delay before each."""

    backoff: Literal["fixed"]


class GrowingRetries(_SteadyRetries):
    """Each delay is ``factor`` times the one before."""

    backoff: Literal["exponential"] = "exponential"
    factor: Annotated[float, Between(1, 100)] = _DEFAULT.factor


class ListedRetries(_Retries):
    """One delay after the other, and the last again and again."""

    backoff: Literal["delays"] = "delays"
    delays_seconds: Annotated[list[_Delay], Field(min_length=1, max_length=_MAX_ATTEMPTS)] = [
        delay.total_seconds() for delay in _DEFAULT.delays
    ]


_KINDS: dict[str, type[_Retries]] = {
    "fixed": FixedRetries,
    "exponential": GrowingRetries,
    "delays": ListedRetries,
}
#: Fields that mean the same for every back-off.
COMMON = tuple(_Retries.model_fields)


def _hints(backoff: str) -> dict[str, str]:
    """Refusals of the fields that do nothing under ``backoff``."""
    kinds: dict[str, list[str]] = {}
    for kind, shape in _KINDS.items():
        for name in shape.model_fields.keys() - _KINDS[backoff].model_fields.keys():
            kinds.setdefault(name, []).append(f'"{kind}"')
    return {
        name: f'Does nothing with backoff "{backoff}"; leave it out or set backoff to {" or ".join(right)}.'
        for name, right in kinds.items()
    }


for _backoff, _shape in _KINDS.items():
    _shape.hints = _hints(_backoff)


def _kind(document: Any) -> str:
    """The back-off that is given, or else ``exponential`` if the fields describe a steady or growing delay."""
    if not isinstance(document, Mapping):
        raise InvalidInput({"": 'Must be an object such as {"max_attempts": 5, "backoff": "exponential"}.'})
    if "backoff" not in document:
        return (
            "delays"
            if document.keys().isdisjoint(GrowingRetries.model_fields.keys() - COMMON)
            else "exponential"
        )
    given = document["backoff"]
    if not isinstance(given, str) or given not in _KINDS:
        raise InvalidInput({"backoff": f"Must be one of {', '.join(_KINDS)}."})
    return given


class Retry(
    OneOf[
        Annotated[
            Annotated[FixedRetries, Tag("fixed")]
            | Annotated[GrowingRetries, Tag("exponential")]
            | Annotated[ListedRetries, Tag("delays")],
            Discriminator(_kind),
        ]
    ]
):
    """Its backoff, given or told by the other fields, says which fields it has."""

    model_config = ConfigDict(title="RetryPolicy")

    def stored(self) -> dict[str, Any]:
        """As it is kept and shown: every field that acts, whole numbers without a decimal point."""
        shown = self.root.model_dump(mode="json", exclude_none=True)
        return {name: _plain(value) for name, value in shown.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


RetryChanges = changes_of(
    "RetryPolicyChanges",
    *_KINDS.values(),
    doc="Any part of a retry policy; without a backoff, of the one the job has.",
    backoff=Backoff,
)
