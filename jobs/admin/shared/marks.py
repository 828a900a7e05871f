"""Firings as marks of a strip: one coloured shape each, oldest first. Pointed at, a mark says how the firing went.

A reader who cannot tell red from green learns nothing from colour alone. So each state has its own shape and sign
(``jobs/static/console/console.css``). A mark leads to its trigger. Keyboards pass the strip by: lists lead there too.
"""

from collections.abc import Iterable
from typing import Any

from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from jobs.admin.shared.cells import duration_cell, instant_text
from jobs.core.states import TriggerState

SIGNS = {
    TriggerState.SUCCEEDED: "",
    TriggerState.DEAD: "\N{MULTIPLICATION SIGN}",
    TriggerState.SKIPPED: "",
    TriggerState.CANCELLED: "\N{EN DASH}",
    TriggerState.RUNNING: "▸",
    TriggerState.RETRYING: "↻",
    TriggerState.QUEUED: "",
    TriggerState.PENDING: "",
}


def strip(marks: Iterable[SafeString], *, label: str) -> SafeString:
    """Marks side by side, as many lines as they need."""
    joined = format_html_join("", "{}", ((mark,) for mark in marks))
    return format_html('<div class="firings" role="group" aria-label="{}">{}</div>', label, joined)


def trigger_mark(trigger: Any) -> SafeString:
    """The mark of a trigger, or of any row with its columns of times, state, reason and attempts."""
    said = trigger_told(trigger)
    return format_html(
        '<a class="firing firing-{}" tabindex="-1" href="{}" title="{}" aria-label="{}">{}</a>',
        trigger.state,
        reverse("admin:jobs_trigger_change", args=[trigger.id]),
        said,
        said,
        SIGNS.get(TriggerState(trigger.state), ""),
    )


def range_mark(skipped: Any) -> SafeString:
    """The mark of a range: consecutive skipped firings that are one record."""
    said = (
        f"{skipped.count:,} firings skipped ({skipped.reason}) from {instant_text(skipped.from_at)} "
        f"to {instant_text(skipped.until_at)}"
    )
    return format_html(
        '<span class="firing firing-skipped firing-many" role="img" title="{}" aria-label="{}">…</span>',
        said,
        said,
    )


def trigger_told(trigger: Any) -> str:
    """``2030-01-31 02:00:00.000 UTC: succeeded; started 12 ms late, took 1.5 s, 1 attempt``."""
    state = f"{trigger.state} ({trigger.reason})" if trigger.reason else str(trigger.state)
    parts = []
    if trigger.started_at:
        parts.append(f"started {duration_cell(trigger.started_at - trigger.scheduled_for)} late")
        if trigger.finished_at:
            parts.append(f"took {duration_cell(trigger.finished_at - trigger.started_at)}")
    if trigger.attempt_count:
        parts.append(f"{trigger.attempt_count} attempt{'' if trigger.attempt_count == 1 else 's'}")
    told = f"{instant_text(trigger.scheduled_for)}: {state}"
    return f"{told}; {', '.join(parts)}" if parts else told
