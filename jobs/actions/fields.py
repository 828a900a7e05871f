"""Reading one JSON object from outside, field by field, keeping every complaint until the end.

So that a caller who made four mistakes learns of four. A field that is null counts as left out (JSON merge patch,
RFC 7396); an unknown one is a complaint. Nothing here knows jobs.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from jobs.core.errors import InvalidInput
from jobs.core.json_rules import check_text

T = TypeVar("T")
_INSTANT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(?P<offset>[Zz]|[+-][0-9]{2}:[0-9]{2})?"
)
_LONGEST_NAME_SHOWN = 40


def parse_instant(text: object) -> datetime:
    """An RFC 3339 time with its offset. Raises ``InvalidInput`` under the empty field."""
    match = _INSTANT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise InvalidInput({"": "Must be a time like 2030-01-31T02:00:00Z (RFC 3339)."})
    if match["offset"] is None:
        raise InvalidInput({"": "Has no offset from UTC; write it like 2030-01-31T02:00:00Z."})
    try:
        return datetime.fromisoformat(match[0].upper())
    except ValueError as error:
        raise InvalidInput({"": f"Is no time that exists: {error}."}) from None


class Fields:
    """The fields of ``document``. Each reader returns the default, and notes why, when a field is wrong."""

    def __init__(
        self, document: Mapping[str, Any], *, known: Collection[str], hints: Mapping[str, str] | None = None
    ) -> None:
        """``hints`` say what to do instead about some fields that are not ``known``."""
        self.document = document
        self.errors: dict[str, list[str]] = {}
        for name in document:
            if name not in known:
                advice = f"Unknown field; the fields are {', '.join(known)}."
                self.complain(name[:_LONGEST_NAME_SHOWN], (hints or {}).get(name, advice))

    def complain(self, name: str, message: str) -> None:
        """Note ``message`` about the field ``name``."""
        self.errors.setdefault(name, []).append(message)

    def collect(self, read: Callable[[], T], *, under: str = "") -> T | None:
        """What ``read`` returns, or None with its ``InvalidInput`` noted below the path ``under``."""
        try:
            return read()
        except InvalidInput as error:
            for name, messages in (error.under(under) if under else error).errors.items():
                self.errors.setdefault(name, []).extend(messages)
            return None

    def finish(self) -> None:
        """Raise ``InvalidInput`` with every complaint, if there is one."""
        if self.errors:
            raise InvalidInput(self.errors)

    def get(self, name: str) -> Any:
        """The raw value; None when it is null or left out."""
        return self.document.get(name)

    def number(self, name: str, low: float, high: float, *, default: Any = None, whole: bool = False) -> Any:
        """A number within ``low`` and ``high``, both included."""
        value = self.get(name)
        if value is None:
            return default
        # A bool is an int to Python; NaN fails both comparisons.
        kind = int if whole else int | float
        if isinstance(value, kind) and not isinstance(value, bool) and low <= value <= high:
            return value
        self.complain(name, f"Must be {'a whole number' if whole else 'a number'} from {low:,} to {high:,}.")
        return default

    def seconds(self, name: str, low: float, high: float, *, default: timedelta | None = None) -> Any:
        """A duration given in seconds."""
        value = self.number(name, low, high)
        return default if value is None else timedelta(seconds=value)

    def word(
        self, name: str, accepted: Sequence[str], *, default: str | None = None, later: Collection[str] = ()
    ) -> Any:
        """One of ``accepted``; a value of ``later`` is refused with the word that it is still to come."""
        value = self.get(name)
        if value is None:
            return default
        if isinstance(value, str) and value in accepted:
            return str(value)
        if isinstance(value, str) and value in later:
            self.complain(name, f'"{value}" arrives in a later release; use one of {", ".join(accepted)}.')
        else:
            self.complain(name, f"Must be one of {', '.join(accepted)}.")
        return default

    def flag(self, name: str) -> bool:
        """True or false; false when left out."""
        value = self.get(name)
        if not isinstance(value, bool | None):
            self.complain(name, "Must be true or false.")
        return value is True

    def text(self, name: str, max_length: int) -> str:
        """A printable text without blanks at its ends; empty when left out."""
        value = self.get(name)
        if value is None:
            return ""
        self.collect(lambda: check_text(value, field=name, max_length=max_length))
        if name in self.errors:
            return ""
        if not value.isprintable() or value != value.strip():
            self.complain(name, "Must have no line breaks or control characters, and no blanks at its ends.")
        return str(value)

    def instant(self, name: str) -> datetime | None:
        """An RFC 3339 time with its offset."""
        value = self.get(name)
        return None if value is None else self.collect(lambda: parse_instant(value), under=name)
