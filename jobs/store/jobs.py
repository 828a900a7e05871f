"""Jobs as the materializer sees them: take due jobs, insert their firings, move on, complete; and their timeline."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import repeat
from operator import is_, itemgetter
from typing import Any, NamedTuple
from uuid import UUID

import orjson
from django.db.utils import DEFAULT_DB_ALIAS

from jobs.conf import engine_settings
from jobs.core.instants import EARLIEST, instant_text
from jobs.core.schedule import Schedule, ScheduleType, jitter_offset
from jobs.core.states import ENDED_JOB
from jobs.models import Job, Origin
from jobs.models.fields import new_id, new_ids
from jobs.store import db
from jobs.store.insight import activity
from jobs.store.leases import Leadership
from jobs.store.trail import ENGINE, acting_as, present_actor
from jobs.telemetry import callers_trace

_SQL = db.queries("jobs")
#: An ended job with an unfinished firing cannot be deleted yet: it is looked at again after this long.
PUT_OFF = timedelta(hours=1)


class Firing(NamedTuple):
    """One firing to become a trigger. ``idempotency_key`` defaults to the scheduled form of DESIGN §5. ``trace``: the
    trace of the caller that asked for it, as it is stored.
    """

    job_id: UUID
    tenant_id: int
    job_type: str
    job_version: int
    priority: int
    scheduled_for: datetime
    due_at: datetime
    origin: str = "schedule"
    idempotency_key: str = ""
    trace: str | None = None

    def key(self) -> str:
        return self.idempotency_key or key_of(self.job_id, self.scheduled_for)


#: Many jobs fire at the same instant.
_as_text = lru_cache(instant_text)


def key_of(job_id: UUID, scheduled_for: datetime) -> str:
    """The idempotency key of a job's scheduled firing."""
    return f"job:{job_id}:scheduled_for:{_as_text(scheduled_for)}"


def take_due(
    *,
    leadership: Leadership,
    look_ahead: timedelta,
    limit: int,
    ids: Sequence[UUID] | None = None,
    zoned: bool = True,
) -> list[Any]:
    """Lock up to ``limit`` jobs whose next instant lies within the look-ahead.

    With ``ids``, only jobs among them; without ``zoned``, no job whose instants a time zone decides. Call inside
    ``db.atomic()``. Takes nothing once the leadership's term is over.
    """
    take, wanted = _SQL["take_due"], None if ids is None else list(ids)
    # The kept plan walks the index of next instants: through a whole backlog, for the ids of a few.
    ask = take if ids is None else take.planned
    return ask(term=leadership.term, look_ahead=look_ahead, limit=limit, ids=wanted, zoned=zoned)


def peek_due(*, look_ahead: timedelta, limit: int, fresh: int) -> list[Any]:
    """Look at up to ``limit`` jobs that ``take_due`` would give next, and at up to ``fresh`` that are hardly late."""
    return _SQL["peek_due"](look_ahead=look_ahead, limit=limit, fresh=fresh)


def materialize(firings: Sequence[Firing], *, announce: bool = True) -> list[UUID]:
    """Insert triggers; a firing that has one already is left alone. Returns the new ids. May be repeated.

    ``announce``: announce them to all dispatchers; else the caller tells the only dispatcher itself.
    """
    if not firings:
        return []
    ids = new_ids(len(firings))
    rows = _SQL["materialize"](
        ids=ids,
        job_ids=[firing.job_id for firing in firings],
        tenant_ids=[firing.tenant_id for firing in firings],
        job_types=[firing.job_type for firing in firings],
        job_versions=[firing.job_version for firing in firings],
        origins=[firing.origin for firing in firings],
        scheduled_fors=[firing.scheduled_for for firing in firings],
        due_ats=[firing.due_at for firing in firings],
        priorities=[firing.priority for firing in firings],
        idempotency_keys=[firing.key() for firing in firings],
        traces=[firing.trace for firing in firings] if any(firing.trace for firing in firings) else [],
        announce=announce,
    )
    created = [row.id for row in rows]
    activity.count(_of_ids(created, ids, firings), "created")
    return created


def _of_ids(found: Sequence[UUID], ids: Sequence[str], firings: Sequence[Firing]) -> Sequence[Firing]:
    """The firings whose ids were found."""
    if len(found) == len(ids):
        return firings
    kept = {each.hex for each in found}
    return [firing for key, firing in zip(ids, firings, strict=True) if key in kept]


def advance(next_fire_ats: dict[UUID, datetime | None]) -> None:
    """Set each job's next instant (None: the schedule has no more), in the materializing transaction."""
    if next_fire_ats:
        _SQL["advance"](ids=list(next_fire_ats), next_fire_ats=list(next_fire_ats.values()))


def pause_broken(*, job_id: UUID, reason: str) -> None:
    """Pause a job whose schedule cannot be computed, with the reason."""
    with acting_as(ENGINE), db.atomic():
        note_versions([row.id for row in _SQL["pause_broken"](id=job_id, reason=reason)])


def set_status(
    next_fire_ats: Mapping[UUID, datetime | None],
    *,
    status: str,
    now: datetime,
    sinces: Mapping[UUID, datetime] | None = None,
    reason: str = "",
    paused_until: datetime | None = None,
) -> dict[UUID, datetime | None]:
    """Set the status and the next instant of jobs, as of ``now`` or, for a job in ``sinces``, as of its instant there.

    Call ``note_versions`` next. Returns when each job is deleted; None: it lives on.
    """
    if not next_fire_ats:
        return {}
    rows = _SQL["set_status"](
        ids=list(next_fire_ats),
        next_fire_ats=list(next_fire_ats.values()),
        updated_ats=[(sinces or {}).get(job_id, now) for job_id in next_fire_ats],
        status=str(status),
        reason=reason,
        paused_until=paused_until,
        ended=status in ENDED_JOB,
        keep_ended=_keep_ended(),
    )
    return {row.id: row.expires_at for row in rows}


def pauses_over(*, but: Sequence[int] = (), limit: int) -> list[Any]:
    """Ids and tenants of jobs whose pause has come to its end, the first to end first, except those of the tenants in
    ``but``. Locks nothing.
    """
    return _SQL["pauses_over"](but=list(but), limit=limit)


def hold_paused(job_ids: Sequence[UUID]) -> list[UUID]:
    """Lock the jobs whose pause is still over, until the transaction ends; leave out those that are locked already."""
    return [row.id for row in _SQL["hold_paused"](ids=list(job_ids))]


def refuse_end_of_pause(job_id: UUID, *, reason: str) -> None:
    """Keep a locked job paused, for that reason."""
    _SQL["end_of_pause_refused"](id=job_id, reason=reason)


def note_versions(job_ids: Sequence[UUID]) -> None:
    """Put the jobs' present schedule and status on their timeline, valid from their ``updated_at`` on.

    Call it in every transaction that changes either; without it an audit cannot know which firings to expect.
    """
    if job_ids:
        _SQL["note_versions"](ids=list(job_ids))


def insert(jobs: Sequence[Job]) -> set[UUID]:
    """Write new jobs, each with the first entry of its timeline, by one statement, which commits by itself.

    An immediate job that is due is written with its trigger, and with nothing left to materialize; ``jobs`` stay as
    they are. Returns the ids of the jobs written: living jobs of their tenants have the names of the others.
    """
    common, rows = _shared_and_own([vars(job) for job in jobs])
    firings = []
    for job, row in zip(jobs, rows, strict=True):
        if job.schedule_type == ScheduleType.IMMEDIATE and job.next_fire_at == job.created_at:
            firings.append(_only_firing(job))
            row["next_fire_at"] = None
    texts = {
        name: _text_of(value) for name, value in (("common", common), ("rows", rows), ("firings", firings))
    }
    actor = present_actor()
    texts["actor"] = actor.as_text() if actor else ""
    written = {row.id for row in _SQL["insert"].prepared(**texts)}
    fired = {firing["job_id"] for firing in firings} & written
    activity.count([job for job in jobs if job.id in fired], "created")
    for job in jobs:
        job._state.adding, job._state.db = job.id not in written, DEFAULT_DB_ALIAS
    return written


def _shared_and_own(jobs: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The columns that all of ``jobs`` share, and for each job the other columns. Only the very same object counts as
    shared: 1 equals true in Python, but not in JSON.
    """
    common, own = {}, []
    for name in (column.attname for column in Job._meta.concrete_fields) if jobs else ():
        first = jobs[0][name]
        if all(map(is_, map(itemgetter(name), jobs), repeat(first))):
            common[name] = first
        else:
            own.append(name)
    return common, [{name: job[name] for name in own} for job in jobs]


def edit(jobs: Mapping[Job, Collection[str]]) -> None:
    """Write the named columns and the next version of each job, by one statement. Call ``note_versions`` next.

    Raises Django's ``IntegrityError`` where a living job of the tenant has the name.
    """
    always = ("id", "version", "next_fire_at", "updated_at")
    rows = [{name: getattr(job, name) for name in (*always, *names)} for job, names in jobs.items()]
    _SQL["edit"](rows=_text_of(rows))


def _only_firing(job: Job) -> dict[str, Any]:
    """The trigger of an immediate job, without the columns that it takes from the job."""
    return {
        "id": new_id(),
        "job_id": job.id,
        "origin": Origin.SCHEDULE,
        "scheduled_for": job.created_at,
        "due_at": job.created_at + jitter_offset(job.id.int, job.jitter),
        "idempotency_key": key_of(job.id, job.created_at),
        "trace": callers_trace_kept(),
    }


def callers_trace_kept() -> str | None:
    """The trace of the caller that this thread serves, to keep with the work it asks for; None: it named none."""
    trace = callers_trace()
    return trace.kept() if trace is not None else None


def _text_of(rows: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> str:
    """Columns as JSON. Postgres reads instants and ids as they are written there."""
    return orjson.dumps(rows, default=_interval_text).decode()


def _interval_text(value: timedelta) -> str:
    return f"{value.days} days {value.seconds} seconds {value.microseconds} microseconds"


def before_creation(*, tenant_id: int, job_type: str) -> tuple[datetime, int, bool]:
    """The database's clock, how many living jobs the tenant has, and whether it declared the ``job_type`` itself."""
    [row] = _SQL["before_creation"].prepared(tenant_id=tenant_id, job_type=job_type)
    return row.now.astimezone(UTC), row.jobs, row.declared


def living(tenant_id: int) -> int:
    """How many living jobs the tenant has. Reads a few rows, however many jobs there are."""
    return int(_SQL["living"](tenant_id=tenant_id)[0].jobs)


def complete(*, after: UUID, limit: int) -> tuple[UUID | None, int]:
    """Complete finished one-time jobs among the next ``limit`` candidates by id.

    Returns the last id looked at (None at the end of the walk) and how many were completed.
    """
    with db.atomic():
        rows = _SQL["complete"](after=after, limit=limit, keep_ended=_keep_ended())
        note_versions([row.id for row in rows if row.completed])
    return (rows[-1].id if len(rows) == limit else None), sum(row.completed for row in rows)


def _keep_ended() -> timedelta:
    """How long an ended job stays if it does not say so itself."""
    return timedelta(days=engine_settings().ended_job_days)


def expire(*, limit: int) -> tuple[int, int]:
    """Delete up to ``limit`` ended jobs whose time is over, in the engine's name.

    Returns how many were looked at, and how many were deleted. A job with an unfinished trigger is put off by an hour.
    """
    with acting_as(ENGINE), db.atomic():
        rows = _SQL["expire"](limit=limit, again=PUT_OFF)
    return len(rows), sum(row.deleted for row in rows)


def purge(*, retention: timedelta, limit: int, after: datetime = EARLIEST) -> tuple[datetime, int]:
    """Among the next ``limit`` jobs deleted longer ago than ``retention``, drop those whose history is gone.

    Returns where to go on (``EARLIEST`` at the end of the walk) and how many were dropped.
    """
    [row] = _SQL["purge"](retention=retention, limit=limit, after=after)
    return (row.deleted_at if row.looked_at == limit else EARLIEST), row.dropped


def schedule_of(job: Any) -> Schedule:
    """The schedule of a job: a model instance or a row of ``take_due``."""
    return Schedule(
        type=ScheduleType(job.schedule_type),
        cron=job.cron_expression or None,
        timezone=job.timezone,
        every=job.interval,
        run_at=job.run_at,
        anchor=job.created_at,
        starts_at=job.starts_at,
        ends_at=job.ends_at,
        dst_policy=job.dst_policy,
        cron_dialect=job.cron_dialect,
    )


def schedule_then(document: Mapping[str, Any]) -> Schedule:
    """The schedule in an entry of a job's timeline, as ``note_versions`` wrote it."""
    seconds = document["interval_seconds"]
    run_at, anchor, starts_at, ends_at = (
        datetime.fromisoformat(document[name]) if document[name] else None
        for name in ("run_at", "created_at", "starts_at", "ends_at")
    )
    return Schedule(
        type=ScheduleType(document["schedule_type"]),
        cron=document["cron_expression"] or None,
        timezone=document["timezone"],
        every=None if seconds is None else timedelta(seconds=seconds),
        run_at=run_at,
        anchor=anchor,
        starts_at=starts_at,
        ends_at=ends_at,
        dst_policy=document["dst_policy"],
        cron_dialect=document["cron_dialect"],
    )
