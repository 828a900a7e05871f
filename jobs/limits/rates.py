"""The rate limits for dispatch: it calls ``rooms`` before its transaction, ``admit`` within it, ``spend`` after it.

Only ``rooms`` may wait for Redis, once and for at most ``BUDGET_SECONDS``, however many tenants there are.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import NamedTuple, Protocol

from jobs.limits.buckets import OF_TARGETS, Bucket, target_bucket, tenant_bucket
from jobs.limits.shared import Buckets


class Rated(Protocol):
    """A tenant, a row of it, or another object that has its id and its rates."""

    @property
    def id(self) -> int: ...
    @property
    def rate_per_second(self) -> int | None: ...
    @property
    def rate_burst(self) -> int | None: ...


class Admission(NamedTuple):
    """``granted`` of the triggers may call the target now. ``waits``: how long each other one waits, soonest first."""

    granted: int
    waits: list[timedelta]


class Rates:
    """The rate limits of one dispatcher. One thread at a time."""

    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets
        self._held: dict[int, Bucket] = {}

    def rooms(self, tenants: Iterable[Rated]) -> dict[int, int]:
        """How many triggers of each tenant may go, by tenant id; tenants without a rate are left out.

        Call it before the transaction, with every tenant that may be served: one pipeline, one wait of at most
        ``BUDGET_SECONDS``. The tokens are held for this dispatcher until ``spend``, or the next ``rooms``.
        """
        held = {
            tenant.id: bucket
            for tenant in tenants
            if (bucket := tenant_bucket(tenant.id, tenant.rate_per_second, tenant.rate_burst))
        }
        if self._held:
            self.spend({})
        self._held = held
        rooms = self._buckets.hold(held.values()) if held else {}
        return {tenant_id: rooms[bucket] for tenant_id, bucket in held.items()}

    def spend(self, counts: Mapping[int, int]) -> None:
        """Spend a token for each dispatched trigger (``counts``, by tenant id); give back the other held tokens.

        Call it once after the commit. Tenants that the last ``rooms`` did not name are passed over. Never waits.
        """
        spent = {
            self._held[tenant_id]: count for tenant_id, count in counts.items() if tenant_id in self._held
        }
        self._buckets.spend(spent, held=self._held.values())
        self._held = {}

    def admit(self, wanted: Mapping[str, tuple[int, float]]) -> dict[str, Admission]:
        """How many triggers may call each target (``host`` or ``host:port``) now, and when the others may.

        ``wanted``: by target, how many triggers, and the target's rate a second; 0: no limit. Never waits and asks no
        other process, so it may be called within the transaction: granted tokens are spent by this process' own account
        and reported afterwards. Tokens that were granted to a dispatch that fails are lost.
        """
        admissions = {}
        for target, (count, per_second) in wanted.items():
            bucket = target_bucket(target, per_second)
            granted, turns = self._buckets.admit(bucket, count) if bucket else (count, [])
            admissions[target] = Admission(granted, [timedelta(seconds=turn) for turn in turns])
        return admissions

    def forget_turns(self, matches: Callable[[str], bool]) -> None:
        """Give the next turns of targets that ``matches`` from now on, as the triggers that had turns ask again."""
        self._buckets.forget_turns(OF_TARGETS, matches)
