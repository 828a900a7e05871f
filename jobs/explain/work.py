"""The work by job type and by tenant, as figures: in flight, due, how late, and how much went wrong."""

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from datetime import datetime
from heapq import nsmallest
from operator import itemgetter
from typing import Any

from jobs.core.errors import InvalidInput
from jobs.core.judgement import Stopped, TenantFigures, TypeFigures
from jobs.core.levers import lower_cap
from jobs.handlers import registry
from jobs.models import PullType
from jobs.store.insight import overview
from jobs.store.insight.overview import Lane, Seen, Turns
from tenants.models import Tenant

#: So many due lanes are looked at closely, the latest first.
MAX_LANES = 500
#: So many tenants are looked at closely: that are late, that are busy, and that are in trouble.
MAX_LATE, MAX_BUSY, MAX_TROUBLED = 100, 100, 50
#: So many tenants are shown.
MAX_SHOWN = 20
#: In so many lanes of the shown tenants the due triggers are counted.
MAX_COUNTED = 60
_TENANT_COLUMNS = ("id", "slug", "status", "max_in_flight", "rate_per_second")


@dataclass(frozen=True, slots=True)
class Work:
    """``tenants``: the worst first, ``MAX_SHOWN`` at most. ``missed`` and ``lost``: of the hour, by job type."""

    types: Mapping[str, TypeFigures]
    tenants: tuple[TenantFigures, ...]
    missed: Mapping[str, int]
    lost: Mapping[str, int]


def work_of(seen: Seen, lanes: Mapping[Lane, datetime], turns: Turns, *, now: datetime) -> Work:
    """The work, from one look at the store. Asks for the tenants that matter, for the number of their due triggers, and
    whether dispatch turns for them.
    """
    inactive = set(
        Tenant.objects.exclude(status=Tenant.Status.ACTIVE).order_by().values_list("id", flat=True)
    )
    due = [(floor, lane) for lane, floor in lanes.items() if floor <= now and lane.tenant_id not in inactive]
    late = nsmallest(MAX_LANES, due, key=itemgetter(0))
    flying = {row.tenant_id: row.count for row in seen.in_flight if row.tenant_id is not None}
    tenants = _tenants_of(seen, late, flying)
    turning = turns.since_last({lane.tenant_id for _, lane in late})
    worst = _worst_first(_figures_of_tenants(seen, late, tenants, flying, now=now))[:MAX_SHOWN]
    shown = {tenant.id for tenant in worst}
    counts = overview.count_due([lane for _, lane in late if lane.tenant_id in shown][:MAX_COUNTED])
    types = _types_of(seen, _oldest_of_types(due), now=now)
    with_room = {lane.tenant_id for _, lane in late if _has_room(types[lane.job_type])}
    of_tenants = tuple(
        _overflowing(replace(tenant, due=counts.get(tenant.id, 0)), among=turning & with_room)
        for tenant in worst
    )
    full = {tenant.id for tenant in of_tenants if tenant.is_full}
    return Work(
        types=_with_lateness(types, late, tenants, flying, seen, turning, full, now=now),
        tenants=of_tenants,
        missed=_by_type(seen.troubles, "missed"),
        lost=_by_type(seen.troubles, "lost"),
    )


def _tenants_of(
    seen: Seen, late: Iterable[tuple[datetime, Lane]], flying: Mapping[int, int]
) -> dict[int, Any]:
    """The tenants that are late, busy or in trouble, as far as there are places."""
    ids = dict.fromkeys(lane.tenant_id for _, lane in late)
    troubled = sorted(seen.troubles, key=lambda row: -(row.missed + row.lost + row.dead))
    wanted = [
        *list(ids)[:MAX_LATE],
        *list(flying)[:MAX_BUSY],
        *[row.tenant_id for row in troubled][:MAX_TROUBLED],
    ]
    found = Tenant.objects.filter(id__in=set(wanted)).only(*_TENANT_COLUMNS)
    return {tenant.id: tenant for tenant in found}


def _oldest_of_types(due: Iterable[tuple[datetime, Lane]]) -> dict[str, datetime]:
    oldest: dict[str, datetime] = {}
    for floor, (_, job_type, _) in due:
        known = oldest.get(job_type)
        if known is None or floor < known:
            oldest[job_type] = floor
    return oldest


def _types_of(seen: Seen, oldest: Mapping[str, datetime], *, now: datetime) -> dict[str, TypeFigures]:
    """``oldest``: when the first trigger that is due fell due, by type."""
    queues = {row.job_type: row for row in seen.queues}
    counted = {(row.job_type, row.state): row for row in seen.in_flight if row.job_type is not None}
    serving = {queue.removeprefix("jobs.") for worker in seen.workers for queue in worker.queues}
    names = queues.keys() | oldest.keys() | {name for name, _ in counted} | serving
    caps = _caps(names)
    found = {}
    for name in sorted(names):
        queue, queued = queues.get(name), counted.get((name, "queued"))
        running = counted.get((name, "running"))
        found[name] = TypeFigures(
            name=name,
            queued=queued.count if queued else 0,
            queued_seconds=queued.oldest_seconds if queued else 0,
            running=running.count if running else 0,
            expired=running.expired if running else 0,
            due_seconds=(now - oldest[name]).total_seconds() if name in oldest else 0,
            window=queue.window if queue else None,
            cap=lower_cap(caps.get(name), queue.max_in_flight if queue else None),
            paused=Stopped(by=queue.paused_by, reason=queue.pause_reason, seconds=queue.paused_seconds)
            if queue and queue.paused
            else None,
        )
    return found


def _has_room(one: TypeFigures) -> bool:
    """Whether its queue and its cap let more of the type go."""
    full = one.window is None or one.queued >= one.window
    capped = one.cap is not None and one.queued + one.running >= one.cap
    return not full and not capped


def _overflowing(tenant: TenantFigures, *, among: Set[int]) -> TenantFigures:
    """Short work leaves slots free between two turns of dispatch, so a look may find some. If a flood goes on with room
    everywhere else, it waits for its own cap. ``among``: the tenants for which that holds.
    """
    return replace(tenant, overflows=True) if tenant.floods and tenant.id in among else tenant


def _with_lateness(
    types: dict[str, TypeFigures],
    late: Iterable[tuple[datetime, Lane]],
    tenants: Mapping[int, Any],
    flying: Mapping[int, int],
    seen: Seen,
    turning: Set[int],
    full: Set[int],
    *,
    now: datetime,
) -> dict[str, TypeFigures]:
    """Set for each type how late its first trigger is that has room in its tenant, its type and its queue. A trigger of
    a tenant of which nothing is dispatched goes before others. ``full``: tenants that are at their caps.
    """
    served = {queue.removeprefix("jobs.") for worker in seen.workers for queue in worker.queues}
    known = dict(types)
    for floor, lane in late:
        one, tenant, turns = known[lane.job_type], tenants.get(lane.tenant_id), lane.tenant_id in turning
        if tenant is None or tenant.rate_per_second is not None:
            continue
        if one.late_seconds and (turns or not one.turns):
            continue
        if lane.tenant_id in full or (seen.cut and lane.tenant_id not in flying):
            continue
        if flying.get(lane.tenant_id, 0) >= tenant.max_in_flight:
            continue
        if _has_room(one) and lane.job_type in served:
            known[lane.job_type] = replace(one, late_seconds=(now - floor).total_seconds(), turns=turns)
    return known


def _caps(names: Iterable[str]) -> dict[str, int | None]:
    """How many may be in flight by type, from the handlers or from the tenants that declared the types."""
    caps: dict[str, int | None] = {}
    declared = []
    for name in names:
        try:
            caps[name] = registry.get(name).max_in_flight
        except InvalidInput:
            declared.append(name)
    if declared:
        caps.update(PullType.objects.filter(job_type__in=declared).values_list("job_type", "max_in_flight"))
    return caps


def _figures_of_tenants(
    seen: Seen,
    late: Iterable[tuple[datetime, Lane]],
    tenants: Mapping[int, Any],
    flying: Mapping[int, int],
    *,
    now: datetime,
) -> list[TenantFigures]:
    due: dict[int, float] = {}
    for floor, lane in late:
        due.setdefault(lane.tenant_id, (now - floor).total_seconds())
    troubles: dict[int, Any] = {}
    for row in seen.troubles:
        of_tenant = troubles.setdefault(row.tenant_id, Counter())
        of_tenant.update(missed=row.missed, overlapped=row.overlapped, lost=row.lost, dead=row.dead)
    return [
        TenantFigures(
            id=tenant.id,
            slug=tenant.slug,
            in_flight=flying.get(tenant.id, 0),
            cap=tenant.max_in_flight,
            due_seconds=due.get(tenant.id, 0),
            is_rated=tenant.rate_per_second is not None,
            is_active=tenant.status == Tenant.Status.ACTIVE,
            **troubles.get(tenant.id, Counter()),
        )
        for tenant in tenants.values()
    ]


def _worst_first(tenants: Iterable[TenantFigures]) -> list[TenantFigures]:
    """Late ones before those that lost something, these before those that are merely busy."""
    return sorted(
        tenants,
        key=lambda one: (
            -round(one.due_seconds),
            -(one.missed + one.lost + one.dead),
            -(one.in_flight / max(1, one.cap)),
            one.slug,
        ),
    )


def _by_type(rows: Iterable[Any], kind: str) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for row in rows:
        if number := getattr(row, kind):
            counts[row.job_type] += number
    return dict(counts)
