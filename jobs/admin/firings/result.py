"""Celery's result of each message (django-celery-results): a batch's summary. Read-only, found by Celery task id."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django_celery_results import admin as theirs  # noqa: F401  # it registers the models that are unregistered here
from django_celery_results.models import GroupResult, TaskResult
from unfold.contrib.filters.admin import ChoicesDropdownFilter

from jobs.admin.shared.cells import flower_url, instant_cell, state_label, text_cell
from jobs.admin.shared.lists import ReadOnlyAdmin

admin.site.unregister(GroupResult)  # Carillon has no groups
admin.site.unregister(TaskResult)


@admin.register(TaskResult)
class ResultAdmin(ReadOnlyAdmin):
    of_history = True
    list_display = ("task_id", "task_name", "shown_status", "worker", "done")
    list_filter = (("status", ChoicesDropdownFilter),)
    search_fields = ("task_id",)
    search_help_text = "Exact Celery task id"
    found_by = ("task_id",)
    fieldsets = (
        (None, {"fields": ("task_id", ("task_name", "shown_status"), ("worker", "done"), "flower")}),
        ("Outcome", {"fields": ("summary", "shown_traceback")}),
    )

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """By key, or by the Celery task id that attempts record."""
        return super().get_object(request, object_id, None if object_id.isdigit() else "task_id")

    def search_by_text(self, queryset: QuerySet[Any], text: str) -> QuerySet[Any]:
        return queryset.filter(task_id=text)

    @admin.display(description="status")
    def shown_status(self, result: TaskResult) -> str:
        return state_label(result.status)

    @admin.display(description="done")
    def done(self, result: TaskResult) -> str:
        return instant_cell(result.date_done)

    @admin.display(description="Flower")
    def flower(self, result: TaskResult) -> str:
        return flower_url(result.task_id)

    @admin.display(description="summary")
    def summary(self, result: TaskResult) -> str:
        return text_cell(result.result or "")

    @admin.display(description="traceback")
    def shown_traceback(self, result: TaskResult) -> str:
        return text_cell(result.traceback or "")
