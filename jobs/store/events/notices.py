"""Notices: the notifier's place in the feed, the system jobs its notices are triggers of, and the pause of dying jobs.

Call everything here in the one transaction of ``jobs.engine.notices``.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from jobs.core.states import JobStatus
from jobs.models import Job
from jobs.models.fields import new_id
from jobs.store import db
from jobs.store.events import Place, lag_seconds
from jobs.store.events.windows import windows_after
from jobs.store.insight import activity
from jobs.store.jobs import note_versions
from jobs.store.trail import ENGINE, acting_as
from tenants.clock import database_now

_SQL = db.queries("notices")
#: The name of each kind of event in ``notify.on`` of jobs and of tenants.
WORDS = {
    "trigger.succeeded": "succeeded",
    "trigger.retrying": "failed",
    "trigger.dead": "dead",
    "trigger.skipped": "skipped",
    "job.paused": "paused",
}
#: The same for the runs of workflows.
RUN_WORDS = {
    "workflow_run.succeeded": "succeeded",
    "workflow_run.failed": "failed",
    "workflow_run.cancelled": "cancelled",
}
#: And for firings of their schedules that began no run. A tenant's words for these are those of jobs.
SCHEDULE_WORDS = {kind: WORDS[kind] for kind in ("trigger.dead", "trigger.skipped")}
#: A tenant's words for runs: ``failed`` alone is for attempts.
TENANT_RUN_WORDS = {kind: f"run_{word}" for kind, word in RUN_WORDS.items()}
#: Names of the system jobs: the first one that no job of the tenant's own has is used.
NAMES = ("carillon-notices", "carillon-notices-2", "carillon-notices-3")
EMAIL_NAMES = ("carillon-emails", "carillon-emails-2", "carillon-emails-3")
TIMEOUTS = {"carillon.notice": timedelta(seconds=30), "carillon.email": timedelta(seconds=60)}


@dataclass(frozen=True, slots=True)
class Notice:
    """One notice to send: of the system type ``job_type``, with its payload. ``key`` names it for good."""

    tenant_id: int
    job_type: str
    key: str
    payload: Mapping[str, Any]


def take() -> Place | None:
    """The place that the notifier has reached, locked until the transaction ends; None while another beat is at it."""
    rows = _SQL["take"]()
    if not rows:
        _SQL["open"]()
        return None
    return Place(int(rows[0].xid), rows[0].event_id)


def read(*, after: Place, limit: int) -> list[Any]:
    """Read the next ``limit`` events of all tenants after a place.

    Returns those that may need a notice, with the notify settings of each, those that are counted, and the last. Each
    row says how many there were, as ``on_page``.
    """
    for window in windows_after(after):
        if rows := _SQL["read"](limit=limit, kinds=[*WORDS, *RUN_WORDS, *activity.RUN_EVENTS], **window):
            return rows
    return []


def feed_lag_seconds(ahead: Any) -> float:
    """How old the first event is that the notifier has not read; 0: it has read all events, or has not begun.

    ``ahead``: a row of ``sql/metrics.sql: ahead``.
    """
    return lag_seconds(Place(int(ahead.read_xid), ahead.read_event_id)) if ahead.read_xid else 0.0


def keep(place: Place) -> None:
    """Record that the notifier has reached this place."""
    _SQL["keep"](xid=str(place.xid), event_id=place.id)


def send(notices: Sequence[Notice]) -> int:
    """Make a trigger for each notice. Returns how many; notices of a system job that was cancelled are dropped."""
    jobs = {(notice.tenant_id, notice.job_type) for notice in notices}
    ids = {key: _system_job(*key) for key in sorted(jobs)}
    wanted = [(ids[notice.tenant_id, notice.job_type], notice) for notice in notices]
    sent = [(job_id, notice) for job_id, notice in wanted if job_id is not None]
    if sent:
        rows = _SQL["send"](
            ids=[new_id() for _ in sent],
            job_ids=[job_id for job_id, _ in sent],
            idempotency_keys=[notice.key for _, notice in sent],
            payloads=[json.dumps(notice.payload) for _, notice in sent],
        )
        activity.count(rows, "created")
    return len(sent)


def pause_dying(thresholds: Mapping[UUID, int]) -> list[UUID]:
    """Pause each of the jobs whose last firings, as many as its threshold, all died. Returns the ids of those."""
    if not thresholds:
        return []
    dying = [row.id for row in _SQL["dying"](ids=list(thresholds), counts=list(thresholds.values()))]
    with acting_as(ENGINE):
        paused = [row.id for row in _SQL["pause_dying"](ids=dying)] if dying else []
    note_versions(paused)
    return paused


def _system_job(tenant_id: int, job_type: str) -> UUID | None:
    """The tenant's job for notices of this type, made where there is none. None: it was cancelled."""
    for name in NAMES if job_type == "carillon.notice" else EMAIL_NAMES:
        job = Job.objects.filter(tenant_id=tenant_id, name=name, deleted_at=None).first()
        if job is None:
            return _make_system_job(tenant_id, job_type, name).id
        if job.job_type == job_type:
            return None if job.status == JobStatus.CANCELLED else job.id
    return None


def _make_system_job(tenant_id: int, job_type: str, name: str) -> Job:
    """A job that has no firings of its own, and so is completed from the start; its triggers run all the same."""
    now = database_now()
    with acting_as(ENGINE):
        job = Job.objects.create(
            tenant_id=tenant_id,
            name=name,
            job_type=job_type,
            schedule_type="immediate",
            status=JobStatus.COMPLETED,
            timeout=TIMEOUTS[job_type],
            overlap_policy="allow",
            max_concurrent=100,
            misfire_policy="fire_all",
            created_at=now,
            updated_at=now,
        )
    note_versions([job.id])
    return job
