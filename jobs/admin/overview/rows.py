"""The rows of the first page's tables: figures with the links to the rows that they count."""

from datetime import timedelta
from typing import Any

from jobs.admin.overview.links import Links
from jobs.admin.shared.cells import NOTHING
from jobs.core.instants import span
from jobs.core.judgement import TypeFigures
from jobs.explain.wellbeing import Condition
from jobs.store.insight import clocks
from jobs.store.insight.overview import MAX_DUE

#: Tenants may declare as many types as they like.
MAX_TYPES = 40
MAX_CLOCKS = 20
#: From this percentage on a bar warns.
NEARLY_FULL = 90


def cell(text: object, url: str | None = None, *, links: object = True) -> dict[str, Any]:
    """A text that leads to ``url``, where there is something to look at."""
    return {"text": text, "url": url if links else None}


def tenant_rows(found: Condition, links: Links) -> list[dict[str, Any]]:
    """The worst tenants first, as ``jobs.explain.work`` has them."""
    rows = []
    for tenant in found.figures.tenants:
        share = round(100 * tenant.in_flight / max(1, tenant.cap))
        skipped = tenant.missed + tenant.overlapped
        rows.append(
            {
                "tenant": cell(tenant.slug, links.tenant(tenant.id)),
                "status": "" if tenant.is_active else "not active",
                "in_flight": cell(
                    f"{tenant.in_flight:,} of {tenant.cap:,}",
                    links.triggers(tab="running", tenant__id__exact=tenant.id),
                    links=tenant.in_flight,
                ),
                "share": min(share, 100),
                "is_nearly_full": share >= NEARLY_FULL,
                "due": cell(
                    _bounded(tenant.due) if tenant.due_seconds else 0,
                    links.triggers(tab="late", tenant__id__exact=tenant.id),
                    links=tenant.due_seconds,
                ),
                "oldest": _lasting(tenant.due_seconds),
                "skipped": cell(
                    f"{skipped:,}",
                    links.triggers(state__exact="skipped", tenant__id__exact=tenant.id),
                    links=skipped,
                ),
                "dead": cell(f"{tenant.dead:,}", links.dead_letters(tenant=tenant.id), links=tenant.dead),
            }
        )
    return rows


def type_rows(found: Condition, links: Links) -> list[dict[str, Any]]:
    """The types with the oldest waiting work first; those without any, by name."""
    types = sorted(
        found.figures.types.values(),
        key=lambda one: (
            -round(max(one.due_seconds, one.queued_seconds)),
            -one.queued,
            -one.running,
            one.name,
        ),
    )
    return [_type_row(one, found, links) for one in types[:MAX_TYPES]]


def _type_row(one: TypeFigures, found: Condition, links: Links) -> dict[str, Any]:
    serving = [worker for worker in found.figures.workers if one.name in worker.takes]
    return {
        # A beat opens the queue before anything is dispatched into it; until then it has no page.
        "name": cell(one.name, links.job_type(one.name), links=one.window),
        "paused": one.paused is not None,
        "queued": cell(f"{one.queued:,}", links.triggers(tab="queued", job_type=one.name), links=one.queued),
        "window": NOTHING if one.window is None else f"{one.window:,}",
        "running": cell(
            f"{one.running:,}", links.triggers(tab="running", job_type=one.name), links=one.running
        ),
        "workers": len(serving),
        "slots": sum(worker.slots for worker in serving),
        "is_unserved": not serving and bool(one.queued or one.due_seconds),
        "queued_for": _lasting(one.queued_seconds) if one.queued else NOTHING,
        "due_for": _lasting(one.due_seconds),
    }


def beat_rows(found: Condition) -> list[dict[str, Any]]:
    """The leader, or the last one, then the beats that stand by."""
    leader = found.figures.leader
    rows = []
    if leader is not None:
        leads = leader.seconds_left > 0
        term = next((row.term for row in found.seen.leases if row.name == "leader"), 0)
        lease = f"lease for another {_lasting(leader.seconds_left)}" if leads else "lease expired"
        if not leads:
            lease = f"lease expired {_lasting(-leader.seconds_left)} ago"
        rows.append(
            {
                "name": leader.holder,
                "role": "leads" if leads else "led last",
                "about": f"term {term}, {lease}",
            }
        )
    lead_mark = _process_of(leader.holder) if leader is not None else ""
    for name in found.beats:
        mark = name.removeprefix("beat@")
        if mark == lead_mark and leader is not None and leader.seconds_left > 0:
            continue
        if mark != lead_mark:
            rows.append({"name": mark, "role": "standby", "about": ""})
    return rows


def _process_of(holder: str) -> str:
    """``host:pid`` of a lease's holder, which ends in a mark of its own."""
    return holder.rpartition(":")[0]


def clock_rows(found: Condition, *, limit: int = MAX_CLOCKS) -> list[dict[str, Any]]:
    """The clocks of processes against the database's, those furthest off first."""
    return [
        {
            "name": row.name,
            "offset": f"{row.offset_seconds:+.3f} s",
            "far": abs(row.offset_seconds) - row.within_seconds > clocks.TOLERATED_SECONDS,
        }
        for row in found.seen.clocks[:limit]
    ]


def _bounded(count: int) -> str:
    return f"{count:,}{'+' if count >= MAX_DUE else ''}"


def _lasting(seconds: float) -> str:
    return span(timedelta(seconds=seconds)) if seconds > 0 else NOTHING
