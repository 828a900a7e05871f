"""Places in a web process for waiting requests, claims and event streams alike, shared by tenant.

Each place holds a thread, so there are few. A tenant may take a place while it has fewer than are free: a single tenant
gets half of them, and the next tenant still finds some. A request without a place is told when to come again. An empty
answer at once would make well-behaved workers ask without a pause.
"""

import threading
from collections import Counter
from functools import cache

from jobs.conf import engine_settings
from jobs.core.errors import Crowded


class Waiting:
    """``total`` places of one process."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._lock = threading.Lock()
        self._of_tenants: Counter[int] = Counter()
        self._taken = 0

    @property
    def taken(self) -> int:
        return self._taken

    def take(self, tenant_id: int) -> None:
        """Take a place; ``leave`` gives it back. Raises ``Crowded``."""
        with self._lock:
            self._check(tenant_id)
            self._of_tenants[tenant_id] += 1
            self._taken += 1

    def check(self, tenant_id: int) -> None:
        """Raises ``Crowded`` where ``take`` would."""
        with self._lock:
            self._check(tenant_id)

    def _check(self, tenant_id: int) -> None:
        free, has = self._total - self._taken, self._of_tenants[tenant_id]
        if not free or not self._is_fair(has, free):
            raise Crowded(own=bool(has))

    def leave(self, tenant_id: int) -> None:
        with self._lock:
            self._taken -= 1
            self._of_tenants[tenant_id] -= 1
            if not self._of_tenants[tenant_id]:
                del self._of_tenants[tenant_id]

    @staticmethod
    def _is_fair(has: int, free: int) -> bool:
        return has < free


@cache
def places() -> Waiting:
    """The places of this process."""
    return Waiting(engine_settings().long_polls)
