"""Reap: recover the triggers that crashed workers and lost messages left behind (DESIGN §6.4, §7).

An expired lease counts as a crash of the trigger's worker and follows the same rule as any failure. Only a trigger that
its worker had claimed alone is charged for the crash, since in a batch the cause is unknown. A worker that was killed
after it was told to stop did not crash. Each call is bounded and may be repeated. If two reapers run at once, one finds
that the fence has moved and does nothing.
"""

import time
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

from jobs.core.policies import is_charged
from jobs.core.states import ENDED
from jobs.engine.endings import tell_lost, tell_unstarted
from jobs.store import db
from jobs.store import reap as reap_store
from jobs.store.leases import Leadership
from jobs.store.reap import Recovery
from jobs.telemetry import get_logger

log = get_logger()
#: The SQLSTATE of a statement that waited for a lock for as long as it may.
LOCKED = "55P03"

#: The reaper looks once a second, and may be late. So a shorter gap or leap means nothing, however short leases are.
#: Without these limits, leases of three seconds were never reaped.
MIN_GAP_SECONDS, MIN_LEAP_SECONDS = 3.0, 1.0


class Patience:
    """Lets workers renew before their leases count as over. A reaper that could not ask for a while cannot tell a dead
    worker from one that could not renew either (the database was away), or whose lease a step of the clock ended.

    A living worker renews within a third of its lease, and tries each second while it cannot; half a lease is time
    enough. So a successor waits only if there was no leader for longer than half a lease. Otherwise leaders that die
    soon after one another would keep everything that must be reaped waiting. ``lease`` is the workers'. Process clocks
    only measure how much time went by.
    """

    def __init__(self, *, lease: timedelta, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._lease = lease.total_seconds()
        self._monotonic = monotonic
        self._last: tuple[float, datetime] | None = None
        self._waits_until = 0.0

    def allows(self, *, now: datetime, unattended_seconds: float | None = None) -> bool:
        """Whether expired leases are over. ``now`` is the database's time. ``unattended_seconds`` is given by a leader
        that succeeds another and looks for the first time: for how long no leader may have looked.
        """
        moment = self._monotonic()
        cause = (
            self._cause(moment, now)
            if unattended_seconds is None
            else f"no leader for up to {unattended_seconds:.0f} s"
            if unattended_seconds > self._lease / 2
            else ""
        )
        self._last = (moment, now)
        if cause:
            self._waits_until = moment + self._lease / 2
            log.warning("reap waits for renewals", cause=cause, seconds=self._lease / 2)
        return moment >= self._waits_until

    def _cause(self, moment: float, now: datetime) -> str:
        if self._last is None:
            return ""
        seconds = moment - self._last[0]
        if seconds > max(self._lease / 3, MIN_GAP_SECONDS):
            return f"no look for {seconds:.0f} s"
        step = (now - self._last[1]).total_seconds() - seconds
        leap = step > max(self._lease / 6, MIN_LEAP_SECONDS)
        return f"the database's clock went {step:.0f} s ahead" if leap else ""


def reap_leases(*, leadership: Leadership, limit: int) -> int:
    """Reap up to ``limit`` running triggers whose leases expired. Returns how many were reaped."""
    expired = {row.id: row for row in reap_store.expired_leases(limit=limit)}
    reaped = 0
    for tenant, recoveries in _groups(expired.values()).items():
        try:
            rows = reap_store.reap_running(recoveries, leadership=leadership)
        except db.StatementFailed as error:
            if db.sqlstate(error) != LOCKED:
                raise
            log.warning("reap waits for a workflow run", tenant=tenant, triggers=len(recoveries))
            continue
        for row in rows:
            tell_lost(expired[row.id], row)
        reaped += len(rows)
    return reaped


def _groups(rows: Iterable[Any]) -> dict[str, list[Recovery]]:
    """Group the recoveries by transaction. The end of a workflow's task waits for its run, so each tenant has a group
    of its own for these. All other recoveries are under the empty name, and come first.
    """
    groups: dict[str, list[Recovery]] = {"": []}
    for row in rows:
        charged = is_charged(claimed_with=row.claimed_with, stopping=row.stopping)
        recovery = reap_store.recovery_of(row, charged=charged)
        waits = row.workflow_run_id is not None and recovery.state in ENDED
        groups.setdefault(row.tenant if waits else "", []).append(recovery)
    return groups


def reap_messages(*, leadership: Leadership, deadline: timedelta, limit: int) -> int:
    """Take back up to ``limit`` triggers whose messages were not claimed within ``deadline``. Returns how many."""
    lost = reap_store.reap_queued(leadership=leadership, deadline=deadline, limit=limit)
    for row in lost:
        tell_unstarted("reap", row.id, state="pending", cause="message never claimed")
    return len(lost)
