"""Database connections in Celery workers: kept between messages, dropped when broken.

Celery's Django fixup closes every connection before and after each task, which costs a reconnect per message. This
fixup closes only connections that are past ``CONN_MAX_AGE`` or have seen an error. The store reconnects by itself when
a statement finds that the server is gone.
"""

from typing import Any

from celery import Celery
from celery.fixups.django import DjangoFixup, DjangoWorkerFixup
from django.db import connections


class KeepingWorkerFixup(DjangoWorkerFixup):
    """Keeps usable connections over task boundaries; after a fork it still drops the parent's connections."""

    def close_database(self, **_: Any) -> None:
        for connection in connections.all(initialized_only=True):
            connection.close_if_unusable_or_obsolete()
            # The store retries on a dead connection; a SELECT 1 before every message would only add cost.
            connection.health_check_done = True  # type: ignore[attr-defined]


class KeepingFixup(DjangoFixup):
    """Celery's Django fixup with ``KeepingWorkerFixup`` in it."""

    def __init__(self, app: Celery) -> None:
        super().__init__(app)
        self._keeping: KeepingWorkerFixup | None = None

    @property
    def worker_fixup(self) -> DjangoWorkerFixup:
        """Made at first use: by then Django's settings are complete."""
        if self._keeping is None:
            self._keeping = KeepingWorkerFixup(self.app)
        return self._keeping


def fixup(app: Celery) -> DjangoFixup:
    """Entry point for ``Celery(fixups=…)``."""
    return KeepingFixup(app).install()
