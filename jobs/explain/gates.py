"""The gates that hold for all triggers alike: time, job, tenant, leader, caps, rates and the queue's window.

Each function decides one gate from a row of ``trigger_facts``, by the figures and comparisons of dispatch. Where the
figures are of all tenants together, the gate says whether there is room and counts only the tenant's own: the load of
other tenants is their own matter.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from jobs.conf import engine_settings
from jobs.core.errors import InvalidInput
from jobs.core.levers import lower_cap
from jobs.core.levers.breaker import Admits, BreakerState
from jobs.core.levers.targets import Limits
from jobs.core.policies import LEAST_URGENT
from jobs.core.pull import shown_name
from jobs.core.states import JobStatus, TriggerState
from jobs.explain.gate import Gate, moment, span
from jobs.handlers import JobType, registry
from jobs.limits import Bucket, target_bucket, tenant_bucket
from jobs.models import PullType
from jobs.store.dispatch import breakers, targets
from jobs.store.dispatch.queues import urgent_room

#: How many firings a bucket would grant now; None when it cannot be asked (then each beat counts by itself).
Available = Callable[[Bucket], int | None]


def due(fact: Any) -> Gate:
    if fact.state == TriggerState.RETRYING:
        return Gate("due", True, f"Fell due for {moment(fact.scheduled_for)}.")
    if fact.due_at <= fact.now:
        ago = span(fact.now - fact.due_at)
        return Gate("due", True, f"Due since {moment(fact.due_at)}, {ago} ago.")
    ahead = span(fact.due_at - fact.now)
    return Gate("due", False, f"Falls due at {moment(fact.due_at)}, in {ahead}.", opens_at=fact.due_at)


def job(fact: Any) -> Gate:
    if fact.deleted_at is not None:
        return Gate("job", False, "Its job is deleted.")
    if fact.job_status not in (JobStatus.ACTIVE, JobStatus.COMPLETED):
        detail = f"Its job is {status_told(fact.job_status, fact)}."
        return Gate("job", False, detail, opens_at=fact.paused_until)
    if fact.held and not fact.parked:
        return Gate(
            "job",
            False,
            "It is held, for example because its job was paused; it is released when the job is resumed.",
        )
    return Gate("job", True, f"Its job is {fact.job_status}.")


def status_told(status: str, row: Any) -> str:
    """``paused until 2030-01-31T02:00:00Z: The target answered 410 Gone``. ``row``: a job, or the facts of one."""
    until = f" until {moment(row.paused_until)}" if row.paused_until else ""
    return f"{status}{until}: {row.status_reason.rstrip('.')}" if row.status_reason else f"{status}{until}"


def tenant(fact: Any) -> Gate:
    effects = {
        "suspended": "nothing of it is dispatched, and due triggers wait",
        "frozen": "due firings are skipped, and those that were tried before wait",
    }
    effect = effects.get(fact.tenant_status)
    if effect is None:
        return Gate("tenant", True, f"Tenant {fact.tenant} is {fact.tenant_status}.")
    return Gate("tenant", False, f"Tenant {fact.tenant} is {fact.tenant_status}: {effect}.")


def leader(fact: Any) -> Gate:
    if not engine_settings().leader_election:
        return Gate("leader", True, "Leader election is off: every beat dispatches.")
    if fact.led_until is None:
        return Gate("leader", False, "No beat has ever led, so nothing is dispatched; start one.")
    if fact.led_until > fact.now:
        return Gate("leader", True, "A beat leads.")
    since = f"since {moment(fact.led_until)}, for {span(fact.now - fact.led_until)}"
    return Gate("leader", False, f"No beat leads {since}, so nothing is dispatched; start one.")


def dispatch(fact: Any) -> Gate:
    since = fact.dispatch_stopped_at
    if since is None:
        return Gate("dispatch", True, "Dispatch is not stopped.")
    detail = f"Dispatch is stopped since {moment(since)} by an operator, for all tenants: {_told(fact.stop_reason)}"
    return Gate("dispatch", False, detail)


def job_type(fact: Any) -> Gate:
    name, since = shown_name(fact.job_type), fact.type_paused_at
    if since is None:
        return Gate("job_type", True, f"Job type {name} is not paused.")
    why = _told(fact.type_pause_reason)
    return Gate("job_type", False, f"Job type {name} is paused since {moment(since)} by an operator: {why}")


def _told(reason: str) -> str:
    return f"{reason.rstrip('.')}."


def tenant_cap(fact: Any) -> Gate:
    used, limit = fact.tenant_in_flight, fact.tenant_max_in_flight
    detail = f"Tenant {fact.tenant}: {used:,} of {limit:,} in flight."
    return Gate("tenant_cap", used < limit, detail, limit=limit, used=used)


def tenant_rate(fact: Any, available: Available) -> Gate:
    bucket = tenant_bucket(fact.tenant_id, fact.rate_per_second, fact.rate_burst)
    return _rate("tenant_rate", f"Tenant {fact.tenant}", bucket, fact, available)


def target(fact: Any, limits: Limits) -> Gate:
    if not fact.target:
        return Gate("target", True, "It has no target.")
    rule, cap = limits.paused_by, limits.max_in_flight
    if rule is not None:
        name = (
            f"Target {fact.target}"
            if rule.pattern == fact.target
            else f"Target {fact.target}, as {rule.pattern},"
        )
        since = f" since {moment(rule.since)}" if rule.since else ""
        return Gate("target", False, f"{name} is paused{since} by an operator: {_told(rule.reason)}")
    if cap is None or fact.state == TriggerState.QUEUED:
        return Gate("target", True, f"Target {fact.target} is not paused.")
    has_room = targets.rooms_of({fact.target: cap})[fact.target] > 0
    room = "has room" if has_room else "is full"
    return Gate("target", has_room, f"Target {fact.target} {room}: {cap:,} at most in flight.", limit=cap)


def breaker(fact: Any) -> Gate:
    if not fact.target or not fact.circuit_breaker:
        return Gate("breaker", True, f"Tenant {fact.tenant} has no circuit breaker for it.")
    found = breakers.find([(fact.tenant_id, fact.target)])
    whose = f"The circuit breaker of tenant {fact.tenant} for {fact.target}"
    if not found or found[0].state == BreakerState.CLOSED:
        return Gate("breaker", True, f"{whose} is closed.")
    [row] = found
    if row.probe_id == fact.id and fact.state == TriggerState.QUEUED:
        return Gate("breaker", True, f"{whose} lets this call through, to test whether the target is back.")
    if breakers.admits(row) is Admits.PROBE and fact.state != TriggerState.QUEUED:
        return Gate("breaker", True, f"{whose} is open, and lets one call through now.")
    since = f"{whose} is open since {moment(row.changed_at)}, because calls to it failed"
    if row.state == BreakerState.HALF_OPEN:
        return Gate(
            "breaker", False, f"{since}: another call tests whether it is back.", blockers=(row.probe_id,)
        )
    opens = f"one call may test whether it is back from {moment(row.probe_at)}"
    return Gate("breaker", False, f"{since}: {opens}.", opens_at=row.probe_at)


def target_rate(fact: Any, limits: Limits, available: Available) -> Gate:
    bucket = target_bucket(fact.target, limits.rate_per_second)
    who = f"Target {fact.target}" if fact.target else "It has no target"
    if fact.parked_until is not None and fact.parked_until > fact.now and not fact.parked_for:
        turn = f"its turn comes at {moment(fact.parked_until)}, in {span(fact.parked_until - fact.now)}"
        limit = bucket.per_second if bucket else None
        why = f"{who} is called no faster"
        if bucket is None:  # or it had a rate until just now
            why = "The tenant reached its limit of attempts in a worker process"
        return Gate("target_rate", False, f"{why}: {turn}.", opens_at=fact.parked_until, limit=limit)
    return _rate("target_rate", who, bucket, fact, available, of_all=True)


def _rate(
    name: str, who: str, bucket: Bucket | None, fact: Any, available: Available, *, of_all: bool = False
) -> Gate:
    if bucket is None:
        return Gate(name, True, f"{who}: no rate limit.")
    limit, figures = bucket.per_second, f"{bucket.per_second:g} a second, {bucket.burst:,} at once"
    tokens = available(bucket)
    if tokens is None:
        return Gate(
            name,
            True,
            f"{who}: {figures}; the limits cannot be read, and each beat counts by itself.",
            limit=limit,
        )
    used = None if of_all else bucket.burst - tokens
    if tokens:
        detail = f"{who}: {figures}; {'some' if of_all else f'{tokens:,} more'} may go now."
        return Gate(name, True, detail, limit=limit, used=used)
    opens_at = fact.now + timedelta(seconds=1 / bucket.per_second)
    return Gate(name, False, f"{who}: {figures}; none may go now.", opens_at=opens_at, limit=limit, used=used)


def type_cap(fact: Any) -> Gate:
    kind = _job_type(fact)
    if kind is None:
        return Gate(
            "type_cap",
            False,
            f"No handler is registered for job type {shown_name(fact.job_type)}; nothing serves it.",
        )
    if fact.job_type in fact.disabled_types or (isinstance(kind, JobType) and kind.is_switched_off):
        whose = f" for tenant {fact.tenant}" if fact.job_type in fact.disabled_types else ""
        detail = f"Job type {kind.name} is switched off{whose}: dispatched triggers end as type_switched_off."
        return Gate("type_cap", True, detail, used=fact.own_in_flight)
    own, limit = fact.own_in_flight, lower_cap(kind.max_in_flight, fact.operators_cap)
    if limit is None:
        return Gate("type_cap", True, f"Job type {kind.name}: no limit.", used=own)
    has_room = fact.type_in_flight < limit
    room = "has room" if has_room else "is full"
    whose = "" if limit == kind.max_in_flight else ", set by an operator"
    detail = f"Job type {kind.name} {room}: {limit:,} at most in flight{whose}, {own:,} of yours are."
    return Gate("type_cap", has_room, detail, limit=limit, used=own)


def queue_window(fact: Any) -> Gate:
    window = fact.queue_window or engine_settings().queue_window_initial
    own, has_room = fact.own_queued, fact.type_queued < window
    room = "has room" if has_room else "is full until its workers have taken some"
    if not has_room and fact.priority <= LEAST_URGENT:
        has_room = urgent_room(engine_settings().urgent_window, fact.type_urgent_queued) > 0
        room = "is full, and has room for critical and high" if has_room else room
    detail = f"Queue jobs.{shown_name(fact.job_type)} {room}; {own:,} of yours wait there."
    return Gate("queue_window", has_room, detail, used=own)


def _job_type(fact: Any) -> JobType | PullType | None:
    try:
        return registry.get(fact.job_type)
    except InvalidInput:
        return PullType.objects.filter(job_type=fact.job_type).first()
