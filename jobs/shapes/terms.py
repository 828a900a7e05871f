"""The values of fields, beside enumerations: bounded numbers, texts, instants. Refusals say what would be right."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, TypeVar

from pydantic import (
    BeforeValidator,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    WithJsonSchema,
    WrapValidator,
)
from pydantic_core import CoreSchema, core_schema

from jobs.core.errors import InvalidInput
from jobs.core.instants import EARLIEST, LATEST, OUT_OF_BOUNDS, parse_instant
from jobs.core.json_rules import check_text
from jobs.core.pull import shown_name

T = TypeVar("T")
#: A text on one line, without blanks at its ends. No such expression can name the other unprintable characters.
LINE = r"^[^\s\u0000-\u001f\u007f]([^\u0000-\u001f\u007f]*[^\s\u0000-\u001f\u007f])?$"


@dataclass(frozen=True, slots=True)
class Between:
    """A number from ``low`` to ``high``, both included; whole if it annotates ``int``. Neither true nor "5" is one."""

    low: float
    high: float

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        whole = source is int
        return core_schema.custom_error_schema(
            core_schema.int_schema(strict=True, ge=int(self.low), le=int(self.high))
            if whole
            else core_schema.float_schema(strict=True, ge=self.low, le=self.high, allow_inf_nan=False),
            custom_error_type="refused",
            custom_error_message=(
                f"Must be {'a whole number' if whole else 'a number'} from {self.low:,} to {self.high:,}."
            ),
        )


@dataclass(frozen=True, slots=True)
class Says:
    """For every fault of the value, the refusal is this sentence."""

    message: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.custom_error_schema(
            handler(source), custom_error_type="refused", custom_error_message=self.message
        )


@dataclass(frozen=True, slots=True)
class Text:
    """The bounds of a text in OpenAPI. The validator that reads the text refuses others, in better words."""

    max_length: int
    min_length: int = 1
    pattern: str | None = None
    format: str | None = None

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        bounds = {"minLength": self.min_length or None, "maxLength": self.max_length}
        told = bounds | {"pattern": self.pattern, "format": self.format}
        return handler(schema) | {name: value for name, value in told.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Line:
    """A printable text on one line, without blanks at its ends; empty if it may be ``blank``."""

    max_length: int
    blank: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"type": "string", "maxLength": self.max_length, "pattern": self.pattern}

    @property
    def pattern(self) -> str:
        """Also matches some texts that are refused: OpenAPI's expressions have no classes of Unicode."""
        return f"^({LINE[1:-1]})?$" if self.blank else LINE

    def read(self, text: Any) -> str:
        """``text``, if it is such a line. Raises ``InvalidInput``, under no name."""
        check_text(text, field="", max_length=self.max_length)
        if not text and not self.blank:
            raise InvalidInput({"": "Must not be empty."})
        if not text.isprintable() or text != text.strip():
            raise InvalidInput(
                {"": "Must have no line breaks or control characters, and no blanks at its ends."}
            )
        return str(text)


#: For a value that its class describes, and that is read later: one by one, or as a query is.
UNREAD = WrapValidator(lambda given, _: given)


def here(read: Callable[[str], T]) -> Callable[[str], T]:
    """``read`` as the validator of one field: its ``InvalidInput``, under any name, is about that field."""

    def validator(text: str) -> T:
        try:
            return read(text)
        except InvalidInput as error:
            raise InvalidInput(
                {"": [message for some in error.errors.values() for message in some]}
            ) from None

    return validator


def stored_instant(text: object) -> datetime:
    """An instant that can be stored, in UTC. Raises ``InvalidInput`` under the empty field."""
    instant = parse_instant(text)
    if not EARLIEST <= instant <= LATEST:
        raise InvalidInput({"": OUT_OF_BOUNDS})
    return instant.astimezone(UTC)


#: An instant that can be stored, in UTC.
Instant = Annotated[datetime, BeforeValidator(stored_instant)]


def seconds(duration: timedelta) -> int | float:
    """A duration as the API writes it: whole seconds without a decimal point."""
    value = duration.total_seconds()
    return int(value) if value.is_integer() else value


#: For answers: a number as it is, whole or not; a duration, as seconds; a job type as its tenant knows it.
Number = Annotated[Any, WithJsonSchema({"type": "number"})]
Seconds = Annotated[Number, BeforeValidator(seconds)]
ShownType = Annotated[str, BeforeValidator(shown_name)]
