"""Past firings in the ledger: which have a record already, and which are skipped.

A few skipped firings become triggers, a long run of them one range, so that no outage floods the ledger.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from jobs.models.fields import new_id
from jobs.store import db, events
from jobs.store.insight import activity
from jobs.store.jobs import key_of

_SQL = db.queries("catchup")
#: More skipped firings of one job than this are kept as ranges (DESIGN §9).
MAX_ROWS = 1000


@dataclass(frozen=True, slots=True)
class Skip:
    """One firing that does not run. ``job`` has the columns job_id, tenant_id, job_type, job_version and priority."""

    job: Any
    scheduled_for: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class Run:
    """``count`` firings that follow each other in a job's schedule and do not run, given by the first and the last.

    ``floor``: a range that ended before it is not lengthened, because firings that end otherwise lie between the two.
    """

    job_id: UUID
    tenant_id: int
    job_type: str
    job_version: int
    from_at: datetime
    until_at: datetime
    count: int
    reason: str
    floor: datetime


def recorded(stretches: Sequence[tuple[UUID, datetime, datetime]], *, limit: int) -> list[list[datetime]]:
    """Which instants of each (job, from, until) have a trigger already: the first ``limit``, ascending."""
    found: list[list[datetime]] = [[] for _ in stretches]
    if stretches:
        job_ids, from_ats, until_ats = map(list, zip(*stretches, strict=True))
        rows = _SQL["recorded"](job_ids=job_ids, from_ats=from_ats, until_ats=until_ats, limit=limit)
        for row in rows:
            found[row.nth - 1].append(row.scheduled_for)
    return found


def skip(skips: Sequence[Skip]) -> None:
    """Record firings that do not run, a trigger each; one that has its trigger already is left alone."""
    if not skips:
        return
    skip_of = {new_id(): skip for skip in skips}
    rows = _SQL["skip"](
        ids=list(skip_of),
        job_ids=[skip.job.job_id for skip in skips],
        tenant_ids=[skip.job.tenant_id for skip in skips],
        job_types=[skip.job.job_type for skip in skips],
        job_versions=[skip.job.job_version for skip in skips],
        scheduled_fors=[skip.scheduled_for for skip in skips],
        reasons=[skip.reason for skip in skips],
        priorities=[skip.job.priority for skip in skips],
        idempotency_keys=[key_of(skip.job.job_id, skip.scheduled_for) for skip in skips],
    )
    events.note(row.id for row in rows)
    written = [skip_of[row.id] for row in rows]
    activity.count([skip.job for skip in written], "created")
    activity.count_skips((skip.job, skip.reason, 1) for skip in written)


def skip_ranges(runs: Sequence[Run]) -> None:
    """Record runs of firings that do not run, as ranges; a run that goes on where the last range ended lengthens it."""
    if runs:
        _SQL["skip_range"](
            ids=[new_id() for _ in runs],
            job_ids=[run.job_id for run in runs],
            tenant_ids=[run.tenant_id for run in runs],
            job_versions=[run.job_version for run in runs],
            from_ats=[run.from_at for run in runs],
            until_ats=[run.until_at for run in runs],
            counts=[run.count for run in runs],
            reasons=[run.reason for run in runs],
            floors=[run.floor for run in runs],
        )
        events.note_ranges(runs)
        activity.count_skips((run, run.reason, run.count) for run in runs)
