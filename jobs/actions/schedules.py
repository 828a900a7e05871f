"""The API's ``schedule`` object (DESIGN §10) to a core ``Schedule`` and back.

``jobs.core.schedule`` decides what a schedule means and which are refused; this module reads the JSON, adds what
needs the database's clock (nothing may be created that never fires), and maps both to the job's columns.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from jobs.actions.fields import Fields
from jobs.core import schedule as core
from jobs.core.cron import parse_cron
from jobs.core.errors import InvalidInput
from jobs.core.policies import CronDialect, DstPolicy
from jobs.core.schedule import Schedule, ScheduleType
from jobs.core.timezones import canonical_timezone
from jobs.models import Job

#: How long ago a ``run_at`` may lie and still fire at once: the time a request may take, and clocks that differ.
LATE_ALLOWANCE = timedelta(seconds=60)
LONGEST_JITTER_SECONDS = 86_400
_OWN_FIELDS = {
    ScheduleType.CRON: ("cron", "cron_dialect", "timezone", "dst_policy"),
    ScheduleType.INTERVAL: ("every_seconds",),
    ScheduleType.ONCE: ("run_at",),
    ScheduleType.IMMEDIATE: (),
}
_COMMON_FIELDS = ("type", "starts_at", "ends_at", "jitter_seconds")
#: Every field of a schedule, of whatever type.
FIELDS = (*_COMMON_FIELDS, *(name for names in _OWN_FIELDS.values() for name in names))


@dataclass(frozen=True, slots=True)
class ParsedSchedule:
    """A schedule that was accepted. ``jitter`` delays each firing by a stable share of itself."""

    schedule: Schedule
    jitter: timedelta

    def columns(self) -> dict[str, Any]:
        """The columns of ``Job`` that hold it."""
        schedule = self.schedule
        return {
            "schedule_type": schedule.type.value,
            "cron_expression": schedule.cron or "",
            "timezone": schedule.timezone,
            "interval": schedule.every,
            "run_at": schedule.run_at,
            "starts_at": schedule.starts_at,
            "ends_at": schedule.ends_at,
            "dst_policy": schedule.dst_policy,
            "cron_dialect": schedule.cron_dialect,
            "jitter": self.jitter,
        }


def parse_schedule(document: object, *, anchor: datetime) -> ParsedSchedule:
    """Read and check a ``schedule`` object; ``anchor`` is the instant its job was created.

    Raises ``InvalidInput`` with every fault under the API's names (``cron``, ``run_at``, …). Whether it still fires is
    asked separately, by ``check_fires_ahead``.
    """
    if not isinstance(document, Mapping):
        raise InvalidInput({"": 'Must be an object such as {"type": "cron", "cron": "0 2 * * *"}.'})
    fields = Fields(document, known=FIELDS)
    given_type = fields.word("type", list(ScheduleType))
    if given_type is None:
        if "type" not in fields.errors:
            fields.complain("type", f"Is required: one of {', '.join(ScheduleType)}.")
        fields.finish()
    kind = ScheduleType(given_type)
    schedule = Schedule(
        type=kind,
        cron=_text(fields, "cron"),
        timezone=_timezone(fields, kind),
        every=fields.seconds(
            "every_seconds",
            int(core.SHORTEST_INTERVAL.total_seconds()),
            int(core.LONGEST_INTERVAL.total_seconds()),
        ),
        run_at=fields.instant("run_at"),
        anchor=anchor,
        starts_at=fields.instant("starts_at"),
        ends_at=fields.instant("ends_at"),
        dst_policy=fields.word("dst_policy", list(DstPolicy), default=DstPolicy.VIXIE.value),
        cron_dialect=fields.word("cron_dialect", list(CronDialect), default=CronDialect.UNIX.value),
    )
    jitter = fields.seconds("jitter_seconds", 0, LONGEST_JITTER_SECONDS, default=timedelta())
    _check(schedule, jitter, fields)
    fields.finish()
    return ParsedSchedule(_canonical(schedule), jitter)


def check_fires_ahead(schedule: Schedule, *, now: datetime) -> None:
    """Refuse a schedule with no firing at or after ``now`` (the database's), naming the field that ended it.

    A ``run_at`` up to ``LATE_ALLOWANCE`` ago is let through: it fires at once.
    """
    if first_instant(schedule, now=now) is not None:
        return
    present = instant_text(now)
    if schedule.type is ScheduleType.ONCE:
        raise InvalidInput({"run_at": f"Lies in the past (now is {present}); name a time to come."})
    field = "ends_at" if schedule.ends_at is not None else "starts_at"
    raise InvalidInput({field: f"Leaves no firing between now ({present}) and the year 2100; move it."})


def first_instant(schedule: Schedule, *, now: datetime) -> datetime | None:
    """The first firing of a schedule that begins at ``now``: strictly later than now, except that an immediate job
    fires at its anchor and a slightly past ``run_at`` still counts.
    """
    recurring = schedule.type in (ScheduleType.CRON, ScheduleType.INTERVAL)
    return core.next_fire(schedule, after=now if recurring else now - LATE_ALLOWANCE)


def schedule_representation(job: Job) -> dict[str, Any]:
    """The ``schedule`` object of the API: the fields of its type and those every schedule has."""
    values = {
        "type": job.schedule_type,
        "cron": job.cron_expression,
        "timezone": job.timezone,
        "dst_policy": job.dst_policy,
        "cron_dialect": job.cron_dialect,
        "every_seconds": job.interval and seconds(job.interval),
        "run_at": instant_text(job.run_at),
        "starts_at": instant_text(job.starts_at),
        "ends_at": instant_text(job.ends_at),
        "jitter_seconds": seconds(job.jitter),
    }
    shown = ("type", *_OWN_FIELDS[ScheduleType(job.schedule_type)], *_COMMON_FIELDS[1:])
    return {name: values[name] for name in shown}


def merged(before: Mapping[str, Any], changes: object) -> object:
    """``changes`` over ``before`` as in a JSON merge patch; a change of type drops what only the old type has."""
    if not isinstance(changes, dict):
        return changes
    if changes.get("type", before["type"]) != before["type"]:
        before = {name: value for name, value in before.items() if name in _COMMON_FIELDS}
    return {**before, **changes}


def instant_text(instant: datetime | None) -> str | None:
    """RFC 3339 in UTC, ending in Z; None for None."""
    return None if instant is None else instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def seconds(duration: timedelta) -> int | float:
    """A duration as the API writes it: whole seconds without a decimal point."""
    value = duration.total_seconds()
    return int(value) if value.is_integer() else value


def _text(fields: Fields, name: str) -> str | None:
    value = fields.get(name)
    if value is None or isinstance(value, str):
        return value
    fields.complain(name, "Must be a text.")
    return None


def _timezone(fields: Fields, kind: ScheduleType) -> str:
    for name in ("timezone", "dst_policy", "cron_dialect"):
        if kind is not ScheduleType.CRON and fields.get(name) is not None:
            fields.complain(name, f"Does not belong to a schedule of type {kind}; leave it out.")
    given = _text(fields, "timezone")
    return "UTC" if given is None else given


def _check(schedule: Schedule, jitter: timedelta, fields: Fields) -> None:
    try:
        core.validate(schedule)
    except InvalidInput as error:
        # A field that could not even be read has its complaint; that it is missing would be a second, wrong one.
        for name in error.errors.keys() - fields.errors.keys():
            fields.errors[name] = error.errors[name]
    if schedule.every is not None and jitter >= schedule.every:
        fields.complain(
            "jitter_seconds", "Must be shorter than every_seconds, or firings overtake each other."
        )


def _canonical(schedule: Schedule) -> Schedule:
    """The accepted schedule in the spelling that is stored: canonical zone, normal cron text, times in UTC."""
    times = (schedule.run_at, schedule.starts_at, schedule.ends_at)
    run_at, starts_at, ends_at = (time and time.astimezone(UTC) for time in times)
    return Schedule(
        type=schedule.type,
        cron=schedule.cron and parse_cron(schedule.cron, schedule.cron_dialect).text,
        timezone=canonical_timezone(schedule.timezone),
        every=schedule.every,
        run_at=run_at,
        anchor=schedule.anchor,
        starts_at=starts_at,
        ends_at=ends_at,
        dst_policy=schedule.dst_policy,
        cron_dialect=schedule.cron_dialect,
    )
