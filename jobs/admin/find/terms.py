"""Readings of the text in the palette: as an id or its beginning, as an idempotency key, as a tenant's job."""

import re
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from jobs.core.errors import InvalidInput
from jobs.core.instants import EARLIEST, LATEST, parse_instant

#: Digits of an id that are enough to look for it. In a UUIDv7 they name the minute in which it was made.
MIN_DIGITS = 8
MAX_LENGTH = 300
_KEY = re.compile(r"job:([0-9a-fA-F-]{36}):(scheduled_for|run):(.+)")


@dataclass(frozen=True)
class Ids:
    """All ids from ``first`` to ``last``."""

    first: UUID
    last: UUID


@dataclass(frozen=True)
class Key:
    """An idempotency key: of a job's firing at ``scheduled_for``, or, if that is None, of a run now at ``run_id``."""

    text: str
    job_id: UUID
    scheduled_for: datetime | None
    run_id: UUID | None


def ids_of(text: str) -> Ids | None:
    """``01a20a79``, ``01a20a79-46fa-77`` or a whole UUID, with hyphens or without; None for any other text."""
    digits = text.replace("-", "").lower()
    if not re.fullmatch(rf"[0-9a-f]{{{MIN_DIGITS},32}}", digits):
        return None
    return Ids(UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f")))


def key_of(text: str) -> Key | None:
    """The parts of an idempotency key; None for any other text."""
    found = _KEY.fullmatch(text)
    if not found:
        return None
    try:
        job_id = UUID(found[1])
        if found[2] == "run":
            return Key(text, job_id, None, UUID(found[3]))
        instant = parse_instant(found[3])
    except (ValueError, InvalidInput):
        return None
    return Key(text, job_id, instant, None) if EARLIEST <= instant <= LATEST else None


def tenant_and_name(text: str) -> tuple[str, str] | None:
    """``globex/nightly`` as the tenant's slug and the beginning of the job's name; None without a slash."""
    slug, slash, name = text.partition("/")
    return (slug.lower(), name) if slash and slug else None
