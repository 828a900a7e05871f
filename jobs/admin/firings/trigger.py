"""Triggers: the ledger of expected firings. Read-only, except that a trigger may be cancelled, replayed or dismissed.

A trigger's page shows its attempts, each with links to Flower and to Celery's result of the message.
"""

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import URLPattern, path
from django.utils.html import format_html
from unfold.enums import ActionVariant
from unfold.forms import BaseDialogForm
from unfold.widgets import UnfoldAdminTextInputWidget

from jobs.actions.triggers import cancel_trigger, dismiss_trigger, replay_trigger
from jobs.admin.firings.dead_letter import DeadLetterAdmin
from jobs.admin.firings.lists import TriggerLists
from jobs.admin.shared.cells import (
    coloured_label,
    duration_cell,
    flower_url,
    id_cell,
    instant_cell,
    instant_text,
    json_cell,
    result_url,
    state_label,
    text_cell,
    trigger_link,
)
from jobs.admin.shared.veil import may_see_payloads
from jobs.admin.shared.writes import OperableAdmin, button, read_note
from jobs.core.errors import InvalidInput
from jobs.core.policies import Priority
from jobs.core.states import ENDED, UNFINISHED, TriggerState
from jobs.explain import explain_trigger
from jobs.explain.blockers import overlapped_by
from jobs.models import Attempt, Trigger
from jobs.shapes.operations import MAX_NOTE
from jobs.store.effects import duplicates_prevented

MAX_ATTEMPTS_SHOWN = 100


class NoteForm(BaseDialogForm):
    note = forms.CharField(
        max_length=MAX_NOTE,
        widget=UnfoldAdminTextInputWidget,
        help_text="Why this dead letter needs no further action.",
    )

    def clean_note(self) -> str:
        try:
            return read_note(self.cleaned_data)
        except InvalidInput as error:
            raise forms.ValidationError(error.errors["note"]) from None


@admin.register(Trigger)
class TriggerAdmin(TriggerLists, OperableAdmin):
    tenant_path = "tenant_id"
    trail_kind = "trigger"
    search_fields = ("id",)
    search_help_text = "Exact id of a trigger or a job"
    found_by = ("id", "job_id")
    fetched = ("job", "tenant")
    veiled = ("shown_payload", "shown_result", "shown_checkpoint")
    actions_detail = ("replay", "dismiss", "cancel")
    change_form_outer_before_template = "admin/jobs/trigger/why.html"
    change_form_outer_after_template = "admin/jobs/trigger/attempts.html"
    fieldsets = (
        (
            None,
            {
                "fields": (
                    "shown_id",
                    ("shown_state", "job_cell", "tenant"),
                    ("firing", "due", "shown_origin"),
                    ("shown_priority", "job_type", "job_version"),
                    ("queued", "started", "finished"),
                    ("worker", "fence", "lease_expires"),
                    ("attempt_count", "crash_count", "replay_count"),
                    ("suspect", "duplicates"),
                    "idempotency_key",
                )
            },
        ),
        ("Handler", {"fields": ("shown_payload", "shown_result", "shown_progress", "shown_checkpoint")}),
    )

    def get_urls(self) -> list[URLPattern]:
        dead, wrap = DeadLetterAdmin(Trigger, self.admin_site), self.admin_site.admin_view
        return [
            path("dead-letters/", wrap(dead.changelist_view), name="jobs_deadletter_changelist"),
            path("dead-letters/replay/", wrap(dead.replay_matching), name="jobs_deadletter_replay"),
            path("dead-letters/dismiss/", wrap(dead.dismiss_matching), name="jobs_deadletter_dismiss"),
            *super().get_urls(),
        ]

    @button(
        "Replay",
        asks="It runs once more, with a new retry budget and the same idempotency key.",
        icon="replay",
    )
    def replay(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        trigger = self.row(request, object_id)
        return self.carry_out(
            request,
            trigger,
            lambda: replay_trigger(tenant=trigger.tenant, trigger_id=trigger.id),
            done="Replayed.",
        )

    @button(
        "Dismiss",
        asks="It leaves the list of dead letters and its counts. It stays dead, and may be replayed.",
        icon="inventory_2",
        form=NoteForm,
        confirm="Dismiss it",
        dismiss="Keep it on the list",
    )
    def dismiss(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        trigger, note = self.row(request, object_id), form.cleaned_data["note"]
        return self.carry_out(
            request,
            trigger,
            lambda: dismiss_trigger(tenant=trigger.tenant, trigger_id=trigger.id, note=note),
            done="Dismissed.",
        )

    @button(
        "Cancel",
        asks="A waiting trigger is cancelled; a running one is asked to stop.",
        icon="cancel",
        variant=ActionVariant.DANGER,
        confirm="Cancel the firing",
        dismiss="Keep it",
    )
    def cancel(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        trigger = self.row(request, object_id)
        return self.carry_out(
            request,
            trigger,
            lambda: cancel_trigger(tenant=trigger.tenant, trigger_id=trigger.id),
            done="Cancelled, or asked to stop.",
        )

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        """The buttons that can succeed in the trigger's present state. Only a task's run can retry the task."""
        trigger = self.get_object(request, object_id)
        dead = () if trigger is None or trigger.dismissed_at else (TriggerState.DEAD,)
        fitting = {"replay": ENDED, "dismiss": dead, "cancel": UNFINISHED}
        return [
            action
            for action in super().get_actions_detail(request, object_id)
            if trigger is not None
            and trigger.state in fitting[action.path]
            and not (trigger.workflow_run_id and action.path == "replay")
        ]

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        context["explained"] = explained(kwargs["obj"])
        context["attempts"] = attempts_table(kwargs["obj"])
        context["payloads_shown"] = may_see_payloads(request.user)
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description="id")
    def shown_id(self, trigger: Trigger) -> str:
        return id_cell(trigger.id)

    @admin.display(description="due")
    def due(self, trigger: Trigger) -> str:
        return instant_cell(trigger.due_at)

    @admin.display(description="origin")
    def shown_origin(self, trigger: Trigger) -> str:
        return str(trigger.get_origin_display()).lower()

    @admin.display(description="priority")
    def shown_priority(self, trigger: Trigger) -> str:
        return Priority(trigger.priority).label

    @admin.display(description="queued")
    def queued(self, trigger: Trigger) -> str:
        return instant_cell(trigger.queued_at)

    @admin.display(description="started")
    def started(self, trigger: Trigger) -> str:
        return instant_cell(trigger.started_at)

    @admin.display(description="finished")
    def finished(self, trigger: Trigger) -> str:
        return instant_cell(trigger.finished_at)

    @admin.display(description="duplicate effects prevented")
    def duplicates(self, trigger: Trigger) -> int:
        return duplicates_prevented(trigger.id)

    @admin.display(description="lease expires")
    def lease_expires(self, trigger: Trigger) -> str:
        return instant_cell(trigger.lease_expires_at)

    @admin.display(description="payload")
    def shown_payload(self, trigger: Trigger) -> str:
        """Its own, where a run now was given one; else the job's, which may have been edited since."""
        own = trigger.payload is not None
        whose = "Payload of this firing, given when it was run." if own else "Present payload of the job."
        return format_html("<p>{}</p>{}", whose, json_cell(trigger.payload if own else trigger.job.payload))

    @admin.display(description="result")
    def shown_result(self, trigger: Trigger) -> str:
        return json_cell(trigger.result)

    @admin.display(description="progress")
    def shown_progress(self, trigger: Trigger) -> str:
        return json_cell(trigger.progress)

    @admin.display(description="checkpoint")
    def shown_checkpoint(self, trigger: Trigger) -> str:
        return json_cell(trigger.checkpoint)


def explained(trigger: Trigger) -> dict[str, Any]:
    """Why the trigger waits, gate by gate, or how it ended."""
    found = explain_trigger(tenant=trigger.tenant, trigger_id=trigger.id)
    running = trigger.state == TriggerState.RUNNING
    return {
        "title": "How did it end?"
        if found.ended
        else "What is it doing?"
        if running
        else "Why does it wait?",
        "summary": found.summary,
        "at": instant_text(found.fact.now),
        "overlapped_by": [
            {
                "link": trigger_link(other.id, instant_cell(other.scheduled_for)),
                "state": state_label(other.state),
                "attempts": other.attempt_count,
                "finished": instant_cell(other.finished_at) if other.finished_at else "",
            }
            for other in overlapped_by(trigger)
        ],
        "gates": [
            {
                "name": gate.name.replace("_", " "),
                "label": coloured_label(*(("passed", "success") if gate.passed else ("blocking", "warning"))),
                "detail": gate.detail,
                "blockers": [trigger_link(blocker, str(blocker)) for blocker in gate.blockers],
            }
            for gate in found.gates
        ],
    }


def attempts_table(trigger: Trigger) -> list[dict[str, Any]]:
    """The trigger's attempts for its page, the latest first; at most ``MAX_ATTEMPTS_SHOWN``.

    The output is shown of the latest attempt that has any; the others tell how much it was.
    """
    latest: list[Any] = list(
        Attempt.objects.filter(trigger_id=trigger.id).order_by("-number", "-started_at")[:MAX_ATTEMPTS_SHOWN]
    )
    spoke = [attempt for attempt in latest if attempt.output_bytes][:1]
    return [
        {
            "attempt": attempt,
            "state": state_label(attempt.state),
            "started": instant_cell(attempt.started_at),
            "duration": duration_cell(attempt.duration),
            "flower_url": attempt.celery_task_id and flower_url(attempt.celery_task_id),
            "result_url": attempt.celery_task_id and result_url(attempt.celery_task_id),
            "output": text_cell(attempt.output, scrolls=True) if attempt in spoke else "",
        }
        for attempt in latest
    ]
