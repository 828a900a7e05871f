"""The inputs of a job's schedule and of its retries, and the documents of the API that they make."""

from collections.abc import Collection, Mapping
from typing import Any

from django import forms

from jobs.admin.editing import inputs
from jobs.core.backoff import Backoff, Jitter, RetryPolicy
from jobs.core.policies import CronDialect, DstPolicy
from jobs.core.schedule import ScheduleType
from jobs.core.timezones import canonical_timezones
from jobs.shapes.base import Shape
from jobs.shapes.retry import FixedRetries, GrowingRetries, ListedRetries
from jobs.shapes.schedule import OWN
from tenants.forms import WholeNumberField

_USUAL = RetryPolicy()
#: The fields that act under each back-off.
_RETRY_SHAPES: dict[Backoff, type[Shape]] = {
    Backoff.FIXED: FixedRetries,
    Backoff.EXPONENTIAL: GrowingRetries,
    Backoff.DELAYS: ListedRetries,
}
RETRY_FIELDS = tuple(dict.fromkeys(name for shape in _RETRY_SHAPES.values() for name in shape.model_fields))


class ZoneInput(inputs.SuggestingInput):
    suggestions = sorted(canonical_timezones())


class ScheduleInputs(forms.Form):
    """``schedule_<field>`` for each field of a schedule."""

    schedule_type = inputs.choice(ScheduleType, required=True, label="Schedule")
    schedule_cron = inputs.text(label="Cron", placeholder="0 2 * * *", help_text="Five fields, or a macro.")
    schedule_cron_dialect = inputs.choice(
        CronDialect,
        default=CronDialect.UNIX,
        label="Dialect",
        help_text="quartz: six fields, seconds first, 1 = Sunday.",
    )
    schedule_timezone = inputs.text(
        widget=ZoneInput(attrs={"placeholder": "UTC", "autocomplete": "off"}),
        label="Time zone",
        help_text="IANA name; yours is offered first.",
    )
    schedule_dst_policy = inputs.choice(DstPolicy, default=DstPolicy.VIXIE, label="Where clocks change")
    schedule_every_seconds = inputs.number(label="Every (seconds)")
    schedule_run_at = inputs.text(label="Run at", help_text=inputs.RFC_3339)
    schedule_starts_at = inputs.text(label="Starts at", placeholder="at once", help_text=inputs.RFC_3339)
    schedule_ends_at = inputs.text(label="Ends at", placeholder="never", help_text=inputs.RFC_3339)
    schedule_jitter_seconds = inputs.number(
        default=0, label="Jitter (seconds)", help_text="Spreads simultaneous firings."
    )


class RetryInputs(forms.Form):
    """``retry_<field>`` for each field of a retry policy."""

    retry_max_attempts = inputs.number(WholeNumberField, default=_USUAL.max_attempts, label="Most attempts")
    retry_backoff = inputs.choice(Backoff, default=_USUAL.backoff, label="Wait between attempts")
    retry_delays_seconds = inputs.DelaysField(
        label="Delays",
        placeholder=", ".join(inputs.seconds_text(delay.total_seconds()) for delay in _USUAL.delays),
        help_text="One delay after another; the last one repeats.",
    )
    retry_initial_delay_seconds = inputs.number(
        default=_USUAL.initial_delay.total_seconds(), label="First delay (seconds)"
    )
    retry_factor = inputs.number(default=_USUAL.factor, label="Factor")
    retry_max_delay_seconds = inputs.number(
        default=_USUAL.max_delay.total_seconds(), label="Longest delay (seconds)"
    )
    retry_jitter = inputs.choice(Jitter, default=_USUAL.jitter, label="Jitter of delays")
    retry_max_elapsed_seconds = inputs.number(label="Give up after (seconds)", help_text="By default never.")
    retry_policy = inputs.JsonField(
        rows=4,
        label="Retry policy as JSON",
        help_text='Replaces the inputs above, such as {"max_attempts": 3, "backoff": "fixed"}.',
    )


def schedule_document(given: Mapping[str, Any], *, hidden: Collection[str] = ()) -> dict[str, Any]:
    """The schedule that the inputs mean; fields of another type, and fields in ``hidden``, are left out."""
    others = {name for other, names in OWN.items() if other != given["schedule_type"] for name in names}
    own = {name.removeprefix("schedule_"): given[name] for name in given if name.startswith("schedule_")}
    return {name: value for name, value in own.items() if name not in others.union(hidden)}


def retry_document(given: Mapping[str, Any]) -> Any:
    """The retry policy that the inputs mean: the JSON, if there is some, else the fields of the chosen back-off."""
    written = given.get("retry_policy")
    if written not in (None, {}):
        return written
    backoff = given.get("retry_backoff")
    acting = _RETRY_SHAPES[Backoff(backoff)].model_fields if backoff else RETRY_FIELDS
    return {
        name: given[f"retry_{name}"] for name in RETRY_FIELDS if name in acting and f"retry_{name}" in given
    }
