"""The acts on the list of jobs: on the ticked ones, and on all that match. Both lead to the page that asks."""

from typing import Any

from django.contrib import admin
from django.contrib.admin import helpers
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.http import urlencode
from unfold.enums import ActionVariant

from jobs.admin.job.bulk.verbs import VERBS, Verb
from jobs.models import Job
from jobs.selection.filters import MAX_IDS


def _ticked(verb: Verb) -> Any:
    @admin.action(description=f"{verb.title} the ticked", permissions=[verb.permission.partition(".")[2]])
    def act(page: Any, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse:
        ids = request.POST.getlist(helpers.ACTION_CHECKBOX_NAME)[:MAX_IDS]
        query = urlencode({"ids": ",".join(ids)})
        return HttpResponseRedirect(f"{reverse('jobs_bulk', args=[verb.name])}?{query}")

    act.__name__ = f"bulk_{verb.name}"
    return act


class InBulk:
    """Mixed into the list of jobs."""

    actions = tuple(_ticked(verb) for verb in VERBS.values())

    def has_change_job_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("jobs.change_job"))  # type: ignore[union-attr]

    def has_delete_job_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("jobs.delete_job"))  # type: ignore[union-attr]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        response = super().changelist_view(request, extra_context)  # type: ignore[misc]
        items = [
            {
                "title": f"{verb.title} all of them",
                "icon": verb.icon,
                "variant": ActionVariant.DANGER if verb.grave else ActionVariant.DEFAULT,
                "attrs": {},
                "path": f"{reverse('jobs_bulk', args=[verb.name])}?{request.GET.urlencode()}",
            }
            for verb in VERBS.values()
            if request.user.has_perm(verb.permission)  # type: ignore[union-attr]
        ]
        if isinstance(response, TemplateResponse) and response.context_data is not None and items:
            matching = {
                "title": "All that match",
                "icon": "checklist",
                "variant": ActionVariant.DEFAULT,
                "attrs": {},
                "method_name": "bulk",
                "items": items,
            }
            response.context_data["actions_list"] = [
                *(response.context_data.get("actions_list") or []),
                matching,
            ]
        return response
