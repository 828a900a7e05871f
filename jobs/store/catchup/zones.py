"""The release of the time zone database by which the next instants of jobs were computed, and the jobs it decides."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from jobs.store import db

_SQL = db.queries("zones")
START = UUID(int=0)


class Known(NamedTuple):
    """``version``: the release, such as ``2026a``. ``seen_at``: when a leader was last at work under it."""

    version: str
    seen_at: datetime


def look() -> Known | None:
    """The release that next instants were last computed by; None before the first leader."""
    rows = _SQL["look"]()
    return Known(rows[0].version, rows[0].seen_at) if rows else None


def touch(version: str) -> None:
    """Say that a leader is at work under this release."""
    _SQL["touch"](version=version)


def settle(version: str) -> None:
    """Say that all next instants are of this release. May be repeated."""
    _SQL["settle"](version=version)


def page(*, after: UUID, limit: int, ids: Sequence[UUID] | None = None) -> list[Any]:
    """Up to ``limit`` jobs by id. ``zoned`` ones are locked; if others hold one, its ``next_fire_at`` is None.

    Call inside ``db.atomic()``.
    """
    return _SQL["page"](after=after, limit=limit, ids=None if ids is None else list(ids))
