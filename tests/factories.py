"""Rows for tests, in any state and by the database's clock, and the few ways in which tests read them again.

Every function takes overrides for any column. Other columns get the plainest values that satisfy the CHECKs.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID

from django.db import connection

from jobs.core.states import UNFINISHED, AttemptState, TriggerState
from jobs.limits import Admission
from jobs.models import Attempt, Job, Trigger
from jobs.models.fields import new_id
from jobs.store import dispatch as dispatch_store
from jobs.store import execution, leases
from jobs.store.dispatch import Dispatched, Memory, Rates, Window, targets
from jobs.store.execution import ClaimToken, Finish
from jobs.store.leases import Leadership
from tenants.clock import database_now
from tenants.models import Tenant

#: A leadership without a term: leader election off.
ANYONE = Leadership("tests", None)
LEASE = timedelta(seconds=30)
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
_number = count(1)


def now() -> datetime:
    """The database's clock, its offset included."""
    return database_now()


def set_clock(offset: timedelta) -> None:
    """Move this connection's clock to ``offset`` from the server's."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('carillon.clock_offset', %s, false)", [str(offset.total_seconds())])


def advance_clock(by: timedelta) -> None:
    """Move this connection's clock on, from wherever it is."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT set_config('carillon.clock_offset', (%s + coalesce(nullif(current_setting("
            "'carillon.clock_offset', true), ''), '0')::numeric)::text, false)",
            [by.total_seconds()],
        )


def make_tenant(**columns: Any) -> Tenant:
    slug = f"tenant-{next(_number)}"
    return Tenant.objects.create(**({"slug": slug, "name": slug} | columns))


def make_job(tenant: Tenant | None = None, **columns: Any) -> Job:
    """An active interval job of ``noop`` that lets firings overlap freely, with nothing left to materialize."""
    created_at = columns.pop("created_at", None) or now() - HOUR
    plain = {
        "tenant": tenant or make_tenant(),
        "name": f"job-{next(_number)}",
        "job_type": "noop",
        "schedule_type": "interval",
        "interval": MINUTE,
        "timeout": MINUTE,
        "overlap_policy": "allow",
        "max_concurrent": 1_000_000,
        "misfire_policy": "fire_all",
        "created_at": created_at,
        "updated_at": created_at,
    }
    return Job.objects.create(**(plain | columns))


def owing(firings: int) -> dict[str, Any]:
    """Columns of a job of every minute: no beat has materialized the last ``firings`` firings."""
    created_at = now() - HOUR - 30 * SECOND
    return {"created_at": created_at, "next_fire_at": created_at + (61 - firings) * MINUTE}


def _unique_moment(moment: datetime) -> datetime:
    """Within the second before ``moment``, and at an instant not given before: a job has one trigger an instant."""
    number = next(_number)
    whole_ms = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    return whole_ms - timedelta(milliseconds=number // 1000 % 1000, microseconds=-(number % 1000))


def make_trigger(job: Job | None = None, state: str = "pending", **columns: Any) -> Trigger:
    """A trigger due a second ago, with the stamps its state demands and one unspent lease if running."""
    job = job or make_job()
    state = TriggerState(state)
    moment = now()
    scheduled_for = columns.pop("scheduled_for", None) or _unique_moment(moment - SECOND)
    plain: dict[str, Any] = {
        "job": job,
        "tenant_id": job.tenant_id,
        "job_type": job.job_type,
        "job_version": job.version,
        "scheduled_for": scheduled_for,
        "due_at": scheduled_for,
        "state": state,
        "priority": job.priority,
        "created_at": moment,
    }
    if state in ("queued", "running"):
        plain |= {"fence": 1, "queued_at": moment}
    if state in ("running", "retrying", "succeeded", "dead"):
        plain |= {"fence": 1, "attempt_count": 1, "started_at": moment, "worker": "w1"}
    if state == "running":
        plain |= {"lease_expires_at": moment + LEASE}
    if state not in UNFINISHED:
        reasons = {"dead": "exhausted", "skipped": "misfire", "cancelled": "requested"}
        plain |= {"finished_at": moment, "reason": reasons.get(state, "")}
    trigger_id = columns.pop("id", None) or new_id()
    key = f"job:{job.id}:trigger:{trigger_id}"
    return Trigger.objects.create(**(plain | {"id": trigger_id, "idempotency_key": key} | columns))


def make_triggers(job: Job, number: int, state: str = "pending", **columns: Any) -> list[Trigger]:
    """``number`` triggers, the oldest first."""
    latest = columns.pop("scheduled_for", None) or now() - SECOND
    return [
        make_trigger(
            job, state, scheduled_for=latest - (number - index) * timedelta(milliseconds=10), **columns
        )
        for index in range(number)
    ]


def make_attempt(trigger: Trigger, state: str = "started", **columns: Any) -> Attempt:
    """The attempt that belongs to a trigger's present fence."""
    plain = {
        "trigger": trigger,
        "job_id": trigger.job_id,
        "tenant_id": trigger.tenant_id,
        "number": max(1, trigger.attempt_count),
        "fence": trigger.fence,
        "worker": "w1",
        "state": AttemptState(state),
        "started_at": now(),
    }
    return Attempt.objects.create(**(plain | columns))


def make_running(job: Job | None = None, **columns: Any) -> tuple[Trigger, Attempt]:
    """A trigger that a worker has claimed, and its attempt."""
    trigger = make_trigger(job, "running", **columns)
    return trigger, make_attempt(trigger)


def row(trigger: Trigger | UUID) -> dict[str, Any]:
    """Every column of a trigger as it is stored now; {} when it is gone."""
    trigger_id = trigger if isinstance(trigger, UUID) else trigger.id
    return Trigger.objects.filter(id=trigger_id).values().first() or {}


def state_of(trigger: Trigger | UUID) -> tuple[str, str]:
    """(state, reason) as stored now."""
    stored = row(trigger)
    return stored["state"], stored["reason"]


def states(triggers: Sequence[Trigger]) -> list[str]:
    return [state_of(trigger)[0] for trigger in triggers]


def attempts(trigger: Trigger | UUID) -> list[Attempt]:
    trigger_id = trigger if isinstance(trigger, UUID) else trigger.id
    return list(Attempt.objects.filter(trigger_id=trigger_id).order_by("started_at", "id"))


def claim_token(trigger: Trigger) -> ClaimToken:
    return ClaimToken(trigger.id, trigger.fence)


class _Unlimited:
    """No rate limit at all."""

    def rooms(self, tenants: Iterable[Any]) -> dict[int, int]:
        return {}

    def spend(self, counts: Mapping[int, int]) -> None:
        pass

    def admit(self, wanted: Mapping[str, tuple[int, float]]) -> dict[str, Admission]:
        return {target: Admission(count, []) for target, (count, _) in wanted.items()}


UNLIMITED = _Unlimited()


def dispatch(
    *,
    leadership: Leadership = ANYONE,
    types: Sequence[str] = ("noop",),
    window: int = 1000,
    limit: int = 100,
    rates: Rates = UNLIMITED,
    memory: Memory | None = None,
    urgent: int = 0,
    **caps: int,
) -> Dispatched:
    """One dispatch of ``types`` with the release before it, as in a beat's turn. Each of ``caps`` bounds one type.

    Without a ``memory`` it is the first dispatch of a new dispatcher.
    """
    named = dict.fromkeys(types) | caps
    dispatch_store.release(after=UUID(int=0), limit=1000)
    dispatch_store.unpark(limit=1000)
    release_targets()
    bounds = Window(initial=window, minimum=window, maximum=window, wait=SECOND, urgent=urgent)
    dispatch_store.open_queues(named, bounds)
    return dispatch_store.dispatch(
        memory=memory or Memory(),
        leadership=leadership,
        caps=named,
        window=bounds,
        limit=limit,
        rates=rates,
    )


def release_targets() -> None:
    """Show dispatch the triggers that their target lets go, as a beat does beside dispatch."""
    dispatch_store.Releasing().step(rules=targets.rules(), limit=1000)


def claim(*triggers: Trigger, lease: timedelta = LEASE, worker: str = "w1") -> list[Any]:
    """Claim with the fences that the given instances carry."""
    return execution.claim(
        tokens=[claim_token(trigger) for trigger in triggers],
        job_types=list({trigger.job_type for trigger in triggers}),
        worker=worker,
        celery_task_id="celery-1",
        lease=lease,
    )


def finish_of(trigger: Trigger, attempt: Attempt, state: str = "succeeded", **columns: Any) -> Finish:
    """An outcome to write; ``attempt_state`` follows from ``state`` unless given."""
    follows = {"succeeded": "succeeded", "cancelled": "cancelled"}.get(state, "failed")
    plain: dict[str, Any] = {
        "token": claim_token(trigger),
        "attempt_id": attempt.id,
        "attempt_started_at": attempt.started_at,
        "state": TriggerState(state),
        "attempt_state": AttemptState(columns.pop("attempt_state", follows)),
        "reason": {"dead": "exhausted", "cancelled": "requested"}.get(state, ""),
    }
    return Finish(**(plain | columns))


def take_lease(*, holder: str = "one", duration: timedelta = 10 * SECOND) -> Leadership:
    taken = leases.take(holder=holder, duration=duration)
    assert taken is not None
    return Leadership(holder, taken.term)


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)
