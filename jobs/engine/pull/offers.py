"""Claim by asking: take queued triggers, or wait for them without a connection to the database.

If the process is killed between the claim's commit and its answer, or if the asker is gone, the leases run out and reap
retries.
"""

import time
from collections.abc import Callable, Sequence

from jobs.conf import engine_settings
from jobs.core.pull import shown_name, stored_name
from jobs.core.workflows.flow import Unresolved
from jobs.engine.pull.waiting import places
from jobs.engine.traces import trace_of
from jobs.engine.worker.finisher import Finisher
from jobs.handlers.outcome import unresolved
from jobs.store import db, pull
from jobs.store.insight import workers
from jobs.store.pull import Work
from jobs.telemetry import get_logger
from jobs.wakeups import the_pull_notifier
from jobs.wakeups.pull_notifier import LOOK_SECONDS, POLL_SECONDS

log = get_logger()
#: Workers whose presence is not written again with each claim: until when, and for which types.
_announced: dict[str, tuple[float, tuple[str, ...]]] = {}
#: Looks that found nothing, by tenant and job types: when, and after how many notifications.
_in_vain: dict[tuple[int, tuple[str, ...]], tuple[float, int]] = {}
MAX_REMEMBERED, MAX_IN_VAIN = 10_000, 1_000


def claim(
    *,
    tenant_id: int,
    job_types: Sequence[str],
    capacity: int,
    worker: str,
    wait_seconds: float = 0.0,
    gone: Callable[[], bool] = lambda: False,
) -> list[Work]:
    """Claim up to ``capacity`` triggers of these stored job types.

    While there is nothing, waits up to ``wait_seconds`` and looks again whenever dispatch may have queued some. Raises
    ``Crowded`` instead where the tenant has no place to wait in. ``gone`` says that the caller has hung up. Inside a
    transaction (a claim with an ``Idempotency-Key``) it never waits.
    """
    until = time.monotonic() + wait_seconds
    heard = the_pull_notifier().notified
    may_wait = wait_seconds > 0 and not db.in_transaction()
    if may_wait and _is_in_vain(tenant_id, job_types, heard):
        places().check(tenant_id)
    rows = _take(tenant_id, job_types, capacity, worker)
    _announce(tenant_id, job_types, capacity, worker)
    if rows or not may_wait:
        return rows
    _note_in_vain(tenant_id, job_types, heard)
    places().take(tenant_id)
    try:
        while not rows and (left := until - time.monotonic()) > 0:
            db.disconnect()
            heard = _wait(heard, seconds=left)
            if gone():
                return []
            if not _is_in_vain(tenant_id, job_types, heard):
                rows = _take(tenant_id, job_types, capacity, worker)
                if not rows:
                    _note_in_vain(tenant_id, job_types, heard)
        return rows
    finally:
        places().leave(tenant_id)


def _is_in_vain(tenant_id: int, job_types: Sequence[str], heard: int) -> bool:
    """Whether another look would find nothing, because one by this or another worker has just found nothing.

    A look counts for half the time that a waiting worker goes without one. So workers that wait for the same triggers
    look seldom, and a worker without a place to wait in can be refused cheaply.
    """
    looked_at, had_heard = _in_vain.get((tenant_id, tuple(job_types)), (0.0, -1))
    return had_heard == heard and time.monotonic() - looked_at < POLL_SECONDS / 2


def _note_in_vain(tenant_id: int, job_types: Sequence[str], heard: int) -> None:
    # Without a subscription, triggers queued after a look would not outdate it.
    the_pull_notifier().listen()
    if len(_in_vain) >= MAX_IN_VAIN:
        _in_vain.clear()
    _in_vain[tenant_id, tuple(job_types)] = (time.monotonic(), heard)


def _wait(heard: int, *, seconds: float) -> int:
    began = time.monotonic()
    notified = the_pull_notifier().wait(heard=heard, seconds=min(seconds, POLL_SECONDS))
    # One look answers all notifications since the last look.
    time.sleep(max(0.0, min(seconds, LOOK_SECONDS) - (time.monotonic() - began)))
    return notified


def _take(tenant_id: int, job_types: Sequence[str], capacity: int, worker: str) -> list[Work]:
    rows = pull.claim(
        tenant_id=tenant_id,
        job_types=job_types,
        limit=capacity,
        worker=worker,
        lease=engine_settings().worker_lease,
    )
    for _, row in rows:
        log.debug("claim", trigger_id=str(row.id), job_id=str(row.job_id), tenant=row.tenant, fence=row.fence)
    return _without_unresolved(rows)


def _without_unresolved(works: list[Work]) -> list[Work]:
    """The works whose payload was resolved. The others fail here: no worker may see them."""
    finisher, left = Finisher(flush_seconds=0), []
    for work in works:
        if isinstance(work.row.payload, Unresolved):
            finisher.add(work.row, unresolved(work.row.payload), seconds=0.0, trace=trace_of(work.row))
        else:
            left.append(work)
    finisher.flush()
    return left


def _announce(tenant_id: int, job_types: Sequence[str], capacity: int, worker: str) -> None:
    """Let beats, ``explain`` and the console know of the worker and its queues. The name carries the tenant's mark, as
    workers choose their names freely.
    """
    name = f"{worker}@{tenant_id}"
    now = time.monotonic()
    if _announced.get(name, (0.0, ()))[1] == tuple(job_types) and now < _announced[name][0]:
        return
    queues = [f"jobs.{stored_name(shown_name(job_type), tenant_id=tenant_id)}" for job_type in job_types]
    workers.announce(name=name, queues=queues, concurrency=capacity)
    if len(_announced) >= MAX_REMEMBERED:
        _announced.clear()
    _announced[name] = (now + workers.ANNOUNCED_EVERY.total_seconds(), tuple(job_types))
