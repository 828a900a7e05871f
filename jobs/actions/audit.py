"""The ledger held against the schedules: was every expected firing put on record, and nothing else?

Independent of the materializer: each job's timeline (``JobVersion``) is walked with ``jobs.core.schedule`` and merged
with what is on record: its triggers, its ranges of skipped firings, and the catch-up still in hand. Both sides are
streamed in the order of time and jobs are taken a chunk at a time, each chunk from one snapshot of the database, so
memory stays flat and a running system may be audited. Nothing is written.

An entry of the timeline counts from just after its ``valid_from`` up to that of the next. While it says *active*, its
instants are expected; while it says *paused*, too, because whatever ends a pause puts on record what fell due in it.
Instants are only allowed, not demanded, from ``next_fire_at`` on while a job is paused now, and of what had been
materialized ahead when a job was cancelled. Instants are computed by today's zone database.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from heapq import merge
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import QuerySet

from jobs.actions.schedules import LATE_ALLOWANCE
from jobs.core.errors import ScheduleError
from jobs.core.schedule import ScheduleType, each_fire_time
from jobs.core.states import JobStatus
from jobs.models import CatchUp, Job, JobVersion, Origin, SkippedRange, Trigger
from jobs.store import db
from jobs.store.jobs import schedule_then

#: What was created a moment ago is on record only after the beat's next pass.
SETTLING = timedelta(seconds=5)
#: Nothing is materialized further ahead than this, whatever the settings say.
_FURTHEST_AHEAD = timedelta(hours=1)
#: Triggers end, and are purged, up to the look-ahead before their instant when someone cancels them.
RETENTION_MARGIN = 2 * _FURTHEST_AHEAD
_JOBS_AT_ONCE = 200
_ROWS_AT_ONCE = 5000
_TICK = timedelta(microseconds=1)
_SCHEDULED = (Origin.SCHEDULE, Origin.CATCHUP)


class Difference(NamedTuple):
    """``kind``: ``missing`` (an instant without a record), ``unexpected`` (a record without an instant), ``twice``
    (an instant in two records), ``miscounted`` (a range whose count is not the schedule's), ``no_timeline``.
    """

    kind: str
    at: datetime
    detail: str


@dataclass(slots=True)
class JobAudit:
    """One job's result. ``differences`` are the first ``keep``; ``counts`` has all of them by kind.

    ``unproven`` are stretches of time, ``after < t <= until``, whose schedule can no longer be computed, with why:
    nobody can tell what was to be expected there.
    """

    job: Job
    keep: int
    instants: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)
    unproven: list[tuple[datetime, datetime, str]] = field(default_factory=list)

    def add(self, kind: str, at: datetime, detail: str) -> None:
        self.counts[kind] += 1
        if len(self.differences) < self.keep:
            self.differences.append(Difference(kind, at, detail))


class Expected(NamedTuple):
    """An instant of a schedule; it sorts by time, and a demanded one before an allowed one."""

    at: datetime
    optional: bool


class Recorded(NamedTuple):
    """What the audit reads of a trigger."""

    job_id: UUID
    at: datetime
    origin: str
    finished_at: datetime | None
    replay_count: int

    @property
    def must_be_expected(self) -> bool:
        """Firings asked for by hand stand beside the schedule; one withdrawn by hand beforehand may outlive it."""
        withdrawn = self.finished_at is not None and self.finished_at < self.at
        return self.origin in _SCHEDULED and not withdrawn and not self.replay_count


def audit(
    *,
    jobs: QuerySet[Job],
    since: datetime,
    until: datetime,
    keep: int = 10,
    on_progress: Callable[[int], None] = lambda done: None,
) -> Iterator[JobAudit]:
    """Audit every instant of ``jobs`` from ``since`` to ``until``, both included; one result a job, by id.

    ``until`` should lie ``SETTLING`` before now, and ``since`` not before the retention horizon. ``on_progress`` is
    told how many jobs are done.
    """
    last, done = UUID(int=0), 0
    while True:
        with db.atomic():
            _take_snapshot()
            chunk = list(jobs.filter(id__gt=last).select_related("tenant").order_by("id")[:_JOBS_AT_ONCE])
            yield from _audit_chunk(chunk, since, until, keep)
        if len(chunk) < _JOBS_AT_ONCE:
            return
        last, done = chunk[-1].id, done + len(chunk)
        on_progress(done)


def _take_snapshot() -> None:
    """Make the transaction see one moment; inside a caller's, what was read before already decided that."""
    if connection.savepoint_ids:
        return
    with connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        # A long range is walked without a question to the database.
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")


def _audit_chunk(jobs: Sequence[Job], since: datetime, until: datetime, keep: int) -> Iterator[JobAudit]:
    ids = [job.id for job in jobs]
    timelines = _by_job(
        JobVersion.objects.filter(job__in=ids, valid_from__lte=until).order_by("valid_from", "id")
    )
    ranges = _by_job(
        SkippedRange.objects.filter(job__in=ids, until_at__gte=since, from_at__lte=until).order_by("from_at")
    )
    in_hand = _by_job(
        CatchUp.objects.filter(job__in=ids, finished_at=None, origin=CatchUp.Origin.OUTAGE).order_by("cursor")
    )
    triggers = (
        Trigger.objects.filter(job__in=ids, scheduled_for__gte=since, scheduled_for__lte=until)
        .order_by("job_id", "scheduled_for")
        .values_list("job_id", "scheduled_for", "origin", "finished_at", "replay_count")
        .iterator(chunk_size=_ROWS_AT_ONCE)
    )
    recorded = groupby(map(Recorded._make, triggers), key=attrgetter("job_id"))
    ahead = next(recorded, None)
    for job in jobs:
        of_job: Iterator[Recorded] = iter(())
        if ahead is not None and ahead[0] == job.id:
            of_job = ahead[1]
        result = JobAudit(job, keep)
        timeline = timelines.get(job.id, [])
        if timeline:
            walk = _Walk(result, ranges.get(job.id, []), in_hand.get(job.id, []))
            walk.compare(_expected(result, timeline, since, until), of_job, since, until)
        elif job.created_at <= until:
            result.add("no_timeline", job.created_at, "nothing says when it was to fire")
        if ahead is not None and ahead[0] == job.id:
            ahead = next(recorded, None)
        yield result


def _by_job(rows: Iterable[Any]) -> dict[UUID, list[Any]]:
    found: dict[UUID, list[Any]] = {}
    for row in rows:
        found.setdefault(row.job_id, []).append(row)
    return found


def _expected(
    result: JobAudit, timeline: Sequence[JobVersion], since: datetime, until: datetime
) -> Iterator[Expected]:
    """The instants of the whole timeline, strictly increasing."""
    streams = [_instants(result, *span) for span in _spans(result.job, timeline, since, until)]
    return (next(same) for _, same in groupby(merge(*streams), key=itemgetter(0)))


def _spans(
    job: Job, timeline: Sequence[JobVersion], since: datetime, until: datetime
) -> Iterator[tuple[JobVersion, datetime, datetime, datetime]]:
    """Entries of the timeline with the time they govern, ``after < t <= until``, and from when on they only allow."""
    present_pause = job.next_fire_at if job.status == JobStatus.PAUSED else None
    for index, entry in enumerate(timeline):
        after, end, optional_from = entry.valid_from, until, present_pause or until + _TICK
        if index + 1 < len(timeline):
            end = timeline[index + 1].valid_from
        if entry.status not in (JobStatus.ACTIVE, JobStatus.PAUSED):
            optional_from, end = after, min(end, after + _FURTHEST_AHEAD)
        elif _begins_a_schedule(timeline, index):
            after -= LATE_ALLOWANCE
        after = max(after, since - _TICK)
        if after < end:
            yield entry, after, end, optional_from


def _begins_a_schedule(timeline: Sequence[JobVersion], index: int) -> bool:
    """Whether a one-time schedule starts here: it may name a time just passed (``schedules.first_instant``)."""
    entry = timeline[index]
    one_time = entry.schedule["schedule_type"] in (ScheduleType.ONCE, ScheduleType.IMMEDIATE)
    return one_time and (index == 0 or timeline[index - 1].schedule != entry.schedule)


def _instants(
    result: JobAudit, entry: JobVersion, after: datetime, until: datetime, optional_from: datetime
) -> Iterator[Expected]:
    try:
        for instant in each_fire_time(schedule_then(entry.schedule), after=after, until=until):
            yield Expected(instant, instant >= optional_from)
    except ScheduleError as error:
        result.unproven.append((after, until, str(error)))


class _Walk:
    """One job's instants against its records, both in the order of time."""

    def __init__(self, result: JobAudit, ranges: Sequence[SkippedRange], in_hand: Sequence[CatchUp]) -> None:
        self._result = result
        self._ranges = ranges
        self._in_hand = in_hand
        self._counted = [0] * len(ranges)
        self._next_range = 0
        self._open: list[int] = []

    def compare(
        self, expected: Iterator[Expected], recorded: Iterator[Recorded], since: datetime, until: datetime
    ) -> None:
        """Note every difference. A range that reaches over ``since`` or ``until`` covers, but is not counted."""
        moments = merge(
            ((e.at, 0, e) for e in expected), ((r.at, 1, r) for r in recorded), key=itemgetter(0, 1)
        )
        for at, same in groupby(moments, key=itemgetter(0)):
            found: dict[int, Any] = {side: item for _, side, item in same}
            self._judge(at, found.get(0), found.get(1))
        for skipped, counted in zip(self._ranges, self._counted, strict=True):
            whole = since <= skipped.from_at and skipped.until_at <= until
            fits = counted == skipped.count if whole else counted <= skipped.count
            if not fits and not self._is_unproven(skipped.from_at):
                detail = f"the range to {skipped.until_at} counts {skipped.count}, the schedule {counted}"
                self._result.add("miscounted", skipped.from_at, detail)

    def _judge(self, at: datetime, instant: Expected | None, record: Recorded | None) -> None:
        if instant is None:
            if record is not None and record.must_be_expected and not self._is_unproven(at):
                self._result.add(
                    "unexpected", at, f"a trigger ({record.origin}) for an instant no schedule names"
                )
            return
        self._result.instants += not instant.optional
        covering = self._ranges_at(at)
        for index in covering:
            self._counted[index] += 1
        records = len(covering) + (record is not None and record.origin in _SCHEDULED)
        if records > 1:
            self._result.add("twice", at, f"in {records} records")
        elif not records and record is None and not instant.optional and not self._is_in_hand(at):
            self._result.add("missing", at, "no trigger, no range")

    def _ranges_at(self, at: datetime) -> list[int]:
        """The ranges that hold ``at``; asked in the order of time."""
        while self._next_range < len(self._ranges) and self._ranges[self._next_range].from_at <= at:
            self._open.append(self._next_range)
            self._next_range += 1
        self._open = [index for index in self._open if self._ranges[index].until_at >= at]
        return self._open

    def _is_in_hand(self, at: datetime) -> bool:
        """Whether catch-up has still to decide this instant."""
        return any(c.cursor < at <= c.until_at or at in c.tail for c in self._in_hand)

    def _is_unproven(self, at: datetime) -> bool:
        return any(after < at <= until for after, until, _ in self._result.unproven)
