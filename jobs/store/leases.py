"""The lease of the leader: take, renew, release; expiry is computed and compared in SQL alone (DESIGN §6)."""

from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from jobs.store import db

_SQL = db.queries("leases")


@dataclass(frozen=True, slots=True)
class Leadership:
    """Proof of leadership: every leader write checks its ``term``; None: without election, or with a locked lease."""

    holder: str
    term: int | None

    @property
    def alone(self) -> bool:
        """Whether no other process dispatches while the leadership lasts."""
        return self.term is not None


class TakenLease(NamedTuple):
    """A new ``term``; None: the lease is free, but another transaction has locked its row.

    ``abandoned``: another process held it before, and may have left work half done. ``free_for``: how long it has been
    free; None: no process had it yet.
    """

    term: int | None
    abandoned: bool
    free_for: timedelta | None


def take(*, holder: str, duration: timedelta, idle: timedelta = timedelta()) -> TakenLease | None:
    """Take the lease if it is free, expired for ``idle`` or the holder's, under a new term; None: another holds it.

    Waits for no lock. May be repeated.
    """
    for row in _SQL["take"](holder=holder, duration=duration, idle=idle):
        return TakenLease(row.term, row.abandoned, row.free_for)
    return None


def renew(leadership: Leadership, *, duration: timedelta) -> bool | None:
    """Prolong exactly this leadership. Returns whether a lock on its row prevented that; None: it is over."""
    for row in _SQL["renew"](holder=leadership.holder, term=leadership.term, duration=duration):
        return bool(row.locked)
    return None


def release(leadership: Leadership) -> None:
    """End exactly this leadership at once; harmless when it is over."""
    _SQL["release"](holder=leadership.holder, term=leadership.term)
