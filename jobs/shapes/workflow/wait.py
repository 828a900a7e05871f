"""``wait`` of a task: for an instant, for a signal, or for an approval. Its type says which fields it has.

A wait is a trigger of a hidden job, due when the wait is over at the latest (``carillon_wait_ends``, migration 0012).
The signal or the approval that it waits for ends the trigger before.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from jobs.core.errors import InvalidInput
from jobs.core.instants import instant_text
from jobs.shapes.base import OneOf, Shape
from jobs.shapes.terms import Between, Line, here, stored_instant
from jobs.shapes.workflow.keys import SignalName, TakenValue, taken_value

_MAX_SECONDS = 366 * 86_400
_WEEK = 7 * 86_400
Limit = Annotated[float, Between(1, _MAX_SECONDS)]


class _Wait(Shape):
    drops_null = True

    def as_payload(self, key: str) -> dict[str, Any]:
        """The payload of its hidden job."""
        return self.model_dump(mode="json", exclude_none=True)


def _until(value: object) -> object:
    return taken_value(value) if isinstance(value, dict) else instant_text(stored_instant(value))


_INSTANT = {"type": "string", "format": "date-time"}
Until = Annotated[
    Any,
    AfterValidator(here(_until)),
    WithJsonSchema({"oneOf": [_INSTANT, TakenValue.__metadata__[-1].json_schema]}),
]


class TimeWait(_Wait):
    type: Literal["time"]
    seconds: Annotated[float, Between(0, _MAX_SECONDS)] | None = None
    """For type time: how long the wait lasts after it starts."""
    until: Until = None
    """For type time: the instant at which the wait ends, or `{"$from": …}` for a value from elsewhere."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.seconds is None) is (self.until is None):
            raise InvalidInput({"seconds": "Give either seconds or until."})
        return self


class SignalWait(_Wait):
    type: Literal["signal"]
    name: SignalName | None = None
    """For type signal: name of the signal; the task's key by default."""
    timeout_seconds: Limit = _WEEK
    """The task fails if no answer comes within this time."""

    def as_payload(self, key: str) -> dict[str, Any]:
        return {"name": key, **super().as_payload(key)}


class ApprovalWait(_Wait):
    type: Literal["approval"]
    message: Annotated[str, Line(500)] = "Go on?"
    """For type approval: the question that is asked."""
    timeout_seconds: Limit = _WEEK


class WaitShape(OneOf[Annotated[TimeWait | SignalWait | ApprovalWait, Field(discriminator="type")]]):
    """Its type says which fields it has."""

    drops_null = True
    hints = {
        "": 'Must be an object such as {"type": "time", "seconds": 3600}.',
        "type": "Is required: one of time, signal, approval.",
    }

    def as_payload(self, key: str) -> dict[str, Any]:
        return self.root.as_payload(key)
