"""The form of a job: its inputs make the API's definition, and the action that writes it is what checks them.

So the console accepts and refuses exactly what the API does, in the same words. An error's path leads to its input:
``schedule.cron`` to ``schedule_cron``, ``payload.url`` to ``payload``. The write belongs to validation, for only the
transaction that writes can say whether a name is taken; whatever is refused is left unwritten.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.widgets import (
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from jobs.actions import definition as definitions
from jobs.actions.jobs import create_job, update_job
from jobs.actions.pull.types import names
from jobs.core.errors import CarillonError, Conflict, InvalidInput
from jobs.core.json_rules import loads_strict
from jobs.core.policies import CronDialect, Delivery, DstPolicy, MisfirePolicy, OverlapPolicy
from jobs.core.schedule import ScheduleType
from jobs.handlers import registry
from jobs.models import Job
from jobs.shapes.job import PRIORITIES, Definition
from jobs.shapes.schedule import OWN
from tenants.forms import NumberField, RowSelect, WholeNumberField
from tenants.models import Tenant

_RFC_3339 = "RFC 3339 in UTC, such as 2030-01-31T02:00:00Z"
_BLANK = (("", "default"),)


class JsonField(forms.CharField):
    """A JSON object as text, read as strictly as the API reads it; empty is ``empty``."""

    def __init__(self, *, rows: int, empty: str = "{}", **options: Any) -> None:
        self._empty = empty
        style = {"rows": rows, "style": "font-family: monospace", "spellcheck": "false"}
        super().__init__(required=False, widget=UnfoldAdminTextareaWidget(attrs=style), **options)

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, str):
            return value
        return json.dumps(value, indent=2, ensure_ascii=False) if value else self._empty.removeprefix("null")

    def to_python(self, value: Any) -> Any:
        text = (super().to_python(value) or "").strip() or self._empty
        try:
            return loads_strict(text.encode())
        except InvalidInput as error:
            raise forms.ValidationError(error.errors[""]) from None

    def has_changed(self, initial: Any, data: Any) -> bool:
        try:
            return bool((self.to_python(data) or {}) != (initial or {}))
        except forms.ValidationError:
            return True


def _text(**options: Any) -> forms.CharField:
    placeholder = options.pop("placeholder", "")
    options.setdefault("widget", UnfoldAdminTextInputWidget(attrs={"placeholder": placeholder}))
    return forms.CharField(required=False, **options)


def _number(kind: type[forms.IntegerField] = NumberField, **options: Any) -> forms.IntegerField:
    attrs = {"type": "number", "step": "1" if kind is WholeNumberField else "any"}
    return kind(required=False, widget=UnfoldAdminTextInputWidget(attrs=attrs), **options)


def _choice(values: Any, *, required: bool = False, **options: Any) -> forms.ChoiceField:
    listed = [] if required else list(_BLANK)
    choices = [*listed, *((str(value), str(value).replace("_", " ")) for value in values)]
    return forms.ChoiceField(choices=choices, required=required, widget=UnfoldAdminSelectWidget(), **options)


class SuggestingInput(UnfoldAdminTextInputWidget):
    """A text input that offers ``suggestions``: what a tenant has declared is not known before it is chosen."""

    suggestions: Sequence[str] = ()

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        listed = f"{name}-suggestions"
        own = super().render(name, value, {**(attrs or {}), "list": listed}, renderer)
        options = format_html_join("", '<option value="{}">', ((text,) for text in self.suggestions))
        return format_html('{}<datalist id="{}">{}</datalist>', own, listed, options)


class JobForm(forms.ModelForm):
    """Creates a job of the chosen tenant, or edits its ``instance``."""

    tenant = forms.ModelChoiceField(
        Tenant.objects.all(), widget=RowSelect(Job._meta.get_field("tenant"), admin.site)
    )
    name = _text(help_text="Unique among the tenant's jobs. May be left out of a one-time job.")
    job_type = _text(
        widget=SuggestingInput(),
        help_text="One that is listed, or one the tenant has declared for its pull workers.",
    )
    payload = JsonField(rows=8, help_text="JSON object, as the job type's schema demands.")
    schedule_type = _choice(ScheduleType, required=True, label="Schedule")
    schedule_cron = _text(label="Cron", placeholder="0 2 * * *", help_text="Five fields, or a macro.")
    schedule_cron_dialect = _choice(
        CronDialect, label="Dialect", help_text="quartz: six fields, seconds first, 1 = Sunday."
    )
    schedule_timezone = _text(label="Time zone", placeholder="UTC", help_text="IANA name.")
    schedule_dst_policy = _choice(DstPolicy, label="Where clocks change")
    schedule_every_seconds = _number(label="Every (seconds)")
    schedule_run_at = _text(label="Run at", help_text=_RFC_3339)
    schedule_starts_at = _text(label="Starts at", help_text=_RFC_3339)
    schedule_ends_at = _text(label="Ends at", help_text=_RFC_3339)
    schedule_jitter_seconds = _number(label="Jitter (seconds)", help_text="Spreads a herd.")
    priority = _choice(PRIORITIES)
    timeout_seconds = _number(
        label="Timeout (seconds)", help_text="Of one attempt; by default the job type's."
    )
    delivery = _choice(Delivery)
    retry_policy = JsonField(rows=8, help_text='Such as {"max_attempts": 5, "backoff": "exponential"}.')
    overlap_policy = _choice(OverlapPolicy)
    max_concurrent = _number(WholeNumberField)
    misfire_policy = _choice(MisfirePolicy)
    misfire_grace_seconds = _number(label="Misfire grace (seconds)")
    catchup_window_seconds = _number(label="Catch-up window (seconds)")
    max_catchup = _number(WholeNumberField, label="Most firings to catch up")
    concurrency_key = _text(help_text="Jobs of the tenant with the same key share their most.")
    labels = JsonField(rows=2, help_text='Such as {"team": "billing"}.')
    notify = JsonField(
        rows=3,
        empty="null",
        help_text='Such as {"on": ["dead"], "url": "https://ops.example/hook"}; empty: as the tenant says.',
    )
    pause_after_failures = _number(WholeNumberField, label="Pause after so many that died in a row")
    version = WholeNumberField(required=False, widget=forms.HiddenInput())

    class Meta:
        model = Job
        fields: ClassVar[list[str]] = []

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        known = [job_type.name for job_type in registry.public_types()]
        if self._edited:
            self.initial.update(_inputs_of(self.instance))
            known = names(self.instance.tenant)
            del self.fields["tenant"]
        self.fields["job_type"].widget.suggestions = known  # type: ignore[attr-defined]

    @property
    def _edited(self) -> bool:
        return not self.instance._state.adding

    def _post_clean(self) -> None:
        """Django's hook for checking the instance: here it is written."""
        if self.errors:
            return
        try:
            self.instance = self._write()
        except InvalidInput as error:
            for path, complaints in error.errors.items():
                self._complain(path, complaints)
        except Conflict as error:
            self._complain(error.field or "", [str(error)])
        except CarillonError as error:
            self._complain("", [str(error)])

    def _write(self) -> Job:
        if not self._edited:
            return create_job(tenant=self.cleaned_data["tenant"], definition=self._definition())
        return update_job(
            tenant=self.instance.tenant,
            job_id=self.instance.id,
            changes=self._definition(),
            expected_version=self.cleaned_data["version"],
            whole=True,
        )

    def _definition(self) -> dict[str, Any]:
        """What the inputs say, as the API spells it; an empty input is left out.

        What has no input here stays as it is, so that an edit changes nothing its author has not seen.
        """
        before = _inputs_of(self.instance) if self._edited else {}
        unseen = {name: value for name, value in before.items() if name not in self.fields}
        given = unseen | {name: value for name, value in self.cleaned_data.items() if value not in ("", None)}
        kind = given["schedule_type"]
        hidden = {name for other, names in OWN.items() if other != kind for name in names}
        if kind != before.get("schedule_type", kind):
            hidden |= {name.removeprefix("schedule_") for name in unseen}
        schedule = {
            name.removeprefix("schedule_"): value
            for name, value in given.items()
            if name.startswith("schedule_") and name.removeprefix("schedule_") not in hidden
        }
        return {"schedule": schedule} | {
            name: given[name] for name in Definition.model_fields if name in given
        }

    def _complain(self, path: str, complaints: list[str]) -> None:
        """Put ``complaints`` at the input of ``path``, or at the closest there is."""
        own, first = path.replace(".", "_", 1), re.split(r"[.\[]", path, maxsplit=1)[0]
        field = next((name for name in (own, first, f"{first}_type") if name in self.fields), None)
        rest = path if field is None else "" if field == own else path.removeprefix(first).lstrip(".")
        self.add_error(field, [f"{rest}: {text}" if rest else text for text in complaints])


def _inputs_of(job: Job) -> dict[str, Any]:
    """The job's definition by the names of the inputs."""
    shown = definitions.representation(job)
    schedule = {f"schedule_{name}": value for name, value in shown.pop("schedule").items()}
    return {name: shown[name] for name in (*Definition.model_fields, "version") if name in shown} | schedule
