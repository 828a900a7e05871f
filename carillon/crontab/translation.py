"""Entries of a crontab as job definitions; an entry that cannot be one, or will differ a little, is explained."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from carillon.crontab.reading import Entry, Unreadable

#: Macros that the API takes as they are, and those that it knows by another name.
_MACROS = {
    **{macro: macro for macro in ("@hourly", "@daily", "@weekly", "@monthly", "@yearly")},
    "@annually": "@yearly",
    "@midnight": "@daily",
}
_REFUSED = {
    "@reboot": "Fires when a machine starts, which Carillon does not see; let the machine's init system do it.",
    "@every_minute": "Is BSD's; write * * * * *.",
    "@every_second": "Is BSD's; make it a job with every_seconds: 1.",
}
#: Variables that cron itself reads, and that no command's environment needs.
_CRONS_OWN = (
    "CRON_TZ", "MAILTO", "MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING", "RANDOM_DELAY", "START_HOURS_RANGE",
)  # fmt: skip
_MAX_SLUG_LENGTH = 60


@dataclass
class Imported:
    """``definitions`` with the ``places`` they come from; ``notes`` and ``refusals`` are (place, words)."""

    definitions: list[dict[str, Any]] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)
    refusals: list[tuple[str, str]] = field(default_factory=list)


def translate(
    entries: Iterable[Entry | Unreadable], *, source: str, job_type: str, timezone: str | None, prefix: str
) -> Imported:
    """Definitions of ``job_type``, with ``command`` and, where there is any, ``stdin``, ``environment`` and ``user``
    in the payload.

    ``timezone`` is that of the machine the crontab is from, for lines without ``CRON_TZ``; None: UTC, with a note.
    """
    found, names, said = Imported(), Counter[str](), set[str]()
    for entry in entries:
        place = f"{source}:{entry.line}"
        reason = entry.reason if isinstance(entry, Unreadable) else _impossible(entry.expression)
        if reason is not None or isinstance(entry, Unreadable):
            found.refusals.append((place, reason or ""))
            continue
        once = [note for note in _doubts_of_many(entry, timezone) if note not in said]
        said.update(once)
        found.notes += [(place, note) for note in [*once, *_doubts(entry)]]
        found.definitions.append(_definition(entry, job_type, timezone, _name(entry, prefix, names)))
        found.places.append(place)
    return found


def _impossible(expression: str) -> str | None:
    macro = expression.lower()
    if macro.startswith("@") and macro not in _MACROS:
        return f"{expression}: {_REFUSED.get(macro, 'Is not a schedule that crontab(5) knows.')}"
    if "~" in expression:
        return f"{expression}: Each cron draws a random time for ~; choose one, or give jitter_seconds."
    return None


def _doubts_of_many(entry: Entry, timezone: str | None) -> Iterator[str]:
    """Notes that are given once, at the first line they hold for."""
    environment = entry.environment
    if "CRON_TZ" not in environment and timezone is None:
        yield "No CRON_TZ and no --timezone: read as UTC, here and below."
    if "TZ" in environment:
        yield "TZ applies to commands only, as in cron; schedules use CRON_TZ."
    if environment.get("MAILTO"):
        yield f"MAILTO={environment['MAILTO']}: nothing is mailed."
    for name in ("RANDOM_DELAY", "START_HOURS_RANGE"):
        if name in environment:
            yield f"{name} is left out; jitter_seconds is similar."
    if entry.user is not None:
        yield f"Must run as {entry.user}: the payload names the user, and the worker must apply it."


def _doubts(entry: Entry) -> Iterator[str]:
    if not entry.expression.startswith("@"):
        yield from _doubtful_fields(entry.expression)
    if entry.stdin is not None:
        yield r"The text after the unescaped % is standard input; write \% if a percent sign was meant."


def _doubtful_fields(expression: str) -> Iterator[str]:
    fields = expression.split()
    day, weekday = fields[2], fields[4]
    if "*" not in (day, weekday):
        if day.startswith("*") or weekday.startswith("*"):
            yield f"{expression}: cron wants both kinds of day where one begins with *; Carillon one of them."
        else:
            yield f"{expression}: fires on either kind of day, as in cron, not only where both agree."
    if any(re.search(r"(?:^|,)[0-9]+/", one) for one in fields):
        yield f"{expression}: crons differ on n/step; write n-last/step."


def _definition(entry: Entry, job_type: str, timezone: str | None, name: str) -> dict[str, Any]:
    environment = {key: value for key, value in entry.environment.items() if key not in _CRONS_OWN}
    payload: dict[str, Any] = {"command": entry.command}
    payload |= {"stdin": entry.stdin} if entry.stdin is not None else {}
    payload |= {"environment": environment} if environment else {}
    payload |= {"user": entry.user} if entry.user else {}
    expression = _MACROS.get(entry.expression.lower(), entry.expression)
    zone = entry.environment.get("CRON_TZ") or timezone or "UTC"
    return {
        "name": name,
        "job_type": job_type,
        "schedule": {"type": "cron", "cron": expression, "timezone": zone},
        "payload": payload,
    }


def _name(entry: Entry, prefix: str, names: Counter[str]) -> str:
    """Named after the command, so that moving the line keeps the name; numbered if the command comes again."""
    slug = re.sub(r"[^a-z0-9._]+", "-", entry.command.lower()).strip("-.")[:_MAX_SLUG_LENGTH].strip("-.")
    slug = slug or "command"
    names[slug] += 1
    return f"{prefix}{slug}" + (f"-{names[slug]}" if names[slug] > 1 else "")
