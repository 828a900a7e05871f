"""Instants: the bounds within which every time lies, the step between two of them, and their text."""

import re
from datetime import UTC, datetime, timedelta
from typing import overload

from jobs.core.errors import InvalidInput

#: Every instant that Carillon accepts, makes or stores lies between these, as the tables' CHECKs demand. A year-9999
#: row with an offset can be saved, and then breaks every read. ``tenants.models`` repeats the bounds, because it
#: imports nothing of jobs.
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
LATEST = datetime(2100, 1, 1, tzinfo=UTC)
OUT_OF_BOUNDS = "Must lie between 2000-01-01 and 2100-01-01."
#: The step from an instant to the next: Postgres keeps microseconds.
TICK = timedelta(microseconds=1)
_INSTANT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(?P<offset>[Zz]|[+-][0-9]{2}:[0-9]{2})?"
)


@overload
def instant_text(instant: datetime, *, timespec: str = "auto") -> str: ...
@overload
def instant_text(instant: None, *, timespec: str = "auto") -> None: ...
@overload
def instant_text(instant: datetime | None, *, timespec: str = "auto") -> str | None: ...
def instant_text(instant: datetime | None, *, timespec: str = "auto") -> str | None:
    """RFC 3339 in UTC, ending in Z; None for None. ``timespec``: to which part, as ``datetime.isoformat`` has it."""
    if instant is None:
        return None
    utc = instant if instant.tzinfo is UTC else instant.astimezone(UTC)
    return utc.isoformat(timespec=timespec).replace("+00:00", "Z")


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
        raise InvalidInput({"": f"Is not a time that exists: {error}."}) from None


def span(duration: timedelta) -> str:
    """``350 ms``, ``42 s``, ``3 min 5 s``, ``2 h 10 min``, ``9 d 4 h``: two units at most, rounded down."""
    if duration < timedelta(seconds=1):
        return f"{max(0, duration // timedelta(milliseconds=1))} ms"
    whole = int(duration.total_seconds())
    parts = [(whole // 86_400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "min"), (whole % 60, "s")]
    first = next(index for index, (number, _) in enumerate(parts) if number)
    return " ".join(f"{number} {unit}" for number, unit in parts[first : first + 2] if number)
