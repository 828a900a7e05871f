"""Rows of django-celery-beat as job definitions; a row that cannot be one, or will differ a little, is explained."""

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from carillon.crontab.translation import Imported

_SECONDS = {"days": 86_400.0, "hours": 3_600.0, "minutes": 60.0, "seconds": 1.0, "microseconds": 1e-6}


class _Refused(Exception):
    """A row that cannot become a job; the words say why."""


def translate(rows: Iterable[dict[str, Any]], *, queue: str, prefix: str) -> Imported:
    """Definitions of ``celery_task``; tasks that name no queue go to ``queue``."""
    found = Imported()
    for row in rows:
        place = f"{row['name']!r}"
        if not row["enabled"]:
            found.notes.append((place, "Is disabled, and left out."))
            continue
        try:
            definition = _definition(row, queue, prefix)
        except _Refused as reason:
            found.refusals.append((place, str(reason)))
            continue
        found.notes += [(place, note) for note in _doubts(row)]
        found.definitions.append(definition)
        found.places.append(place)
    return found


def _definition(row: dict[str, Any], queue: str, prefix: str) -> dict[str, Any]:
    if row["task"].startswith("celery."):
        raise _Refused(f"{row['task']} is Celery's own housekeeping; leave it to Celery.")
    if (row["exchange"] or row["routing_key"]) and not row["queue"]:
        raise _Refused("Goes by exchange and routing key; Carillon sends to a queue, so name its queue.")
    schedule = _schedule(row)
    if row["start_time"] is not None:
        schedule["starts_at"] = _instant(row["start_time"])
    if row["expires"] is not None:
        schedule["ends_at"] = _instant(row["expires"])
    payload = {
        "task": row["task"],
        "args": _json(row, "args", list),
        "kwargs": _json(row, "kwargs", dict),
        "queue": row["queue"] or queue,
    }
    return {
        "name": f"{prefix}{row['name']}",
        "job_type": "celery_task",
        "schedule": schedule,
        "payload": {name: value for name, value in payload.items() if value},
    }


def _schedule(row: dict[str, Any]) -> dict[str, Any]:
    if row["solar_id"] is not None:
        raise _Refused("Follows the sun, which Carillon does not support.")
    if row["clocked_id"] is not None:
        if row["is_past"]:
            raise _Refused(f"Was for {_instant(row['clocked_time'])}, which is past; it would fire at once.")
        return {"type": "once", "run_at": _instant(row["clocked_time"])}
    if row["one_off"]:
        raise _Refused("Fires once, at the next time of a recurring schedule; make it a job with run_at.")
    if row["interval_id"] is not None:
        return _interval(row)
    if row["crontab_id"] is not None:
        return _cron(row)
    raise _Refused("Has no schedule.")


def _interval(row: dict[str, Any]) -> dict[str, Any]:
    seconds = row["every"] * _SECONDS.get(row["period"], 0.0)
    if seconds < 1:
        raise _Refused(f"Every {row['every']} {row['period']}: the minimum is one second.")
    return {"type": "interval", "every_seconds": int(seconds) if seconds == int(seconds) else seconds}


def _cron(row: dict[str, Any]) -> dict[str, Any]:
    names = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
    fields = ["".join(row[name].split()) for name in names]
    if fields[2] != "*" and fields[4] != "*":
        raise _Refused(
            f"{' '.join(fields)}: celery-beat fires where both kinds of day agree, Carillon, as cron, on either; "
            "restrict one, or name the week of the day, such as 5#2."
        )
    return {"type": "cron", "cron": " ".join(fields), "timezone": row["timezone"] or "UTC"}


def _doubts(row: dict[str, Any]) -> Iterator[str]:
    if row["queue"] and (row["exchange"] or row["routing_key"]):
        yield "Exchange and routing key are left out; it goes to its queue."
    if row["priority"] is not None:
        yield f"Priority {row['priority']} belongs to the message and is left out; a job has its own."
    if row["expire_seconds"] is not None:
        yield f"expire_seconds ({row['expire_seconds']}) is left out; misfire_grace_seconds is similar."
    if (row["headers"] or "{}").strip() not in ("", "{}", "null"):
        yield "Its headers are left out."


def _json(row: dict[str, Any], name: str, kind: type) -> Any:
    try:
        value = json.loads(row[name] or json.dumps(kind()))
    except ValueError as error:
        raise _Refused(f"{name} is not JSON: {error}") from None
    if not isinstance(value, kind):
        raise _Refused(f"{name} must be a JSON {'array' if kind is list else 'object'}.")
    return value


def _instant(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
