"""The form of a job: its inputs make the API's definition, and the action that writes the job checks them.

So the console accepts and refuses exactly as the API does, in the same words. An error's path leads to its input:
``schedule.cron`` to ``schedule_cron``, ``payload.url`` to ``payload``. The write belongs to validation, because only
the transaction that writes can say whether a name is taken. A refused definition is left unwritten.
"""

import re
from typing import Any, ClassVar

from django import forms
from django.contrib import admin

from jobs.actions import definition as definitions
from jobs.actions.jobs import EditedMeanwhile, create_job, update_job
from jobs.actions.pull.types import names
from jobs.admin.editing import inputs
from jobs.admin.editing.conflict import THEIRS, Conflict, conflict, opened
from jobs.admin.editing.notices import NoticeInputs, notice_document
from jobs.admin.editing.schedule import RetryInputs, ScheduleInputs, retry_document, schedule_document
from jobs.core import errors
from jobs.core.errors import CarillonError, InvalidInput
from jobs.core.policies import Delivery, MisfirePolicy, OverlapPolicy
from jobs.handlers import registry
from jobs.models import Job
from jobs.shapes.job import PRIORITIES, Definition
from tenants.clock import database_now
from tenants.forms import RowSelect, WholeNumberField
from tenants.models import Tenant

_DEFAULTS = {name: field.default for name, field in Definition.model_fields.items()}
#: Documents with inputs of their own, with the prefix of these; and the input that shows that a whole one is wrong.
_PARTS = {"retry_policy": "retry_", "notify": "notice_"}
_HEADS = {"retry_policy": "retry_backoff", "notify": "notice_on"}


class JobForm(ScheduleInputs, RetryInputs, NoticeInputs, forms.ModelForm):
    """Creates a job of the chosen tenant, or edits its ``instance``. ``conflict``: with another user who edits it."""

    tenant = forms.ModelChoiceField(
        Tenant.objects.all(), widget=RowSelect(Job._meta.get_field("tenant"), admin.site)
    )
    name = inputs.text(help_text="Unique among the tenant's jobs. Optional for a one-time job.")
    job_type = inputs.text(
        widget=inputs.SuggestingInput(),
        help_text="A type from the list, or one that the tenant has declared for its pull workers.",
    )
    payload = inputs.JsonField(rows=8, help_text="JSON object that matches the job type's schema.")
    payload_fields = inputs.pane("admin/jobs/job/form/payload_pane.html", label="Fields of the payload")
    schedule_preview = inputs.pane("admin/jobs/job/form/preview_pane.html", label="Next firings")
    priority = inputs.choice(PRIORITIES, default=_DEFAULTS["priority"])
    timeout_seconds = inputs.number(
        default="the job type's", label="Timeout (seconds)", help_text="Time limit of one attempt."
    )
    delivery = inputs.choice(Delivery, default=_DEFAULTS["delivery"])
    overlap_policy = inputs.choice(OverlapPolicy, default=_DEFAULTS["overlap_policy"])
    max_concurrent = inputs.number(WholeNumberField, default=_DEFAULTS["max_concurrent"])
    misfire_policy = inputs.choice(MisfirePolicy, default="fire_once; fire_all for a one-time job")
    misfire_grace_seconds = inputs.number(
        default=_DEFAULTS["misfire_grace_seconds"], label="Misfire grace (seconds)"
    )
    catchup_window_seconds = inputs.number(
        default=_DEFAULTS["catchup_window_seconds"], label="Catch-up window (seconds)"
    )
    max_catchup = inputs.number(
        WholeNumberField, default=_DEFAULTS["max_catchup"], label="Most firings to catch up"
    )
    concurrency_key = inputs.text(help_text="Jobs of the tenant with the same key share one max_concurrent.")
    labels = inputs.LabelsField(rows=2, help_text="Labels such as team=billing, one per line.")
    pause_after_failures = inputs.number(
        WholeNumberField, default="never", label="Pause after this many firings in a row died"
    )
    delete_after_seconds = inputs.number(
        default="the installation's days", label="Delete this long after the end (seconds)"
    )
    version = WholeNumberField(required=False, widget=forms.HiddenInput())
    opened = forms.CharField(required=False, widget=forms.HiddenInput())

    class Media:
        js = ("console/form.js",)

    class Meta:
        model = Job
        fields: ClassVar[list[str]] = []

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conflict: Conflict | None = None
        known = [job_type.name for job_type in registry.public_types()]
        told: dict[str, Any] = {"unsaved": self.is_bound}
        if self._edited:
            self.initial.update(_inputs_of(self.instance) | {"opened": opened(self.instance)})
            known = names(self.instance.tenant)
            told |= {"tenant": self.instance.tenant_id, "job": self.instance}
            del self.fields["tenant"]
        self.fields["job_type"].widget.suggestions = known  # type: ignore[attr-defined]
        for name in ("payload_fields", "schedule_preview"):
            self.fields[name].widget.told = told  # type: ignore[attr-defined]

    @property
    def _edited(self) -> bool:
        return not self.instance._state.adding

    def _post_clean(self) -> None:
        """Django's hook for checking the instance: here the instance is written."""
        if self.errors:
            return
        #: Documents that were written as JSON: their errors are shown there.
        self._as_json = {name for name in _PARTS if self.cleaned_data.get(name) not in (None, {})}
        try:
            self.instance = self._write()
        except InvalidInput as error:
            self._complain_of(error)
        except EditedMeanwhile as error:
            self._complain("", [str(error)])
            self._compare()
        except errors.Conflict as error:
            self._complain(error.field or "", [str(error)])
        except CarillonError as error:
            self._complain("", [str(error)])

    def _write(self) -> Job:
        if not self._edited:
            return create_job(tenant=self.cleaned_data["tenant"], definition=self._definition())
        seen = self._on_top_of()
        changes = self._definition()
        if seen is not None:
            changes |= {
                name: value
                for name, value in definitions.written(self.instance).items()
                if self.data.get(f"keep_{name}") == THEIRS
            }
        return update_job(
            tenant=self.instance.tenant,
            job_id=self.instance.id,
            changes=changes,
            expected_version=self.cleaned_data["version"] if seen is None else seen,
            whole=True,
        )

    def _on_top_of(self) -> int | None:
        """The version that was shown beside the user's own, and that this one replaces."""
        try:
            return WholeNumberField(required=False).clean(self.data.get("on_top_of"))
        except forms.ValidationError:
            return None

    def _compare(self) -> None:
        """Set the differences between the form and the job, for the user who saves to choose."""
        tenant, now = self.instance.tenant, database_now()
        job = Job.objects.filter(pk=self.instance.pk).first()
        if job is None:
            return
        try:
            columns = definitions.parse(self._definition(), tenant=tenant, now=now, base=job, whole=True)
        except InvalidInput as error:
            self._complain_of(error)
            return
        columns.pop("next_fire_at", None)
        mine = definitions.written(Job(id=job.id, tenant=tenant, **columns))
        self.conflict = conflict(job, mine, opened=self.cleaned_data.get("opened") or "")

    def _definition(self) -> dict[str, Any]:
        """The definition in the inputs, as the API spells it; an empty input is left out.

        A field that has no input here stays as it is, so that an edit changes nothing that its author has not seen.
        """
        before = _inputs_of(self.instance) if self._edited else {}
        unseen = {name: value for name, value in before.items() if name not in self.fields}
        cleaned = self.cleaned_data.items()
        given = unseen | {name: value for name, value in cleaned if value not in ("", None)}
        beside = set()
        if given["schedule_type"] != before.get("schedule_type", given["schedule_type"]):
            beside = {name.removeprefix("schedule_") for name in unseen}
        parts = {
            "schedule": schedule_document(given, hidden=beside),
            "retry_policy": retry_document(given),
            "notify": notice_document(given),
        }
        whole = given | {name: part for name, part in parts.items() if part not in (None, {})}
        for name, part in parts.items():
            if part in (None, {}):
                whole.pop(name, None)
        return {name: whole[name] for name in Definition.model_fields if name in whole}

    def _complain_of(self, error: InvalidInput) -> None:
        for path, complaints in error.errors.items():
            self._complain(path, complaints)

    def _complain(self, path: str, complaints: list[str]) -> None:
        """Put ``complaints`` at the input of ``path``, or at the closest input there is."""
        own, first = path.replace(".", "_", 1), re.split(r"[.\[]", path, maxsplit=1)[0]
        if first in _PARTS and first not in self._as_json:
            # One of the inputs that the document was made of.
            part = re.match(r"[^.\[]*", path.removeprefix(first).lstrip("."))
            own = f"{_PARTS[first]}{part[0]}" if part and part[0] else _HEADS[first]
            path = path.removeprefix(first).lstrip(".").removeprefix(part[0] if part else "")
            self.add_error(
                own if own in self.fields else None, [f"{path} {text}".strip() for text in complaints]
            )
            return
        field = next((name for name in (own, first, f"{first}_type") if name in self.fields), None)
        rest = path if field is None else "" if field == own else path.removeprefix(first).lstrip(".")
        self.add_error(field, [f"{rest}: {text}" if rest else text for text in complaints])


def _inputs_of(job: Job) -> dict[str, Any]:
    """The job's definition by the names of the inputs."""
    shown = definitions.representation(job)
    parts = {
        "schedule": shown.pop("schedule"),
        "retry": shown.pop("retry_policy"),
        "notice": shown.pop("notify"),
    }
    inner = {
        f"{prefix}_{name}": value for prefix, part in parts.items() for name, value in (part or {}).items()
    }
    return {name: shown[name] for name in (*Definition.model_fields, "version") if name in shown} | inner
