"""The history of a job: the actor that paused it, and its versions, read back from the audit trail.

A version is the version before it with the changes of one edit. So the present definition and the trail give all
versions, as far back as the trail goes. Values that the trail does not keep (payloads, notices, long values) are those
of the present.
"""

from copy import copy
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core.exceptions import FieldDoesNotExist

from jobs.actions.definition import written
from jobs.models import Change, Job

#: Entries of the trail that are looked at, the newest.
MAX_CHANGES = 200
MAX_VERSIONS = 20


@dataclass(frozen=True, slots=True)
class Version:
    """A past or the present version. For the first that the trail knows, ``made_at`` is None and ``by`` is empty.

    ``changed``: its changes to the version before, ``{field: (before, after)}``; None in place of the pair if the
    values are not kept. ``unkept``: fields of ``definition`` with the present value, as the version's own is not kept.
    """

    number: int
    made_at: datetime | None
    by: str
    changed: dict[str, tuple[Any, Any] | None]
    definition: dict[str, Any]
    unkept: frozenset[str]


def changes_of(job: Job) -> list[Change]:
    """The newest entries of the audit trail that tell of the job."""
    # The index is made under the second condition.
    of_object = Change.objects.filter(object_id=str(job.id), object_id__gt="")
    newest = of_object.order_by("-xid", "-id")[:MAX_CHANGES]
    return [change for change in newest if change.kind == Change.Kind.JOB]


def paused_by(job: Job) -> str:
    """The actor that paused a paused job, such as ``operator olga``; empty if the trail does not tell any more."""
    for change in changes_of(job):
        told = change.changes.get("status")
        if told:
            return _actor(change) if told[1] == job.status else ""
    return ""


def versions_of(job: Job) -> list[Version]:
    """The job's versions, the present one first; ``MAX_VERSIONS`` at most."""
    found: list[Version] = []
    after, unkept = copy(job), frozenset[str]()
    for change in changes_of(job):
        if "version" not in change.changes or len(found) == MAX_VERSIONS:
            continue
        before, lost = _undone(after, change.changes)
        shown, was = written(after), written(before)
        changed: dict[str, Any] = {
            name: (was[name], value) for name, value in shown.items() if was[name] != value
        }
        found.append(
            Version(
                number=after.version,
                made_at=change.at,
                by=_actor(change),
                changed=changed | dict.fromkeys(sorted(lost)),
                definition=shown,
                unkept=unkept,
            )
        )
        after, unkept = before, unkept | lost
    if len(found) < MAX_VERSIONS:
        found.append(Version(after.version, None, "", {}, written(after), unkept))
    return found


def _undone(job: Job, changes: dict[str, Any]) -> tuple[Job, frozenset[str]]:
    """The job as it was before ``changes``, and the fields whose value then is not known."""
    before, lost = copy(job), set()
    for column, told in changes.items():
        try:
            field: Any = Job._meta.get_field(column)
        except FieldDoesNotExist:  # a column that no longer exists
            continue
        if told is None:
            lost.add(_SHOWN_AS.get(column, column))
        else:
            setattr(before, column, field.to_python(told[0]) if told[0] is not None else None)
    return before, frozenset(lost)


#: Columns that the API shows under another name.
_SHOWN_AS = {"cron_expression": "schedule", "interval": "schedule", "timeout": "timeout_seconds"}


def _actor(change: Change) -> str:
    return f"{change.actor_kind.replace('_', ' ')} {change.actor}".strip()
