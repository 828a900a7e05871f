"""The audit in its plainest form: it looks up every instant among all records. The fast one must find the same."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from jobs.actions.ledger_audit.comparison import Recorded
from jobs.actions.ledger_audit.findings import JobAudit
from jobs.core.errors import ScheduleError
from jobs.core.schedule import each_fire_time
from jobs.models import CatchUp, Job, JobVersion, SkippedRange
from jobs.store.jobs import schedule_then

TICK = timedelta(microseconds=1)
ONE_TIME = ("once", "immediate")


def audit_job(
    job: Job,
    *,
    timeline: Sequence[JobVersion],
    ranges: Sequence[SkippedRange],
    in_hand: Sequence[CatchUp],
    recorded: Sequence[Recorded],
    since: datetime,
    until: datetime,
) -> JobAudit:
    """One job's audit. Every difference is kept."""
    result = JobAudit(job, keep=1_000_000)
    optional = instants(result, timeline, since, until)
    triggers = {record.at: record for record in recorded}
    counted = [0] * len(ranges)
    for at in sorted(optional.keys() | triggers.keys()):
        record = triggers.get(at)
        if at not in optional:
            if record.must_be_expected and not unproven(result, at):
                detail = f"a trigger ({record.origin}) for an instant no schedule names"
                result.add("unexpected", at, detail)
            continue
        result.instants += not optional[at]
        covering = [index for index, each in enumerate(ranges) if each.from_at <= at <= each.until_at]
        for index in covering:
            counted[index] += 1
        records = len(covering) + (record is not None and record.origin in ("schedule", "catchup"))
        if records > 1:
            result.add("twice", at, f"in {records} records")
        held = any(each.cursor < at <= each.until_at or at in each.tail for each in in_hand)
        if not records and record is None and not optional[at] and not held:
            result.add("missing", at, "no trigger, no range")
    for each, number in zip(ranges, counted, strict=True):
        whole = since <= each.from_at and each.until_at <= until
        if (number != each.count if whole else number > each.count) and not unproven(result, each.from_at):
            detail = f"the range to {each.until_at} counts {each.count}, the schedule {number}"
            result.add("miscounted", each.from_at, detail)
    return result


def instants(
    result: JobAudit, timeline: Sequence[JobVersion], since: datetime, until: datetime
) -> dict[datetime, bool]:
    """Every instant of the timeline, and whether a record of it is allowed but not required."""
    found: dict[datetime, bool] = {}
    for entry, after, end, optional_from in spans(result.job, timeline, since, until):
        try:
            for at in each_fire_time(schedule_then(entry.schedule), after=after, until=end):
                found[at] = found.get(at, True) and at >= optional_from
        except ScheduleError as error:
            result.unproven.append((after, end, str(error)))
    return found


def spans(
    job: Job, timeline: Sequence[JobVersion], since: datetime, until: datetime
) -> Iterator[tuple[JobVersion, datetime, datetime, datetime]]:
    for index, entry in enumerate(timeline):
        after = entry.valid_from
        end = timeline[index + 1].valid_from if index + 1 < len(timeline) else until
        optional_from: Any = job.next_fire_at if job.status == "paused" else None
        if entry.status not in ("active", "paused"):
            optional_from, end = after, min(end, after + timedelta(hours=1))
        elif entry.schedule["schedule_type"] in ONE_TIME and (
            index == 0 or timeline[index - 1].schedule != entry.schedule
        ):
            after -= timedelta(seconds=60)
        after = max(after, since - TICK)
        if after < end:
            yield entry, after, end, optional_from or until + TICK


def unproven(result: JobAudit, at: datetime) -> bool:
    return any(after < at <= until for after, until, _ in result.unproven)
