"""A job's definition: the API's JSON shape (DESIGN §10) to the columns of ``Job``, and back.

Every entry point (API, admin, commands) hands its input to ``parse``, so the same is accepted and refused everywhere,
with the same words. Nothing is written here; everything wrong is told at once.
"""

import json
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from jobs.actions import schedules
from jobs.actions.fields import Fields
from jobs.actions.labels import read_labels
from jobs.actions.notices import is_watched, read_notify
from jobs.actions.pull import types
from jobs.actions.pull.types import Kinds
from jobs.actions.schedules import ParsedSchedule, instant_text, seconds
from jobs.actions.vault import check_secrets
from jobs.core.backoff import RetryPolicy
from jobs.core.errors import InvalidInput
from jobs.core.json_rules import check_json
from jobs.core.policies import Delivery, MisfirePolicy, OverlapPolicy, Priority
from jobs.core.pull import shown_name
from jobs.core.schedule import ScheduleType
from jobs.core.states import JobStatus
from jobs.models import Job
from jobs.store.jobs import schedule_of
from tenants.models import Tenant

__all__ = ("FIELDS", "parse", "representation", "schedule_of")

#: What a caller may write.
FIELDS = (
    "name",
    "labels",
    "job_type",
    "schedule",
    "payload",
    "priority",
    "timeout_seconds",
    "retry_policy",
    "overlap_policy",
    "max_concurrent",
    "concurrency_key",
    "misfire_policy",
    "misfire_grace_seconds",
    "catchup_window_seconds",
    "max_catchup",
    "delivery",
    "notify",
    "pause_after_failures",
)
#: The one list of what DESIGN names and this release does: other values of these enumerations are refused as yet
#: to come.
ACCEPTED: dict[str, tuple[type[StrEnum], tuple[str, ...]]] = {
    "overlap_policy": (OverlapPolicy, tuple(OverlapPolicy)),
    "misfire_policy": (MisfirePolicy, ("fire_once", "skip", "fire_all", "backfill")),
    "delivery": (Delivery, tuple(Delivery)),
}
_READ_ONLY = "Cannot be written; leave it out."
_HINTS = {
    "status": "Is not part of the definition; use pause, resume or cancel.",
    **dict.fromkeys(
        ("id", "status_reason", "version", "next_fire_at", "created_at", "updated_at"), _READ_ONLY
    ),
}
LONGEST_NAME = 200
LONGEST_TIMEOUT_SECONDS = 86_400
LONGEST_GRACE_SECONDS = 7 * 86_400
LONGEST_CATCHUP_SECONDS = 366 * 86_400
MOST_CATCHUP = 10_000
MOST_FAILURES = 100
MOST_CONCURRENT = 1_000_000
#: Everything but the payload fits into this many bytes.
_REST_BYTES = 65_536
#: Fields of a retry policy that have a meaning whatever its kind of back-off.
_RETRY_COMMON = ("max_attempts", "jitter", "max_elapsed_seconds")
_ONE_TIME = (ScheduleType.ONCE, ScheduleType.IMMEDIATE)


def parse(
    definition: object,
    *,
    tenant: Tenant,
    now: datetime,
    base: Job | None = None,
    whole: bool = False,
    kinds: Kinds | None = None,
) -> dict[str, Any]:
    """Check ``definition`` and return the values of the job's columns, a dict ready for ``Job(**columns)``.

    With a ``base``, the job being edited, ``definition`` is a JSON merge patch (RFC 7396) over its representation:
    what is left out stays, null goes back to the default. A new schedule type or kind of back-off drops what only the
    old one had. ``whole=True`` takes ``definition`` for everything there is instead (a form). ``now`` is the
    database's clock; ``kinds`` is shared by those that parse many. ``name`` comes out empty where it was left out and
    may be.

    Raises ``InvalidInput`` with every faulty field by its path: ``schedule.cron``, ``payload.url``,
    ``retry_policy.max_attempts``.
    """
    if not isinstance(definition, dict):
        raise InvalidInput({"": "A job is a JSON object."})
    _check_payload(definition.get("payload"), tenant, base)
    largest = max(tenant.max_payload_bytes, len(json.dumps(base.payload).encode()) if base else 0)
    check_json(definition, field="", max_bytes=largest + _REST_BYTES)
    document = definition if base is None or whole else _patched(base, definition)
    fields = Fields(document, known=FIELDS, hints=_HINTS)
    schedule = fields.collect(lambda: _schedule(document, now, base), under="schedule")
    one_time = _type_of(document.get("schedule")) in _ONE_TIME
    columns = {
        "name": _name(fields, optional=one_time and base is None),
        "labels": _labels(fields),
        **(schedule.columns() if schedule else {}),
        **_type_and_payload(fields, tenant, base, kinds or Kinds(tenant)),
        **_policies(fields, one_time=one_time),
        **_telling(fields, tenant, base),
    }
    fields.finish()
    return columns


def representation(job: Job) -> dict[str, Any]:
    """The job as the API shows it, JSON types only. ``next_fire_at`` is null unless the job is active."""
    return {
        "id": str(job.id),
        **_definition(job),
        "status": str(job.status),
        "status_reason": job.status_reason,
        "version": job.version,
        "next_fire_at": instant_text(job.next_fire_at if job.status == JobStatus.ACTIVE else None),
        "created_at": instant_text(job.created_at),
        "updated_at": instant_text(job.updated_at),
    }


def _definition(job: Job) -> dict[str, Any]:
    """What of a job can be written, as it would be written."""
    return {
        "name": job.name,
        "labels": job.labels,
        "job_type": shown_name(job.job_type),
        "schedule": schedules.schedule_representation(job),
        "payload": job.payload,
        "priority": Priority(job.priority).label,
        "timeout_seconds": seconds(job.timeout),
        "retry_policy": job.retry_policy,
        "overlap_policy": job.overlap_policy,
        "max_concurrent": job.max_concurrent,
        "concurrency_key": job.concurrency_key,
        "misfire_policy": job.misfire_policy,
        "misfire_grace_seconds": seconds(job.misfire_grace),
        "catchup_window_seconds": seconds(job.catchup_window),
        "max_catchup": job.max_catchup,
        "delivery": job.delivery,
        "notify": job.notify,
        "pause_after_failures": job.pause_after_failures,
    }


def _patched(base: Job, changes: dict[str, Any]) -> dict[str, Any]:
    before = _definition(base)
    document = {**before, **changes}
    if "schedule" in changes:
        document["schedule"] = schedules.merged(before["schedule"], changes["schedule"])
    retry = changes.get("retry_policy")
    if isinstance(retry, dict):
        kept = before["retry_policy"]
        if retry.get("backoff", kept.get("backoff")) != kept.get("backoff"):
            kept = {name: value for name, value in kept.items() if name in _RETRY_COMMON}
        document["retry_policy"] = _merge_patch(kept, retry)
    for name in ("payload", "labels"):
        if isinstance(changes.get(name), dict):
            document[name] = _merge_patch(before[name], changes[name])
    return document


def _merge_patch(target: object, patch: object) -> Any:
    """RFC 7396. Recursion is bounded: ``check_json`` has bounded the depth of both."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge_patch(merged.get(key), value)
    return merged


def _type_of(schedule: object) -> object:
    """The type a schedule claims, sound or not: a name is optional even while other fields are wrong."""
    return schedule.get("type") if isinstance(schedule, dict) else None


def _schedule(document: dict[str, Any], now: datetime, base: Job | None) -> ParsedSchedule:
    given = document.get("schedule")
    if given is None:
        raise InvalidInput(
            {"": 'Is required, such as {"type": "cron", "cron": "0 2 * * *", "timezone": "UTC"}.'}
        )
    parsed = schedules.parse_schedule(given, anchor=base.created_at if base else now)
    if base is not None and parsed.schedule == schedule_of(base):
        return parsed
    if base is not None and parsed.schedule.type is ScheduleType.IMMEDIATE != base.schedule_type:
        raise InvalidInput({"type": "A job that exists cannot become immediate; run it now instead."})
    schedules.check_fires_ahead(parsed.schedule, now=now)
    return parsed


def _name(fields: Fields, *, optional: bool) -> str:
    name = fields.text("name", LONGEST_NAME)
    if not name and "name" not in fields.errors and (not optional or fields.get("name") is not None):
        fields.complain("name", "Is required: 1 to 200 characters, unique among your jobs.")
    return name


def _labels(fields: Fields) -> dict[str, str]:
    given = {} if fields.get("labels") is None else fields.get("labels")
    return fields.collect(lambda: read_labels(given), under="labels") or {}


def _type_and_payload(fields: Fields, tenant: Tenant, base: Job | None, kinds: Kinds) -> dict[str, Any]:
    payload = {} if fields.get("payload") is None else fields.get("payload")
    # Once more, because a merge of two payloads may be larger than either.
    fields.collect(lambda: _check_payload(payload, tenant, base))
    timeout = fields.seconds("timeout_seconds", 0.1, LONGEST_TIMEOUT_SECONDS)
    name = fields.get("job_type")
    if name is None:
        fields.complain("job_type", f"Is required: one of {', '.join(types.names(tenant))}.")
        return {}
    kind = fields.collect(lambda: kinds(name))
    if kind is None:
        return {}
    if "payload" not in fields.errors:
        changed = base is None or base.payload != payload
        fields.collect(lambda: _check_of_kind(kind, payload, tenant if changed else None))
    sound = not any(field.startswith("payload") for field in fields.errors)
    return {
        "job_type": kind.job_type,
        "payload": payload,
        "timeout": timeout or kind.timeout,
        "target": kind.target(payload) if kind.target and sound else "",
    }


def check_payload(payload: Any, *, job_type: str, tenant: Tenant) -> None:
    """Refuse what a job of that type could not have as its payload: raises ``InvalidInput`` under ``payload``."""
    _check_payload(payload, tenant)
    _check_of_kind(types.kind_of(job_type, tenant=tenant), payload, tenant)


def _check_payload(payload: Any, tenant: Tenant, base: Job | None = None) -> None:
    try:
        check_json(payload, field="payload", max_bytes=tenant.max_payload_bytes, quota="max_payload_bytes")
    except InvalidInput:
        # A quota that was lowered leaves alone what is there.
        if base is None or payload != base.payload:
            raise


def _check_of_kind(kind: types.Kind, payload: Any, tenant: Tenant | None) -> None:
    """Refuse what its type does not accept, and fields that refer to secrets ``tenant`` does not have.

    Without a tenant secrets are not looked for: one that was deleted leaves alone what refers to it.
    """
    kind.check(payload)
    if kind.secrets is None or tenant is None:
        return
    check_secrets(kind.secrets(payload), tenant=tenant)


def _policies(fields: Fields, *, one_time: bool) -> dict[str, Any]:
    retry = fields.collect(
        lambda: RetryPolicy.from_json(fields.get("retry_policy") or {}), under="retry_policy"
    )
    defaults = {
        "overlap_policy": OverlapPolicy.SKIP.value,
        "misfire_policy": (MisfirePolicy.FIRE_ALL if one_time else MisfirePolicy.FIRE_ONCE).value,
        "delivery": Delivery.AT_LEAST_ONCE.value,
    }
    return {
        "priority": _priority(fields),
        "retry_policy": retry.to_json() if retry else {},
        "max_concurrent": fields.number("max_concurrent", 1, MOST_CONCURRENT, default=1, whole=True),
        "concurrency_key": fields.text("concurrency_key", LONGEST_NAME),
        "misfire_grace": fields.seconds(
            "misfire_grace_seconds", 1, LONGEST_GRACE_SECONDS, default=timedelta(seconds=60)
        ),
        "catchup_window": fields.seconds(
            "catchup_window_seconds", 0, LONGEST_CATCHUP_SECONDS, default=timedelta(seconds=3600)
        ),
        "max_catchup": fields.number("max_catchup", 1, MOST_CATCHUP, default=100, whole=True),
        **{
            name: fields.word(name, accepted, default=defaults[name], later=list(kind))
            for name, (kind, accepted) in ACCEPTED.items()
        },
    }


def _telling(fields: Fields, tenant: Tenant, base: Job | None) -> dict[str, Any]:
    given, before = fields.get("notify"), base.notify if base else None
    # As of payloads: a secret that was deleted leaves alone what refers to it.
    asked = None if before is not None and given == before else tenant
    notify = (
        None if given is None else fields.collect(lambda: read_notify(given, tenant=asked), under="notify")
    )
    most = fields.number("pause_after_failures", 1, MOST_FAILURES, whole=True)
    return {"notify": notify, "watched": is_watched(notify), "pause_after_failures": most}


def _priority(fields: Fields) -> int:
    label = fields.word("priority", [priority.label for priority in Priority], default=Priority.MEDIUM.label)
    return int(Priority.from_label(label))
