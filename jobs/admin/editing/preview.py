"""The preview of a schedule while the user types: in words, its next instants, changes of clocks, and warnings.

It writes nothing. It refuses the same inputs as saving does, by the same shapes and in the same words.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from jobs.actions import schedules
from jobs.admin.editing import inputs
from jobs.admin.editing.cautions import cautions
from jobs.admin.editing.fragments import FormFragment
from jobs.admin.editing.schedule import RetryInputs, ScheduleInputs, retry_document, schedule_document
from jobs.core.backoff import RetryPolicy, ladder
from jobs.core.calendar.notes import Firing, explained_fire_times
from jobs.core.calendar.notices import Notice, next_clock_change_notice
from jobs.core.calendar.words import describe
from jobs.core.errors import InvalidInput, ScheduleError
from jobs.core.instants import LATEST, TICK, parse_instant
from jobs.core.policies import OverlapPolicy
from jobs.core.schedule import Schedule, ScheduleType
from jobs.core.timezones import similar_timezones
from jobs.explain.gate import span
from jobs.shapes.retry import Retry
from jobs.shapes.schedule import ScheduleShape
from tenants.clock import database_now

MAX_SHOWN = 8
#: The shortest distance between firings is looked for among so many firings.
_LOOKED_AT = 25
_YEAR = timedelta(days=365)
#: A zone that changes its clocks does so twice a year, and a firing may come twice.
_MAX_CHANGES = 4
_MAX_ZONE_LENGTH = 64
_LABELS = {name: field.label or name for name, field in ScheduleInputs.base_fields.items()}


class _Inputs(ScheduleInputs, RetryInputs):
    overlap_policy = inputs.choice(OverlapPolicy)


class SchedulePreview(FormFragment):
    template_name = "admin/jobs/job/form/preview.html"

    def told(self) -> dict[str, Any]:
        form, now = _Inputs(self.request.POST), database_now()
        valid = form.is_valid()
        given = {name: value for name, value in form.cleaned_data.items() if value not in ("", None)}
        wrong = {name: texts for name, texts in form.errors.items() if name.startswith("schedule_")}
        told: dict[str, Any] = {"errors": _told_of(wrong), "zones": _zones(given)}
        if "schedule_type" not in given or (wrong and not valid):
            return told | _retries(given)
        try:
            schedule, jitter = self._schedule(given, now)
            told |= _schedule_told(schedule, now)
        except InvalidInput as error:
            found = {f"schedule_{path}": texts for path, texts in error.errors.items()}
            return told | {"errors": _told_of(found)} | _retries(given)
        except ScheduleError as error:
            return told | {"errors": [("Schedule", str(error))]}
        told |= _retries(given)
        told["cautions"] = cautions(
            firings=[firing.at for firing in told.pop("looked_at")],
            schedule=schedule,
            jitter=jitter,
            retries=told.get("policy"),
            overlap=given.get("overlap_policy", OverlapPolicy.SKIP),
            tenant=self.tenant,
            now=now,
        )
        return told

    def _schedule(self, given: dict[str, Any], now: datetime) -> tuple[Schedule, timedelta]:
        """Raises ``InvalidInput``, by the field of the schedule."""
        shape = ScheduleShape.read(schedule_document(given))
        schedule = shape.at(_anchor(self.request.POST.get("anchor", "")) or now)
        if schedule.type != ScheduleType.IMMEDIATE:
            schedules.first_firing(schedule, now=now)
        return schedule, timedelta(seconds=shape.root.jitter_seconds)


def _anchor(given: str) -> datetime | None:
    """When the edited job was created: its interval counts from there."""
    try:
        return parse_instant(given) if given else None
    except InvalidInput:
        return None


def _schedule_told(schedule: Schedule, now: datetime) -> dict[str, Any]:
    after = now - TICK if schedule.type == ScheduleType.IMMEDIATE else now
    if schedule.type == ScheduleType.IMMEDIATE and schedule.anchor is not None:
        after = min(after, schedule.anchor - TICK)
    firings = explained_fire_times(schedule, after=after, until=LATEST, limit=_LOOKED_AT)
    return {
        "sentence": describe(schedule),
        "zone": schedule.timezone,
        "firings": [_row(firing, now) for firing in firings[:MAX_SHOWN]],
        "looked_at": firings,
        "changes": [_change(notice) for notice in _changes(schedule, now)],
    }


def _row(firing: Firing, now: datetime) -> dict[str, str]:
    return {
        "local": f"{firing.local:%a %Y-%m-%d %H:%M:%S} {_offset(firing.local)}",
        "utc": f"{firing.at:%Y-%m-%d %H:%M:%S} UTC",
        "ahead": f"in {span(firing.at - now)}" if firing.at > now else "now",
        "note": firing.note or "",
    }


def _offset(local: datetime) -> str:
    digits = f"{local:%z}"
    return f"{digits[:3]}:{digits[3:5]}"


def _change(notice: Notice) -> dict[str, str]:
    return {"at": f"{notice.local:%a %d %b %Y}", "note": notice.note}


def _changes(schedule: Schedule, now: datetime) -> Iterator[Notice]:
    """The effects of changes of clocks on it within a year."""
    since, until = now, now + _YEAR
    for _ in range(_MAX_CHANGES):
        notice = next_clock_change_notice(schedule, now=since, within=until - since)
        if notice is None:
            return
        yield notice
        since = notice.at


def _retries(given: dict[str, Any]) -> dict[str, Any]:
    """The waits between attempts, alike ones counted together; the errors where the policy is not valid."""
    try:
        policy = RetryPolicy.from_json(Retry.read(retry_document(given)).stored())
    except InvalidInput as error:
        return {
            "retry_errors": [
                f"{path}: {' '.join(texts)}".lstrip(": ") for path, texts in error.errors.items()
            ]
        }
    waits = ladder(policy)
    return {
        "policy": policy,
        "ladder": ", ".join(_steps(waits)),
        "attempts": policy.max_attempts,
        "in_all": span(sum(waits, timedelta())) if waits else "",
        "jitter": policy.jitter,
        "max_elapsed": policy.max_elapsed and span(policy.max_elapsed),
    }


def _steps(waits: list[timedelta]) -> Iterator[str]:
    ends = [number for number, (one, other) in enumerate(pairwise(waits), start=1) if one != other]
    for first, last in pairwise([0, *ends, len(waits)] if waits else []):
        shown = inputs.seconds_text(waits[first].total_seconds())
        yield shown if last - first == 1 else f"{last - first} times {shown}"


def _told_of(wrong: Any) -> list[tuple[str, str]]:
    return [(str(_LABELS.get(name, "Schedule")), " ".join(texts)) for name, texts in wrong.items()]


def _zones(given: dict[str, Any]) -> list[str]:
    """The zones that may be meant by the name of a zone that does not exist."""
    zone = given.get("schedule_timezone", "")
    near = similar_timezones(zone) if zone and len(zone) <= _MAX_ZONE_LENGTH else []
    return [name for name in near if name != zone] if zone not in near else []
