"""Server-sent events: the feed as it grows, over one connection for a minute; then the client connects again by itself.

A stream holds a thread of the web server and, between two looks, no database connection. Places are few, per process
and per tenant, so that streams cannot crowd out requests.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jobs.engine.pull.waiting import places
from jobs.store import db, events
from jobs.store.events import Place

LOOK_SECONDS = 1.0
QUIET_SECONDS = 15.0
MAX_SECONDS = 60.0
PAGE = 500
#: How long a client waits before it connects again.
RETRY_MS = 1000


def stream(*, tenant_id: int, after: Place, render: Callable[[Any], tuple[str, str, str]]) -> Iterator[str]:
    """The feed from ``after`` on, as text. ``render`` gives id, kind and JSON of a row.

    Takes a place at once, or raises ``Crowded``. The place is free again when the iterator is closed, read to its end
    or not.
    """
    places().take(tenant_id)
    return _Stream(tenant_id, after, render)


class _Stream:
    """An iterator whose ``close``, which servers call, gives the place back even if nothing was ever read."""

    def __init__(self, tenant_id: int, after: Place, render: Callable[[Any], tuple[str, str, str]]) -> None:
        self._tenant_id, self._open = tenant_id, True
        self._text = _text(tenant_id, after, render)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        try:
            return next(self._text)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._text.close()
        if self._open:
            self._open = False
            places().leave(self._tenant_id)


def _text(tenant_id: int, after: Place, render: Callable[[Any], tuple[str, str, str]]) -> Any:
    until = time.monotonic() + MAX_SECONDS
    speak_at = time.monotonic() + QUIET_SECONDS
    yield f"retry: {RETRY_MS}\n\n"
    while True:
        try:
            rows: Sequence[Any] = events.page(tenant_id=tenant_id, after=after, limit=PAGE)
        except db.TRANSIENT as error:
            db.note_away(error, what="events")
            return
        for row in rows:
            key, kind, body = render(row)
            yield f"id: {key}\nevent: {kind}\ndata: {body}\n\n"
            after = Place(int(row.xid), row.id)
        if rows or time.monotonic() >= speak_at:
            speak_at = time.monotonic() + QUIET_SECONDS
            if not rows:
                yield ": still here\n\n"  # only a write notices that a client is gone
        if time.monotonic() >= until:
            return
        if len(rows) < PAGE:
            if not db.in_transaction():
                db.disconnect()
            time.sleep(LOOK_SECONDS)
