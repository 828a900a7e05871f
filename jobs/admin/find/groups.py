"""The palette's findings, by kind. Each kind is one bounded read of an index, shown to users who may see its rows.

An operator who is bound to tenants finds only rows of these tenants.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse

from jobs.admin.find.terms import Ids, Key, ids_of, key_of, tenant_and_name
from jobs.admin.shared.cells import instant_text
from jobs.admin.shared.navigation import navigation
from jobs.models import Attempt, Job, Operation, Trigger, Workflow, WorkflowRun
from jobs.models.fields import instant_of
from jobs.selection.workflows import named_workflows
from jobs.store.insight import find
from tenants.console.reach import held_to_reach
from tenants.models import Tenant

#: So many rows of each kind are shown.
MAX_SHOWN = 10
#: Tenants whose jobs are looked for by name alone.
MAX_TENANTS = 1000
#: How far clocks of workers and callers may be from the database's.
_CLOCKS_APART = timedelta(minutes=10)


class Hit(NamedTuple):
    title: str
    detail: str
    link: str
    icon: str


class Group(NamedTuple):
    """``more``: more rows match than are shown."""

    title: str
    hits: list[Hit]
    more: bool


def groups(request: HttpRequest, text: str) -> list[Group]:
    """The rows that ``text`` may mean to the user of ``request``."""
    user: Any = request.user
    ids, key = ids_of(text), key_of(text)
    found: list[tuple[str, list[Hit]]] = [("Pages", list(_pages(request, text)))]
    if _may_view(user, "tenants.view_tenant"):
        found.append(("Tenants", [_tenant(row) for row in _tenants(user, text)]))
    if _may_view(user, "jobs.view_job"):
        rows = _by_id(user, Job, ids).select_related("tenant") if ids else []
        found.append(("Jobs", [*(_job(row, row.tenant.slug) for row in rows), *_named(user, text)]))
    if _may_view(user, "jobs.view_trigger"):
        triggers = _by_id(user, Trigger, ids) if ids else _by_key(user, key) if key else None
        if triggers is not None:
            found.append(("Triggers", [_trigger(row) for row in triggers.select_related("job", "tenant")]))
    if ids and _may_view(user, "jobs.view_attempt"):
        found.append(("Attempts", [_attempt(row) for row in _attempts(user, ids)]))
    found += _workflows(user, text, ids)
    if ids and _may_view(user, "jobs.view_operation"):
        rows = _by_id(user, Operation, ids).select_related("tenant")
        found.append(("Operations", [_operation(row) for row in rows]))
    return [Group(title, hits[:MAX_SHOWN], len(hits) > MAX_SHOWN) for title, hits in found if hits]


def _workflows(user: Any, text: str, ids: Ids | None) -> Iterator[tuple[str, list[Hit]]]:
    """Workflows and runs by id, and workflows by the beginning of their name."""
    if _may_view(user, "jobs.view_workflow"):
        rows = [*(_by_id(user, Workflow, ids).select_related("tenant") if ids else ())]
        yield "Workflows", [_workflow(row) for row in (*rows, *_workflows_named(user, text))]
    if ids and _may_view(user, "jobs.view_workflowrun"):
        runs = _by_id(user, WorkflowRun, ids).defer("input").select_related("tenant", "workflow")
        yield "Workflow runs", [_run(row) for row in runs]


def _workflows_named(user: Any, text: str) -> QuerySet[Workflow]:
    """Workflows of all tenants within reach, or of the one whose slug stands before a slash."""
    slugs = held_to_reach(user, Tenant.objects.all(), tenant="pk").order_by("slug")
    ids = dict(slugs.values_list("slug", "pk")[:MAX_TENANTS])
    found = named_workflows(text, tenant_ids=ids.values())
    if (pair := tenant_and_name(text)) and pair[0] in ids:
        found |= named_workflows(pair[1], tenant_ids=[ids[pair[0]]])
    return found.select_related("tenant")[: MAX_SHOWN + 1]


def _may_view(user: Any, permission: str) -> bool:
    return bool(user.has_perm(permission) or user.has_perm(permission.replace(".view_", ".change_")))


def _pages(request: HttpRequest, text: str) -> Iterator[Hit]:
    for section in navigation(request):
        for entry in section["items"]:
            if text.lower() in entry["title"].lower():
                yield Hit(entry["title"], "page", str(entry["link"]), entry["icon"])


def _tenants(user: Any, text: str) -> QuerySet[Tenant]:
    rows = Tenant.objects.filter(slug__startswith=text.lower())
    return held_to_reach(user, rows, tenant="pk").order_by("slug")[: MAX_SHOWN + 1]


def _named(user: Any, text: str) -> list[Hit]:
    """Jobs by the beginning of their name: of all tenants, or of the one whose slug stands before a slash."""
    within = held_to_reach(user, Tenant.objects.all(), tenant="pk").order_by("slug")
    hits = _names(within, text)
    if pair := tenant_and_name(text):
        slug, name = pair
        hits = _names(within.filter(slug=slug), name) + hits
    return hits


def _names(within: QuerySet[Tenant], prefix: str) -> list[Hit]:
    slugs = dict(within.values_list("pk", "slug")[:MAX_TENANTS])
    rows = find.names(prefix, tenant_ids=list(slugs), limit=MAX_SHOWN + 1)
    return [_job(row, slugs[row.tenant_id]) for row in rows]


def _by_id(user: Any, model: Any, ids: Ids) -> QuerySet[Any]:
    """The rows within a range of the primary key, the newest first."""
    rows = held_to_reach(user, model.objects.filter(id__gte=ids.first, id__lte=ids.last))
    return rows.order_by("-id")[: MAX_SHOWN + 1]


def _attempts(user: Any, ids: Ids) -> QuerySet[Attempt]:
    """Attempts by id, and by the time that the ids tell: so only one or two partitions are looked at."""
    since, until = instant_of(ids.first), instant_of(ids.last)
    rows = Attempt.objects.filter(
        id__gte=ids.first,
        id__lte=ids.last,
        started_at__gte=since - _CLOCKS_APART,
        started_at__lte=until + _CLOCKS_APART,
    )
    return held_to_reach(user, rows).order_by("-id")[: MAX_SHOWN + 1]


def _by_key(user: Any, key: Key) -> QuerySet[Trigger]:
    """A key names its job; the instant, or the time of a run now, leads to the firing by ``trigger_one_per_firing``."""
    rows = Trigger.objects.filter(job_id=key.job_id)
    if key.scheduled_for is not None:
        rows = rows.filter(scheduled_for=key.scheduled_for)
    elif key.run_id is not None:
        about = instant_of(key.run_id)
        rows = rows.filter(
            scheduled_for__gte=about - _CLOCKS_APART,
            scheduled_for__lte=about + _CLOCKS_APART,
            idempotency_key=key.text,
        )
    return held_to_reach(user, rows).order_by("-scheduled_for")[: MAX_SHOWN + 1]


def _link(page: str, pk: object) -> str:
    return reverse(f"admin:{page}_change", args=[pk])


def _tenant(row: Tenant) -> Hit:
    return Hit(row.slug, f"{row.name}, {row.status}", _link("tenants_tenant", row.pk), "apartment")


def _job(row: Any, slug: str) -> Hit:
    return Hit(f"{slug}/{row.name}", row.status, _link("jobs_job", row.id), "event_repeat")


def _trigger(row: Trigger) -> Hit:
    what = f"{row.state} {row.reason}".strip().replace("_", " ")
    detail = f"{what}, {instant_text(row.scheduled_for)}, {row.id}"
    return Hit(f"{row.tenant.slug}/{row.job.name}", detail, _link("jobs_trigger", row.id), "bolt")


def _attempt(row: Attempt) -> Hit:
    detail = f"{row.state.replace('_', ' ')}, {instant_text(row.started_at)}, {row.id}"
    return Hit(f"attempt {row.number}", detail, _link("jobs_attempt", row.id), "replay")


def _workflow(row: Workflow) -> Hit:
    detail = "deleted" if row.deleted_at else f"version {row.version}"
    return Hit(f"{row.tenant.slug}/{row.name}", detail, _link("jobs_workflow", row.id), "account_tree")


def _run(row: WorkflowRun) -> Hit:
    detail = f"{row.state}, {instant_text(row.scheduled_for)}, {row.id}"
    return Hit(f"{row.tenant.slug}/{row.workflow.name}", detail, _link("jobs_workflowrun", row.id), "schema")


def _operation(row: Operation) -> Hit:
    detail = f"{instant_text(row.created_at)}, {row.id}"
    what = f"{row.verb.replace('_', ' ')}, {row.tenant.slug}"
    return Hit(what, detail, _link("jobs_operation", row.id), "checklist")
