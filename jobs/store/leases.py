"""The lease of the leader: take, renew, release; expiry is computed and compared in SQL alone (DESIGN §6)."""

from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from jobs.store import db

_SQL = db.queries("leases")


@dataclass(frozen=True, slots=True)
class Reign:
    """Proof of leadership: every leader write checks its ``term``. Null: without election, or with a locked lease."""

    holder: str
    term: int | None

    @property
    def alone(self) -> bool:
        """Whether nobody else dispatches while the reign lasts."""
        return self.term is not None


class Taken(NamedTuple):
    """A new ``term``; None: the lease is free, but somebody has locked its row.

    ``abandoned``: another held it before, and may have left work half done.
    """

    term: int | None
    abandoned: bool


def take(*, holder: str, duration: timedelta, idle: timedelta = timedelta()) -> Taken | None:
    """Take the lease if it is free, expired for ``idle`` or the holder's, under a new term; None: another holds it.

    Waits for no lock. May be repeated.
    """
    for row in _SQL["take"](holder=holder, duration=duration, idle=idle):
        return Taken(row.term, row.abandoned)
    return None


def renew(reign: Reign, *, duration: timedelta) -> bool | None:
    """Prolong exactly this reign. Returns whether its row was locked and kept it from that; None: the reign is over."""
    for row in _SQL["renew"](holder=reign.holder, term=reign.term, duration=duration):
        return bool(row.locked)
    return None


def release(reign: Reign) -> None:
    """End exactly this reign at once; harmless when it is over."""
    _SQL["release"](holder=reign.holder, term=reign.term)
