"""Parts that several models share: ids, times, and the bounds of stored times."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import uuid_utils
import uuid_utils.compat
from django.db.models import DateTimeField, Field, Func, Q

from jobs.core.instants import EARLIEST, LATEST


def new_id() -> UUID:
    """A UUIDv7: sortable by creation, made in Python because Postgres 15 cannot."""
    return uuid_utils.compat.uuid7()


def new_ids(count: int) -> list[str]:
    """Ids of the same kind and in the same order, as text: only the database reads them, so no objects are made."""
    return [uuid_utils.uuid7().hex for _ in range(count)]


def first_id_since(instant: datetime) -> UUID:
    """The smallest UUIDv7 that may have been made at ``instant`` or later (RFC 9562: 48 bits of milliseconds)."""
    return UUID(int=int(instant.timestamp() * 1000) << 80)


def instant_of(made: UUID) -> datetime:
    """When a UUIDv7 was made, to the millisecond, within the years that are stored."""
    instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=min(made.int >> 80, 2**42))
    return min(max(instant, EARLIEST), LATEST)


def times_in_range(*names: str) -> Q:
    """CHECK that each named column is null or within 2000 to 2100."""
    condition = Q()
    for name in names:
        condition &= Q(**{f"{name}__isnull": True}) | Q(**{f"{name}__gte": EARLIEST, f"{name}__lte": LATEST})
    return condition


def one_of(name: str, values: Iterable[str]) -> Q:
    """CHECK that a text column holds one of ``values`` (a StrEnum or a sequence)."""
    return Q(**{f"{name}__in": [str(value) for value in values]})


def choices(values: Iterable[str]) -> list[tuple[str, str]]:
    """Django choices of a StrEnum: value and human label."""
    return [(str(value), str(value).replace("_", " ")) for value in values]


class Clock(Func):
    """The database's time as a default: the moment of the statement, offset as tests have it."""

    function = "carillon_clock"
    output_field = DateTimeField()
    arity = 0


class TransactionId(Field):
    """A transaction's 64-bit id, ``xid8``: never reused, and read as text."""

    def db_type(self, connection: Any) -> str:
        return "xid8"
