"""What one may do to a job on its page. Every write is one of ``jobs.actions``."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse
from unfold.enums import ActionVariant

from jobs.actions import jobs as actions
from jobs.admin.shared.writes import OperableAdmin, button
from jobs.core.states import JobStatus

#: The buttons that can succeed, by the job's status.
FITTING = {
    JobStatus.ACTIVE: ("run_now", "pause", "cancel", "delete_for_good"),
    JobStatus.PAUSED: ("resume", "cancel", "delete_for_good"),
    JobStatus.COMPLETED: ("run_now", "delete_for_good"),
    JobStatus.CANCELLED: ("delete_for_good",),
}


class JobButtons(OperableAdmin):
    @button("Run now", asks="One firing more, due at once, beside the schedule.", icon="play_arrow")
    def run_now(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        return self._act(request, object_id, actions.run_job_now, done="Fired once more.")

    @button("Pause", asks="Nothing more of it starts until it is resumed; what runs finishes.", icon="pause")
    def pause(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        return self._act(request, object_id, actions.pause_job, done="Paused.")

    @button("Resume", asks="It goes on from now; what fell due meanwhile is skipped.", icon="resume")
    def resume(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        return self._act(request, object_id, actions.resume_job, done="Resumed.")

    @button(
        "Cancel",
        asks="It ends for good: what waits is cancelled, what runs is asked to stop. This cannot be undone.",
        icon="cancel",
        variant=ActionVariant.DANGER,
        confirm="End this job",
        dismiss="Keep it",
    )
    def cancel(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        return self._act(request, object_id, actions.cancel_job, done="Cancelled.")

    @button(
        "Delete",
        asks="It is cancelled and taken out of sight; its name is free again and its history stays.",
        icon="delete",
        permission="remove",
        variant=ActionVariant.DANGER,
        confirm="Delete this job",
        dismiss="Keep it",
    )
    def delete_for_good(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        url = reverse("admin:jobs_job_changelist")
        return self._act(request, object_id, actions.delete_job, done="Deleted.", url=url)

    def _act(
        self, request: HttpRequest, object_id: str, act: Callable[..., Any], *, done: str, url: str = ""
    ) -> HttpResponseBase:
        job = self.row(request, object_id)
        return self.carry_out(request, job, lambda: act(tenant=job.tenant, job_id=job.id), done=done, url=url)

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        job = self.get_object(request, object_id)
        fitting = FITTING[JobStatus(job.status)] if job is not None and job.deleted_at is None else ()
        return [action for action in super().get_actions_detail(request, object_id) if action.path in fitting]
