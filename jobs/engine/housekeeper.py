"""Housekeeping by the leader, off the hot path: complete finished jobs, prepare and drop partitions, purge history.

Every step is bounded and may be repeated; what one pass leaves the next one takes.
"""

import time
from datetime import timedelta
from uuid import UUID

from jobs.engine.notices import notify
from jobs.store import db, events, history, trail
from jobs.store import jobs as store
from jobs.store.calls import answers, operations
from jobs.store.dispatch import messages as dispatch_messages
from jobs.telemetry import get_logger
from tenants.vault.signing import retire_signing_secrets

log = get_logger()
TELL_EVERY_SECONDS = 1.0
COMPLETE_EVERY_SECONDS = 1.0
#: While on-time work fills whole batches, finished jobs wait so long at most: nothing depends on their status.
COMPLETE_AT_LAST_SECONDS = 10.0
PARTITIONS_EVERY_SECONDS = 3600.0
PURGE_EVERY_SECONDS = 60.0
BATCH = 1000
#: A message that lay in Postgres for so long has been overtaken by others of its triggers (``brokerless``).
UNTAKEN = timedelta(hours=1)
_START = UUID(int=0)


class Housekeeper:
    """Remembers when each chore was last done and how far the walks over finished jobs and timelines have come."""

    def __init__(self, *, retention: timedelta, trail_retention: timedelta) -> None:
        self._retention, self._trail_retention = retention, trail_retention
        self._after = _START
        self._versions_after = history.FIRST_ENTRY
        self._tell_at = self._complete_at = self._partitions_at = self._purge_at = 0.0

    def keep(self, *, busy: bool = False) -> None:
        """Do the chores that are due; ``busy``: those alone that cannot wait a little."""
        now = time.monotonic()
        if now >= self._tell_at:
            self._tell_at = now + TELL_EVERY_SECONDS
            self._tell()
        if now >= self._complete_at + (COMPLETE_AT_LAST_SECONDS if busy else 0.0):
            self._complete_at = now + COMPLETE_EVERY_SECONDS
            last, completed = store.complete(after=self._after, limit=BATCH)
            self._after = last or _START
            if completed:
                log.debug("complete", jobs=completed)
        if now >= self._partitions_at:
            self._partitions_at = now + PARTITIONS_EVERY_SECONDS
            for name in history.ensure_partitions():
                log.info("partition created", name=name)
            for name in history.drop_partitions(retention=self._retention):
                log.info("partition dropped", name=name)
        if now >= self._purge_at:
            # A full batch means more is waiting: come back soon, but let dispatch have its turn first.
            with trail.acting_as(trail.ENGINE):
                retire_signing_secrets()
            self._purge_at = now + (1.0 if self._purge() else PURGE_EVERY_SECONDS)

    @staticmethod
    def _tell() -> None:
        """Make notices of what is new. What goes wrong with them must not stop the beat."""
        try:
            notify()
        except db.DISCONNECTED:
            raise
        except Exception:  # the place in the feed stays where it was
            log.exception("notices failed")

    def _purge(self) -> bool:
        """Drop a batch of each kind of history past retention. Returns whether there was more of one."""
        full = [
            purge(retention=self._retention, limit=BATCH) >= BATCH
            for purge in (
                history.purge_triggers,
                history.purge_effects,
                history.purge_results,
                history.purge_catchups,
                history.purge_ranges,
                events.purge,
                operations.purge,
            )
        ]
        full.append(answers.purge(limit=BATCH) >= BATCH)
        full.append(trail.purge(retention=self._trail_retention, limit=BATCH) >= BATCH)
        self._versions_after, _ = history.purge_versions(
            retention=self._retention, limit=BATCH, after=self._versions_after
        )
        dispatch_messages.forget(older_than=UNTAKEN, limit=BATCH)
        return any(full)
