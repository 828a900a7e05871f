"""How the console shows values: times with their zone, states in colour, durations, JSON, links.

Times are UTC to the millisecond unless a zone is given, which is then told by its offset: an abbreviation such as IST
means several. ``moment_cell`` says how far away a time is, and the time itself when it is pointed at. Everything is
escaped here or by the template that receives it.
"""

import json
import re
import unicodedata
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from urllib.parse import quote
from uuid import UUID

from django.conf import settings
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobs.core.instants import instant_text as iso_text
from jobs.explain.gate import span

NOTHING = "-"
#: Unicode's control and format characters, its line separators, and halves of surrogates.
_UNSEEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
_SUSPECTS = re.compile(r"[^ -~\n\t]")
COLOURS = {
    "active": "success",
    "paused": "warning",
    "pending": "info",
    "queued": "info",
    "ready": "info",
    "running": "primary",
    "started": "primary",
    "retrying": "warning",
    "succeeded": "success",
    "dead": "danger",
    "failed": "danger",
    "timed_out": "danger",
    "lost": "danger",
    "stale": "warning",
    "finished": "success",
    "refused": "danger",
    "SUCCESS": "success",
    "FAILURE": "danger",
    "open": "danger",
    "half_open": "warning",
}


def state_label(state: str, reason: str = "") -> SafeString:
    """A state as a coloured label, with its reason beside it."""
    label = coloured_label(state, COLOURS.get(state))
    return format_html("{} {}", label, reason.replace("_", " ")) if reason else label


def coloured_label(text: str, colour: str | None) -> SafeString:
    """``colour`` is one of unfold's: success, warning, danger, info, primary."""
    context = {"text": text.replace("_", " "), "type": colour, "size": "md"}
    return SafeString(render_to_string("unfold/helpers/label.html", context))


def instant_cell(instant: datetime | None, *, zone: tzinfo = UTC) -> str:
    """``instant_text`` on one line of a table."""
    return _time(instant, instant_text(instant, zone=zone))


def moment_cell(instant: datetime | None, *, now: datetime, zone: tzinfo = UTC) -> str:
    """``in 45 s`` or ``3 min ago``; pointed at, the instant itself as ``instant_text`` has it."""
    if instant is None:
        return NOTHING
    return _time(instant, distance_text(instant, now=now), title=instant_text(instant, zone=zone))


def _time(instant: datetime | None, text: str, *, title: str = "") -> str:
    if instant is None:
        return NOTHING
    shown = format_html(' title="{}"', title) if title else ""
    return format_html(
        '<time datetime="{}"{} class="whitespace-nowrap">{}</time>', iso_text(instant), shown, text
    )


def instant_text(instant: datetime | None, *, zone: tzinfo = UTC) -> str:
    """``2030-01-31 02:00:00.000 UTC``, or with the offset of another zone in place of UTC."""
    if instant is None:
        return NOTHING
    local = instant.astimezone(zone)
    text = local.isoformat(sep=" ", timespec="milliseconds")
    return f"{text[:23]} {'UTC' if zone is UTC else text[23:]}"


def distance_text(instant: datetime, *, now: datetime) -> str:
    """``in 45 s``, ``3 min ago``, ``2 h 10 min ago``, ``now``."""
    away = abs(instant - now)
    if away < timedelta(seconds=1):
        return "now"
    text = span(away)
    if away < timedelta(hours=1):  # seconds beside minutes are gone before they are read
        text = " ".join(text.split()[:2])
    return f"in {text}" if instant > now else f"{text} ago"


def duration_cell(duration: timedelta | None) -> str:
    """Milliseconds below a second, then seconds, then as ``span`` has it: ``1 min 5 s``."""
    if duration is None:
        return NOTHING
    seconds = duration.total_seconds()
    if abs(seconds) < 1:
        return f"{seconds * 1000:.0f} ms"
    if abs(seconds) < 60:
        return f"{seconds:.3g} s"
    return f"{'-' if seconds < 0 else ''}{span(abs(duration))}"


def json_cell(value: Any) -> str:
    """Pretty-printed JSON; a dash for null."""
    return NOTHING if value is None else text_cell(json.dumps(value, indent=2, ensure_ascii=False))


def text_cell(text: str | None, *, scrolls: bool = False) -> str:
    """A text of several lines as it stands, except characters that would not be seen; a long one may scroll."""
    if not text:
        return NOTHING
    style = "white-space: pre-wrap; overflow-wrap: anywhere; font-size: 12px"
    if scrolls:
        style += "; max-height: 24rem; overflow-y: auto"
    return format_html('<pre style="{}">{}</pre>', style, visible(text))


def visible(text: str) -> str:
    """``text`` with an escape such as ``\\u202e`` for each character that is not seen, or reorders others.

    The command line does the same (``carillon.unseen``), except for tabs: here they stay, as line breaks do.
    """
    return _SUSPECTS.sub(lambda found: _escaped(found[0]), text)


def _escaped(character: str) -> str:
    if unicodedata.category(character) not in _UNSEEN:
        return character
    number = ord(character)
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


def job_link(job_id: UUID, text: str) -> SafeString:
    url = reverse("admin:jobs_job_change", args=[job_id])
    return format_html('<a class="text-link whitespace-nowrap" href="{}">{}</a>', url, text)


def work_url(job: Any, *, run_id: UUID | None = None) -> str:
    """The page of a job. The hidden job of a workflow's task has none: it leads to its run, or else its workflow."""
    if job.workflow_id is None:
        return reverse("admin:jobs_job_change", args=[job.id])
    page, wanted = ("workflowrun", run_id) if run_id else ("workflow", job.workflow_id)
    return reverse(f"admin:jobs_{page}_change", args=[wanted])


def work_link(job: Any, *, run_id: UUID | None = None) -> SafeString:
    """A link to ``work_url``, with the name of the job."""
    url = work_url(job, run_id=run_id)
    return format_html('<a class="text-link whitespace-nowrap" href="{}">{}</a>', url, job.name)


def trigger_link(trigger_id: UUID, text: str) -> SafeString:
    url = reverse("admin:jobs_trigger_change", args=[trigger_id])
    return format_html('<a class="text-link" href="{}">{}</a>', url, text)


def flower_url(celery_task_id: str = "") -> str:
    """Flower's page of one message, or Flower itself."""
    base = settings.PLATFORM.flower_url.rstrip("/")
    return f"{base}/task/{quote(celery_task_id, safe='')}" if celery_task_id else base


def result_url(celery_task_id: str) -> str:
    """The page of Celery's result of a message: ``ResultAdmin`` finds it by the Celery task id."""
    return reverse("admin:django_celery_results_taskresult_change", args=[celery_task_id])


def id_cell(object_id: object) -> SafeString:
    """An id as it is, with a button that copies it (``copy.js``)."""
    return format_html('<code data-copy style="overflow-wrap: anywhere">{}</code>', object_id)
