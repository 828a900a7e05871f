"""Windows: which partitions of the feed hold the events after a place (ADR 33).

The feed's order is that of transactions, and its partitions are days. Marks, made every hour, say what transactions a
moment lies between. From them follows when the events after a place were written, and from that which partitions to
read: few, however long history is kept. Without marks all of them are read.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

from jobs.store import db

_SQL = db.queries("events")
#: One statement reads about so many days: each partition it reads is locked, and a server's locks are counted.
SPAN = timedelta(days=16)
#: So far a server's clock may be put back without an event being looked for where it is not.
ROOM = timedelta(days=1)


class Place(NamedTuple):
    """A place in the feed: the transaction of an event and its id."""

    xid: int
    id: int


def windows_after(after: Place) -> Iterator[dict[str, Any]]:
    """Parameters of a statement that reads on from ``after``, for one window after another: the earlier first. They
    overlap in no event, and together hold all of those whose transactions are over.
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
