"""The dialogs of a job's page: they ask for a payload, a stretch of the past, a reason. Refused input stays typed in.

Times are typed in the job's zone, as its schedule is. Each form checks as the API does, by the same calls. An error
that only the write can know is shown as a message after it.
"""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django import forms
from django.http import Http404
from unfold.forms import BaseDialogForm
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget, UnfoldBooleanSwitchWidget

from jobs.actions import definition as definitions
from jobs.actions.backfill import Extent, backfill_job
from jobs.admin.editing.inputs import JsonField
from jobs.admin.job.backfills import latest_backfills
from jobs.admin.shared.cells import instant_text
from jobs.core.errors import CarillonError, InvalidInput
from jobs.core.instants import EARLIEST, LATEST, OUT_OF_BOUNDS
from jobs.core.timezones import load_zone
from jobs.explain.gate import counted
from jobs.models import Job
from jobs.shapes.job import Run
from tenants.console.reach import held_to_reach


class MomentField(forms.DateTimeField):
    """A date and a time in ``zone``, in the browser's own picker."""

    def __init__(self, **options: Any) -> None:
        widget = UnfoldAdminTextInputWidget(attrs={"type": "datetime-local", "step": "1"})
        super().__init__(widget=widget, **options)
        self.zone: Any = UTC

    def clean(self, value: Any) -> datetime | None:
        if not str(value or "").isascii():  # strptime reads the digits of every script
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid")
        found = super().clean(value)
        if not isinstance(found, datetime):
            return None
        moment = found.replace(tzinfo=self.zone).astimezone(UTC)
        if not EARLIEST <= moment <= LATEST:
            raise forms.ValidationError(OUT_OF_BOUNDS, code="invalid")
        return moment

    def to_python(self, value: Any) -> Any:
        found = super().to_python(value)
        # Django takes the value for a time of its own zone.
        return found.replace(tzinfo=None) if isinstance(found, datetime) else found


class OfJobForm(BaseDialogForm):
    """A dialog of one living job, which is within reach."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.job = self._find()
        zone = load_zone(self.job.timezone)
        for field in self.fields.values():
            if isinstance(field, MomentField):
                field.zone = zone
                field.label = f"{field.label} ({self.job.timezone})"

    def _find(self) -> Job:
        living = Job.objects.filter(deleted_at=None).select_related("tenant")
        try:
            job = held_to_reach(self.request.user, living).filter(id=UUID(str(self.object_id))).first()
        except ValueError:
            job = None
        if job is None:
            raise Http404
        return job

    def complain(self, error: InvalidInput) -> None:
        """Put the complaints of the API at their inputs."""
        for path, complaints in error.errors.items():
            first = path.partition(".")[0]
            own = first in self.fields
            rest = path.removeprefix(first).lstrip(".") if own else path
            self.add_error(
                first if own else None, [f"{rest}: {text}" if rest else text for text in complaints]
            )


class RunForm(OfJobForm):
    payload = JsonField(
        rows=8,
        empty="null",
        help_text="Payload of this firing alone, valid for the job type's schema; unchanged or empty: the "
        "job's.",
    )
    ignore_overlap = forms.BooleanField(
        required=False,
        label="Ignore overlap",
        widget=UnfoldBooleanSwitchWidget(),
        help_text="Start it even while another firing of the job runs.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.request.user.has_perm("jobs.view_payload"):  # type: ignore[union-attr]
            self.fields["payload"].initial = self.job.payload

    def clean_payload(self) -> Any:
        """The payload; None where it is the job's own."""
        payload = self.cleaned_data["payload"]
        if payload is None or payload == self.job.payload:
            return None
        try:
            Run.read({"payload": payload})
            definitions.check_payload(payload, job_type=self.job.job_type, tenant=self.job.tenant)
        except InvalidInput as error:
            self.complain(error)
        return payload


class BackfillForm(OfJobForm):
    """Asks twice: first it counts, and only the same stretch sent again is run."""

    form_after_template = "admin/jobs/job/backfill_count.html"

    start = MomentField(label="From")
    end = MomentField(
        label="To", help_text="Both times are included. The job's present schedule and payload are used."
    )
    beyond_retention = forms.BooleanField(
        required=False,
        label="Include times before the retained history",
        help_text="Firings that ran then have no record and would run again.",
    )
    counted = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.extent: Extent | None = None
        self._confirmed = False

    def is_valid(self) -> bool:
        return super().is_valid() and self._confirmed

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or self.cleaned_data
        if self.errors:
            return given
        try:
            self.extent, _ = backfill_job(
                tenant=self.job.tenant, job_id=self.job.id, dry_run=True, **self.stretch
            )
        except InvalidInput as error:
            self.complain(error)
            return given
        except CarillonError as error:
            self.add_error(None, str(error))
            return given
        missing = self.extent.count - self.extent.existing
        seen = f"{given['start'].isoformat()} {given['end'].isoformat()} {missing}"
        self._confirmed = bool(missing) and given["counted"] == seen
        # The form that is shown again carries the count.
        shown: Any = self.data  # type: ignore[has-type]
        self.data = {**shown.dict(), "counted": seen}
        return given

    @property
    def stretch(self) -> dict[str, Any]:
        return {name: self.cleaned_data[name] for name in ("start", "end", "beyond_retention")}

    def get_after_template_context(self, request: Any, object_id: Any = None) -> dict[str, Any]:
        extent = self.extent
        if extent is None:
            return {}
        return {
            "count": counted(extent.count, "firing"),
            "existing": extent.existing,
            "missing": extent.count - extent.existing,
        }


class CancelBackfillForm(OfJobForm):
    backfill = forms.ChoiceField(widget=UnfoldAdminSelectWidget)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["backfill"].choices = [  # type: ignore[attr-defined]
            (str(each.id), f"{instant_text(each.from_at)} to {instant_text(each.until_at)}")
            for each in latest_backfills(self.job)
            if each.finished_at is None
        ]


class PauseForm(OfJobForm):
    reason = forms.CharField(
        required=False,
        max_length=500,
        widget=UnfoldAdminTextInputWidget,
        help_text="Reason. The tenant sees it on the job.",
    )
    until = MomentField(
        required=False,
        label="Until",
        help_text="The job then resumes by itself; empty: paused until it is resumed.",
    )
