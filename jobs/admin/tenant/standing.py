"""How a tenant stands: use beside each limit, waits, due, skipped and dead firings, failing jobs. Reads are bounded.

The figures are those of ``GET /tenant`` (``jobs.explain.tenant_usage``). The reason is the explanation of the firing
that waits longest. Counts of a day come from tallies.
"""

from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from jobs.admin.shared.cells import NOTHING, instant_text, work_url
from jobs.core.activity import BURIALS, SKIPS
from jobs.core.errors import NotFound
from jobs.core.policies import Priority
from jobs.core.pull import shown_name
from jobs.explain import explain_trigger, tenant_usage
from jobs.models import Job
from jobs.store.db import StatementFailed
from jobs.store.insight.outcomes import WINDOWS
from jobs.store.insight.series.totals import totals
from jobs.store.insight.usage import LATELY, MAX_FAILED_ATTEMPTS, MAX_OF_LANE, backlog, failing_jobs
from tenants.models import Tenant

NEARLY = 90
_LATELY_TEXT = f"{LATELY.total_seconds() / 3600:.0f} hours"


def standing_of(tenant: Tenant) -> dict[str, Any]:
    """The context of ``templates/admin/tenants/tenant/standing.html``. A constant number of statements."""
    usage = tenant_usage(tenant)
    lanes = backlog(tenant.pk)
    return {
        "now": _verdict(tenant, lanes),
        "limits": _limits(usage),
        "recent": _recent(usage["recent"]),
        "lanes": [_lane(row) for row in lanes],
        "ended": _ended(tenant),
        "lately": _LATELY_TEXT,
        "worst": _worst(tenant),
        "sampled": f"Counted in its latest {MAX_FAILED_ATTEMPTS:,} failed attempts.",
        "links": _links(tenant),
        "charts": urlencode({"tenant": tenant.slug}),
    }


def _verdict(tenant: Tenant, lanes: list[Any]) -> dict[str, str]:
    """Whether any firing of it waits, and why the one that waits longest does."""
    if tenant.status == Tenant.Status.SUSPENDED:
        return {"text": "It is suspended: its keys are refused, nothing of it starts, and due triggers wait."}
    if tenant.status == Tenant.Status.FROZEN:
        return {"text": "It is frozen: its keys can only read, and due firings are skipped."}
    if not lanes:
        return {"text": "No due trigger of it waits."}
    oldest = lanes[0]
    due = sum(row.count for row in lanes)
    more = any(row.count >= MAX_OF_LANE for row in lanes)
    late = f"{due:,}{'+' if more else ''} of its firings are due, the oldest for {seconds(oldest.oldest_seconds)}."
    try:
        why = explain_trigger(tenant=tenant, trigger_id=oldest.oldest_id).summary
    except NotFound:
        return {"text": late}
    return {"text": late, "why": why, "url": reverse("admin:jobs_trigger_change", args=[oldest.oldest_id])}


def _limits(usage: dict[str, Any]) -> list[dict[str, Any]]:
    limits, use = usage["limits"], usage["usage"]
    in_flight = f"{use['queued']:,} queued, {use['running']:,} running"
    allowed = use["starts_allowed_now"]
    rate = "" if allowed is None else f"{allowed:,} more may start now"
    return [
        _limit("In flight", use["in_flight"], limits["max_in_flight"], in_flight),
        _limit("Starts a second", use["starts_per_second"], limits["rate_per_second"], rate),
        _limit("Living jobs", use["jobs"], limits["max_jobs"]),
    ]


def _limit(name: str, used: float, limit: int | None, detail: str = "") -> dict[str, Any]:
    percent = 0 if limit is None else round(100 * used / limit) if limit else 100
    return {
        "name": name,
        "told": f"{_number(used)} of {limit:,}" if limit is not None else f"{_number(used)}, no limit",
        "percent": min(100, percent),
        "bar": "bg-orange-500 dark:bg-orange-500" if percent >= NEARLY else "",
        "detail": " · ".join(filter(None, (detail, _room(used, limit, percent)))),
    }


def _number(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:,.3g}"


def _room(used: float, limit: int | None, percent: int) -> str:
    if limit is None or percent < NEARLY:
        return ""
    return "full" if used >= limit else f"{percent} % used"


def _recent(recent: dict[str, Any]) -> list[tuple[str, str]]:
    waits = recent["wait_seconds"]
    share = NOTHING if recent["share"] is None else f"{recent['share']:.1%}"
    window = f"in the last {recent['seconds']:.0f} s"
    rows = [(f"Starts {window}", f"{recent['starts']:,}"), ("Share of all tenants' starts", share)]
    if waits is None:
        return [*rows, ("Waits", "nothing started in the last 5 minutes")]
    shown = [(f"Wait, {name}", seconds(waits[name])) for name in ("p50", "p95", "p99")]
    return [*rows, *shown, ("Firings in this figure", f"{recent['sample_size']:,}")]


def _lane(row: Any) -> dict[str, str]:
    return {
        "job_type": shown_name(row.job_type),
        "priority": Priority(row.priority).label,
        "count": f"{row.count:,}{'+' if row.count >= MAX_OF_LANE else ''}",
        "oldest": seconds(row.oldest_seconds),
        "url": reverse("admin:jobs_trigger_change", args=[row.oldest_id]),
    }


def _ended(tenant: Tenant) -> list[tuple[str, str]]:
    """The number of firings that ended badly or never started in the last day, by reason."""
    try:
        total = totals(tenant_ids=[tenant.pk], window=WINDOWS["24h"]).total
    except StatementFailed:
        return [("Not counted: the database took too long", NOTHING)]
    kinds = {f"skipped: {reason.replace('_', ' ')}": kind for reason, kind in SKIPS.items()}
    kinds |= {f"dead: {kind.removeprefix('buried_')}": kind for kind in BURIALS}
    kinds |= {"retried": "retried", "lease expired": "ended_lost"}
    counted = sorted(((total[kind], text) for text, kind in kinds.items() if total[kind]), reverse=True)
    return [(text, f"{number:,}") for number, text in counted]


def _worst(tenant: Tenant) -> list[dict[str, str]]:
    rows = failing_jobs(tenant.pk)
    jobs = Job.with_hidden.only("name", "workflow_id").in_bulk([row.job_id for row in rows])
    return [
        {
            "url": work_url(job),
            "name": job.name,
            "failures": f"{row.failures:,}",
            "error": row.error_code,
            "at": instant_text(row.failed_at),
        }
        for row in rows
        # Only the id is left of a job that is purged.
        for job in [jobs.get(row.job_id) or Job(id=row.job_id, name=str(row.job_id))]
    ]


def _links(tenant: Tenant) -> list[dict[str, str]]:
    """Links to the tenant's rows, each with the permission that it needs."""
    own = urlencode({"tenant__id__exact": tenant.pk})
    pages = (
        ("Jobs", "jobs_job_changelist", own, "jobs.view_job"),
        ("Triggers", "jobs_trigger_changelist", own, "jobs.view_trigger"),
        ("Dead letters", "jobs_deadletter_changelist", own, "jobs.view_trigger"),
        ("API keys", "tenants_apikey_changelist", urlencode({"q": tenant.slug}), "tenants.view_apikey"),
        ("Audit trail", "jobs_change_changelist", urlencode({"object": tenant.pk}), "jobs.view_change"),
    )
    return [
        {"text": text, "url": f"{reverse(f'admin:{page}')}?{query}", "permission": permission}
        for text, page, query, permission in pages
    ]


def seconds(number: float) -> str:
    """``400 ms``, ``69 s``, ``12 min``, ``3.5 h``."""
    if number < 1:
        return f"{number * 1000:.0f} ms"
    if number < 600:
        return f"{number:.3g} s"
    return f"{number / 60:.0f} min" if number < 7200 else f"{number / 3600:.3g} h"
