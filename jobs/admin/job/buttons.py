"""The buttons of a job's page. Every write is one of ``jobs.actions``."""

from collections.abc import Callable
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.urls import URLPattern, path, reverse
from unfold.enums import ActionVariant

from jobs.actions import jobs as actions
from jobs.actions.backfill import backfill_job, cancel_backfill
from jobs.admin.job.backfills import backfills, latest_backfills
from jobs.admin.job.dialogs import BackfillForm, CancelBackfillForm, PauseForm, RunForm
from jobs.admin.job.form import _inputs_of as inputs_of
from jobs.admin.job.versions import RestoreForm, versions
from jobs.admin.shared.cells import instant_text
from jobs.admin.shared.writes import OperableAdmin, button
from jobs.core.states import JobStatus
from jobs.explain.gate import counted
from jobs.models import Job
from tenants.clock import database_now

#: The buttons that can succeed, by the job's status.
FITTING = {
    JobStatus.ACTIVE: ("run_now", "backfill", "pause", "cancel", "delete_for_good"),
    JobStatus.PAUSED: ("resume", "backfill", "cancel", "delete_for_good"),
    JobStatus.COMPLETED: ("run_now", "backfill", "delete_for_good"),
    JobStatus.CANCELLED: ("delete_for_good",),
}
#: Inputs that may hold secrets: copied only for users who may see them.
_VEILED = ("payload", "notice")
#: The parameter that names the job that the form of a new job copies.
CLONE_OF = "clone_of"


class JobButtons(OperableAdmin):
    def get_urls(self) -> list[URLPattern]:
        fragment = self.admin_site.admin_view(self.backfills_fragment)
        versions_page = self.admin_site.admin_view(self.versions_page)
        return [
            path("<path:object_id>/backfills/", fragment, name="jobs_job_backfills"),
            path("<path:object_id>/versions/", versions_page, name="jobs_job_versions"),
            *super().get_urls(),
        ]

    def backfills_fragment(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """The part that the page fetches again while a backfill is under way."""
        job = self._shown(request, object_id)
        context = {"backfills": backfills(job, now=database_now()), "job_id": job.id}
        return render(request, "admin/jobs/job/backfills.html", context)

    def versions_page(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        job = self._shown(request, object_id)
        context = self.admin_site.each_context(request) | {
            "title": f"Versions of {job.name}",
            "versions": versions(job, now=database_now()),
            "may_restore": self.has_operate_permission(request, job),
        }
        return render(request, "admin/jobs/job/versions.html", context)

    def _shown(self, request: HttpRequest, object_id: str) -> Job:
        job: Job = self.row(request, object_id)
        if not self.has_view_permission(request, job):
            raise PermissionDenied
        return job

    @button(
        "Run now",
        asks="Adds one firing, due at once, in addition to the schedule.",
        icon="play_arrow",
        form=RunForm,
    )
    def run_now(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        payload = form.cleaned_data["payload"]
        beside = form.cleaned_data["ignore_overlap"]
        own = " with its own payload" if payload is not None else ""
        return self._act(
            request,
            object_id,
            actions.run_job_now,
            done=f"Fired once more{own}{', beside running firings' if beside else ''}.",
            payload=payload,
            ignore_overlap=beside,
        )

    @button(
        "Backfill",
        asks="Runs the firings of a past stretch that never ran. The first step only counts them.",
        icon="history",
        form=BackfillForm,
    )
    def backfill(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        missing = form.extent.count - form.extent.existing
        done = f"Backfilling {counted(missing, 'firing')}."
        return self._act(request, object_id, backfill_job, done=done, **form.stretch)

    @button(
        "Pause",
        asks="No further firing starts until the job is resumed; running attempts finish.",
        icon="pause",
        form=PauseForm,
    )
    def pause(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        given = form.cleaned_data
        done = f"Paused until {instant_text(given['until'])}." if given["until"] else "Paused."
        return self._act(
            request,
            object_id,
            actions.pause_job,
            done=done,
            reason=given["reason"],
            until=given["until"],
        )

    @button(
        "Resume",
        asks="It goes on from now; firings that were due during the pause are skipped.",
        icon="resume",
    )
    def resume(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        return self._act(request, object_id, actions.resume_job, done="Resumed.")

    @button(
        "Cancel",
        asks="It ends for good: waiting triggers are cancelled, running ones are asked to stop. This cannot "
        "be undone.",
        icon="cancel",
        variant=ActionVariant.DANGER,
        confirm="End this job",
        dismiss="Keep it",
    )
    def cancel(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        return self._act(request, object_id, actions.cancel_job, done="Cancelled.")

    @button(
        "Delete",
        asks="It is cancelled and removed from all lists; its name is free again and its history stays.",
        icon="delete",
        permission="remove",
        variant=ActionVariant.DANGER,
        confirm="Delete this job",
        dismiss="Keep it",
    )
    def delete_for_good(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        url = reverse("admin:jobs_job_changelist")
        return self._act(request, object_id, actions.delete_job, done="Deleted.", url=url)

    @button(
        "Cancel backfill",
        asks="The backfill makes no more triggers; those that it has made still run.",
        icon="history_off",
        form=CancelBackfillForm,
        confirm="Cancel the backfill",
        dismiss="Keep it",
    )
    def cancel_backfill(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        wanted = form.cleaned_data["backfill"]
        return self._act(request, object_id, cancel_backfill, done="Cancelled.", backfill_id=wanted)

    @button(
        "Restore",
        asks="A new version with the definition of an old one. Running and due triggers stay.",
        icon="undo",
        form=RestoreForm,
        confirm="Restore this version",
    )
    def restore(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        number = form.cleaned_data["number"]
        return self._act(
            request,
            object_id,
            actions.update_job,
            done=f"Restored version {number}.",
            changes=form.definition,
            whole=True,
            expected_version=form.cleaned_data["present"],
        )

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """For a clone, the definition of the job that it copies. Nothing is written before the form is sent."""
        wanted = request.GET.get(CLONE_OF)
        if not wanted:
            return super().get_changeform_initial_data(request)
        job = self.row(request, wanted)
        if not self.has_view_permission(request, job):
            raise PermissionDenied
        copied = inputs_of(job)
        if not request.user.has_perm("jobs.view_payload"):  # type: ignore[union-attr]
            copied = {name: value for name, value in copied.items() if not name.startswith(_VEILED)}
        return {"tenant": job.tenant_id} | copied | {"name": "", "version": None}

    def _act(
        self,
        request: HttpRequest,
        object_id: str,
        act: Callable[..., Any],
        *,
        done: str,
        url: str = "",
        **given: Any,
    ) -> HttpResponseBase:
        job = self.row(request, object_id)
        return self.carry_out(
            request, job, lambda: act(tenant=job.tenant, job_id=job.id, **given), done=done, url=url
        )

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        job = self.get_object(request, object_id)
        fitting = FITTING[JobStatus(job.status)] if job is not None and job.deleted_at is None else ()
        if fitting and any(each.finished_at is None for each in latest_backfills(job)):
            fitting += ("cancel_backfill",)
        return [action for action in super().get_actions_detail(request, object_id) if action.path in fitting]
