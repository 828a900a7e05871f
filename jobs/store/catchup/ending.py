"""What becomes of a job's catch-up when the job is edited or ended: it waits for the edit, or it is closed."""

from collections.abc import Iterator
from datetime import datetime
from itertools import chain, islice
from typing import Any
from uuid import UUID

from jobs.core.errors import ScheduleError
from jobs.core.schedule import each_fire_time
from jobs.models import CatchUp
from jobs.store.catchup import ledger, walk
from jobs.store.catchup.ledger import Run
from jobs.store.jobs import schedule_of

CHUNK = 10_000


def hold(*, job_id: UUID) -> None:
    """Keep the leader's steps away from a job's catch-up until the transaction ends; waits for one at work on it.

    Or the step might make triggers for the version of the job that an edit has just left behind.
    """
    list(CatchUp.objects.select_for_update().filter(job_id=job_id, finished_at=None).values_list("id"))


def end(*, job: Any) -> None:
    """End the unfinished catch-up of a job that is locked, under the schedule it had until now.

    What an outage left undecided is recorded as skipped for ``misfire``, counted exactly. A backfill owes nothing: what
    it had not come to keeps the record it has. Call it before the job's waiting triggers are looked at: it waits for a
    step of the leader that may be making some.
    """
    for row in walk.end(job_id=job.id):
        if row.origin == "outage":
            _skip_rest(job, row)


def _skip_rest(job: Any, row: Any) -> None:
    rest: Iterator[datetime] = chain(
        row.tail, each_fire_time(schedule_of(job), after=row.cursor, until=row.until_at)
    )
    try:
        while chunk := list(islice(rest, CHUNK)):
            found = ledger.recorded([(job.id, chunk[0], chunk[-1])], limit=2 * CHUNK).get(job.id, [])
            known = set(found)
            ledger.skip_ranges(
                [
                    Run(job.id, job.tenant_id, row.job_version, first, last, count, "misfire", row.from_at)
                    for first, last, count in ledger.unbroken([at for at in chunk if at not in known], found)
                ]
            )
    except ScheduleError:
        # Such a schedule names no instants.
        return
