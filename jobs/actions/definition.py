"""A job's definition: the API's JSON shape (DESIGN §10) to the columns of ``Job``, and back.

Every entry point (API, admin, commands) hands its input to ``parse``, so all of them accept and refuse the same input,
with the same words. Nothing is written here. All faults are told at once.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from jobs.actions import schedules
from jobs.actions.notices import check_secrets_of, is_watched
from jobs.actions.pull import types
from jobs.actions.pull.types import Kinds
from jobs.actions.vault import check_secrets
from jobs.core.errors import Complaints, InvalidInput, unknown
from jobs.core.instants import instant_text
from jobs.core.json_rules import check_json
from jobs.core.policies import Priority
from jobs.core.pull import shown_name
from jobs.core.schedule import ScheduleType
from jobs.core.states import JobStatus
from jobs.handlers.builtin import queues
from jobs.models import Job
from jobs.shapes import retry as retries
from jobs.shapes import schedule as schedule_shape
from jobs.shapes.job import NAME, ChangesOfMany, Definition
from jobs.shapes.schedule import ONE_TIME, ScheduleShape
from jobs.shapes.terms import seconds
from jobs.store.jobs import schedule_of
from tenants.models import Tenant

__all__ = ("parse", "representation", "schedule_of")

#: Everything but the payload fits into this many bytes.
_REST_BYTES = 65_536


def parse(
    definition: object,
    *,
    tenant: Tenant,
    now: datetime,
    base: Job | None = None,
    whole: bool = False,
    kinds: Kinds | None = None,
) -> dict[str, Any]:
    """Check ``definition`` and return the values of the job's columns, a dict ready for ``Job(**columns)``: the columns
    that can be written and, for a new job, ``next_fire_at``.

    With a ``base``, the job being edited, ``definition`` is a JSON merge patch (RFC 7396) over its representation:
    a field that is left out stays, null goes back to the default. A new schedule type or kind of back-off drops the
    fields that only the old one had. ``whole=True`` takes ``definition`` as the whole definition instead (a form).
    ``now`` is the database's clock. Callers that parse many definitions share ``kinds``. ``name`` comes out empty if it
    was left out and may be.

    Raises ``InvalidInput`` with every faulty field by its path: ``schedule.cron``, ``payload.url``,
    ``retry_policy.max_attempts``.
    """
    if not isinstance(definition, dict):
        raise InvalidInput({"": "A job is a JSON object."})
    checked = definition.get("payload")
    size = _check_payload(checked, tenant, base)
    rest = {name: value for name, value in definition.items() if name != "payload"}
    check_json(rest, field="", max_bytes=max(0, tenant.max_payload_bytes - size) + _REST_BYTES)
    document = definition if base is None or whole else _patched(base, definition)
    errors = Complaints()
    nameless = base is None and _type_of(document.get("schedule")) in ONE_TIME
    read = errors.collect(lambda: Definition.read(document, nameless=nameless))
    # Even if the definition is refused, the caller learns whether its type and its payload would do.
    columns = _type_and_payload(errors, document, read, tenant, base, kinds or Kinds(tenant), checked=checked)
    if read is not None:
        columns = {**read.columns(), **columns}
        first = errors.collect(lambda: _check_schedule(read.schedule, now, base), under="schedule")
        if base is None:
            columns["next_fire_at"] = first
        errors.collect(lambda: check_secrets_of(columns["notify"], tenant=tenant, base=base), under="notify")
    errors.finish()
    return {**columns, "watched": is_watched(columns["notify"])}


def read_patch(changes: object, *, tenant: Tenant) -> dict[str, Any]:
    """``changes`` if it is a merge patch that any jobs may take; raises ``InvalidInput`` otherwise.

    It refuses a change that no job could take: an unknown field, a field that cannot be written, a value that the field
    cannot have. It also refuses a name, which only one job can have.
    """
    if not isinstance(changes, dict) or not changes:
        raise InvalidInput({"": "Must be an object with the fields to change."})
    rest = {name: value for name, value in changes.items() if name != "payload"}
    size = _check_payload(changes.get("payload"), tenant)
    check_json(rest, field="", max_bytes=max(0, tenant.max_payload_bytes - size) + _REST_BYTES)
    if strange := unknown(changes, known=ChangesOfMany.model_fields, hints=ChangesOfMany.hints):
        raise InvalidInput(strange)
    # In every field, a null takes the value away or goes back to a default.
    given = {name: _without_nulls(value) for name, value in rest.items() if value is not None}
    payload = {"payload": changes["payload"]} if changes.get("payload") is not None else {}
    ChangesOfMany.read(given | payload)
    return changes


def _without_nulls(value: Any) -> Any:
    """Recursion is bounded: ``check_json`` has bounded the depth."""
    if not isinstance(value, dict):
        return value
    return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}


def own_columns(definition: Mapping[str, Any], *, tenant: Tenant, kinds: Kinds) -> dict[str, Any]:
    """The columns of name and payload, in which jobs mostly differ; all other columns are those of a parsed job.
    Raises ``InvalidInput``, also for a definition without a name: then ``parse`` says what is wrong."""
    payload = {} if definition.get("payload") is None else definition["payload"]
    _check_payload(payload, tenant)
    kind = kinds(definition["job_type"])
    _check_of_kind(kind, payload, tenant)
    return {
        "name": NAME.read(definition.get("name")),
        "payload": payload,
        "target": kind.target(payload) if kind.target else "",
    }


def representation(job: Job) -> dict[str, Any]:
    """The job as the API shows it, JSON types only. ``next_fire_at`` is null unless the job is active."""
    return {
        "id": str(job.id),
        **written(job),
        "status": str(job.status),
        "status_reason": job.status_reason,
        "paused_until": instant_text(job.paused_until),
        "version": job.version,
        "next_fire_at": instant_text(job.next_fire_at if job.status == JobStatus.ACTIVE else None),
        "created_at": instant_text(job.created_at),
        "updated_at": instant_text(job.updated_at),
        "expires_at": instant_text(job.expires_at),
    }


def written(job: Job) -> dict[str, Any]:
    """The fields of a job that can be written, as they would be written."""
    return {
        "name": job.name,
        "labels": job.labels,
        "job_type": shown_name(job.job_type),
        "schedule": schedule_shape.shown(job),
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
        "delete_after_seconds": None if job.delete_after is None else seconds(job.delete_after),
    }


def _patched(base: Job, changes: dict[str, Any]) -> dict[str, Any]:
    before = written(base)
    document = {**before, **changes}
    if "schedule" in changes:
        document["schedule"] = schedules.merged(before["schedule"], changes["schedule"])
    retry = changes.get("retry_policy")
    if isinstance(retry, dict):
        kept = before["retry_policy"]
        if retry.get("backoff", kept.get("backoff")) != kept.get("backoff"):
            kept = {name: value for name, value in kept.items() if name in retries.COMMON}
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
    """The type a schedule claims, valid or not: a name is optional even while other fields are wrong."""
    return schedule.get("type") if isinstance(schedule, dict) else None


def _check_schedule(given: ScheduleShape, now: datetime, base: Job | None) -> datetime | None:
    """The first firing; None for a schedule that the job has already."""
    schedule = given.at(base.created_at if base else now)
    if base is not None and schedule == schedule_of(base):
        return None
    if base is not None and schedule.type is ScheduleType.IMMEDIATE != base.schedule_type:
        raise InvalidInput({"type": "A job that exists cannot become immediate; run it now instead."})
    return schedules.first_firing(schedule, now=now)


def _type_and_payload(
    errors: Complaints,
    document: dict[str, Any],
    read: Definition | None,
    tenant: Tenant,
    base: Job | None,
    kinds: Kinds,
    *,
    checked: object,
) -> dict[str, Any]:
    name = document.get("job_type")
    payload: Any = {} if document.get("payload") is None else document["payload"]
    if payload is not checked:
        # A merge of two payloads may be larger than either.
        errors.collect(lambda: _check_payload(payload, tenant, base))
    kind = errors.collect(lambda: kinds(name)) if isinstance(name, str) else None
    if kind is None:
        return {}
    timeout = kind.timeout
    if read is not None and read.timeout_seconds is not None:
        timeout = timedelta(seconds=read.timeout_seconds)
        _check_timeout(errors, kind, timeout, base)
    if "payload" not in errors.found:
        changed = base is None or base.payload != payload
        errors.collect(lambda: _check_of_kind(kind, payload, tenant if changed else None))
    sound = not any(field.startswith("payload") for field in errors.found)
    return {
        "job_type": kind.job_type,
        "payload": payload,
        "timeout": timeout,
        "target": kind.target(payload) if kind.target and sound else "",
    }


def _check_timeout(errors: Complaints, kind: types.Kind, timeout: timedelta, base: Job | None) -> None:
    """Refuse a time-out above the type's ceiling. A stored time-out is left alone: workers go by the ceiling."""
    kept = base is not None and (base.job_type, base.timeout) == (kind.job_type, timeout)
    if kind.max_timeout and timeout > kind.max_timeout and not kept:
        most = seconds(kind.max_timeout)
        errors.complain("timeout_seconds", f"Must be at most {most:,g} for a job of type {kind.job_type}.")


def check_payload(payload: Any, *, job_type: str, tenant: Tenant) -> None:
    """Refuse a payload that a job of that type could not have: raises ``InvalidInput`` under ``payload``."""
    _check_payload(payload, tenant)
    _check_of_kind(types.kind_of(job_type, tenant=tenant), payload, tenant)


def _check_payload(payload: Any, tenant: Tenant, base: Job | None = None) -> int:
    """Refuse a payload that cannot be stored, or is larger than the quota. Returns the bytes it takes."""
    most = tenant.max_payload_bytes
    try:
        return check_json(payload, field="payload", max_bytes=most, quota="max_payload_bytes")
    except InvalidInput:
        # A lowered quota leaves a stored payload alone.
        if base is None or payload != base.payload:
            raise
        return most


def _check_of_kind(kind: types.Kind, payload: Any, tenant: Tenant | None) -> None:
    """Refuse a payload that its type does not accept, or that refers to secrets or queues ``tenant`` does not have.

    Without a tenant neither is looked for: a payload may go on referring to a secret or queue that was deleted or
    withdrawn.
    """
    kind.check(payload)
    if tenant is None:
        return
    if kind.secrets is not None:
        target = kind.target(payload) if kind.target else None
        check_secrets(kind.secrets(payload), tenant=tenant, target=target)
    if kind.sends_to is not None:
        _check_queue(kind.sends_to(payload), tenant)


def _check_queue(queue: str, tenant: Tenant) -> None:
    if not queues.may_write(queue, tenant=tenant.slug, granted=tenant.queues):
        raise InvalidInput({"payload.queue": [queues.refusal(queue, tenant=tenant.slug)]})
