"""How fast past firings may become triggers: twice the normal rate of dispatch in all (DESIGN §9).

The leader counts the triggers that it materializes on time for each tenant. Past firings may come at the same rate
beside them. No more than two seconds' worth of past firings may wait undispatched, so they never delay on-time work.
The rates are kept only in memory, one small record per tenant: a new leader learns them with its first passes. Without
election each beat counts the firings that it materializes.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

WINDOW_SECONDS = 60.0
#: A tenant that fires less often than once a second still catches up.
SLOWEST_PER_SECOND = 1.0
MAX_WAITING_SECONDS = 2.0
#: Capacity of a bucket: a leader that was busy makes up for at most this in a burst.
BURST_SECONDS = 0.75
#: Firings come in groups of this size. Smaller groups would be many small messages, each as costly as a large one.
LUMP_SECONDS = 0.5


@dataclass(slots=True)
class _Tenant:
    rate: float
    counted_at: float
    tokens: float
    filled_at: float


class Pace:
    """A token bucket for each tenant, filled at the tenant's own rate. ``monotonic`` gives seconds."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._tenants: dict[int, _Tenant] = {}

    def note(self, tenant_id: int, firings: int) -> None:
        """``firings`` on-time triggers of the tenant were materialized."""
        tenant = self._tenant(tenant_id)
        tenant.rate += firings / WINDOW_SECONDS

    def per_second(self, tenant_id: int) -> float:
        """Past firings of the tenant that may become triggers in a second."""
        return max(SLOWEST_PER_SECOND, self._tenant(tenant_id).rate)

    def allowance(self, tenant_id: int, *, waiting: int) -> int:
        """How many past firings may become triggers now, while ``waiting`` of them wait for dispatch."""
        rate, tenant = self.per_second(tenant_id), self._tenants[tenant_id]
        now = self._monotonic()
        held = max(1.0, rate * BURST_SECONDS)
        tenant.tokens = min(held, tenant.tokens + rate * (now - tenant.filled_at))
        tenant.filled_at = now
        if tenant.tokens < max(1.0, rate * LUMP_SECONDS):
            return 0
        return max(0, min(int(tenant.tokens), int(rate * MAX_WAITING_SECONDS) - waiting))

    def spend(self, tenant_id: int, firings: int) -> None:
        """``firings`` past firings of the tenant have become triggers."""
        self._tenant(tenant_id).tokens -= firings

    def _tenant(self, tenant_id: int) -> _Tenant:
        """The tenant's record with its present rate: an average over the last minute that fades with age."""
        now = self._monotonic()
        tenant = self._tenants.get(tenant_id)
        if tenant is None:
            tenant = self._tenants[tenant_id] = _Tenant(0.0, now, SLOWEST_PER_SECOND, now)
        tenant.rate *= math.exp((tenant.counted_at - now) / WINDOW_SECONDS)
        tenant.counted_at = now
        return tenant
