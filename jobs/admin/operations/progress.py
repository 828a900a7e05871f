"""How far operations have come: fragments that their pages fetch again while they are looked at."""

from typing import Any
from uuid import UUID

from django.http import Http404
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobs.actions.bulk import operations as actions
from jobs.admin.shared.cells import NOTHING, job_link, state_label, trigger_link
from jobs.admin.shared.pages import ConsolePage
from jobs.models import Job, Operation
from jobs.models.operation import RUN_VERBS, TRIGGER_VERBS
from tenants.console.reach import held_to_reach

MAX_SHOWN = 20


def progress(operation: Operation) -> dict[str, Any]:
    """The figures of an operation that change while it runs. ``percent``: None where the matches were not counted."""
    looked_at = operation.done + operation.refused
    percent = None
    if operation.finished_at is not None and not operation.cancelled:
        percent = 100
    elif operation.expected:
        percent = min(99, 100 * looked_at // operation.expected)
    return {
        "operation": operation,
        "what": operation.verb.replace("_", " "),
        "url": reverse("admin:jobs_operation_change", args=[operation.pk]),
        "status": state_label(actions.status_of(operation)),
        "goes_on": operation.finished_at is None,
        "looked_at": looked_at,
        "percent": percent,
        "asked_by": (operation.asked_by or {}).get("name", NOTHING),
    }


def refusals(operation: Operation) -> list[tuple[SafeString, str]]:
    """The first rows that refused, as links where they have a page, with the reason."""
    told = [(UUID(one["id"]), one["detail"]) for one in operation.refusals]
    if operation.verb in TRIGGER_VERBS:
        return [(trigger_link(one, str(one)), why) for one, why in told]
    if operation.verb in RUN_VERBS:
        return [(format_html("{}", one), why) for one, why in told]
    names = dict(Job.objects.filter(id__in=[one for one, _ in told]).values_list("id", "name"))
    return [(job_link(one, names.get(one, str(one))), why) for one, why in told]


def refusals_cell(operation: Operation) -> str:
    """``refusals`` as a list; a dash where no row refused."""
    items = [format_html("<li>{}: {}</li>", link, why) for link, why in refusals(operation)]
    if not items:
        return NOTHING
    return format_html("<ul>{}</ul>", SafeString("".join(items)))


class UnfinishedOperations(ConsolePage):
    """The operations that run or are paused, above the list of operations."""

    title = "Unfinished operations"
    permission = "jobs.view_operation"
    template_name = "admin/jobs/operation/unfinished.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        rows = held_to_reach(self.request.user, Operation.objects.filter(finished_at=None))
        shown = list(rows.select_related("tenant").order_by("-updated_at")[: MAX_SHOWN + 1])
        return super().get_context_data(
            unfinished=[progress(row) for row in shown[:MAX_SHOWN]], more=len(shown) > MAX_SHOWN, **kwargs
        )


class OperationProgress(ConsolePage):
    """The progress of one operation, on its page."""

    title = "Operation"
    permission = "jobs.view_operation"
    template_name = "admin/jobs/operation/progress.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        rows = held_to_reach(self.request.user, Operation.objects.filter(pk=kwargs["operation_id"]))
        operation = rows.first()
        if operation is None:
            raise Http404
        return super().get_context_data(progress=progress(operation), **kwargs)
