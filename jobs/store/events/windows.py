"""Windows: which partitions of the feed hold the events after a place (ADR 33).

The feed's order is that of transactions, and its partitions are days. Marks, made every hour, say which transactions a
moment lies between. They show when the events after a place were written, and so which partitions to read: few, however
long history is kept. Without marks all partitions are read.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

from jobs.store import db

_SQL = db.queries("events")
#: One statement reads about this many days: it locks each partition that it reads, and a server's locks are limited.
SPAN = timedelta(days=16)
#: How far a server's clock may be put back before readers look for an event where it is not.
ROOM = timedelta(days=1)


class Place(NamedTuple):
    """A place in the feed: the transaction of an event and its id."""

    xid: int
    id: int


def windows_after(after: Place) -> Iterator[dict[str, Any]]:
    """Parameters of a statement that reads on from ``after``, for one window after another, the earliest first.

    No event is in two windows, and together they hold all events whose transactions are over.
    """
    while True:
        [row] = _SQL["window"](after_xid=str(after.xid), span=SPAN, room=ROOM)
        yield {
            "after_xid": str(after.xid),
            "after_id": after.id,
            "before_xid": row.before_xid,
            "since": row.since,
            "until": row.until,
        }
        if not row.goes_on:
            return
        after = Place(int(row.before_xid), 0)


def keep_marks(*, retention: timedelta) -> None:
    """Mark this moment, and drop the marks past ``retention``. Call outside a transaction; may be repeated."""
    _SQL["forget_marks"](retention=retention)
    _SQL["mark"]()
