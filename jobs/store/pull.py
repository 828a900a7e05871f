"""Pull: triggers queued for a tenant's pull workers, and triggers that these hold (docs/pull-workers.md).

The rest is ``execution``'s: claim, renew and finish, each a CAS on ``(id, fence, state)``. All functions join the
caller's transaction.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from jobs.store import db, execution
from jobs.store.execution import ClaimToken

_SQL = db.queries("pull")


class Work(NamedTuple):
    """A trigger that was claimed: its stored job type and its row of ``execution.claim``."""

    job_type: str
    row: Any


def claim(
    *, tenant_id: int, job_types: Sequence[str], limit: int, worker: str, lease: timedelta
) -> list[Work]:
    """Claim up to ``limit`` queued triggers of these stored job types.

    A trigger that a process had claimed when it died comes alone, so that the next crash names its cause. Opens a
    transaction.
    """
    with db.atomic():
        rows = _SQL["offer"](tenant_id=tenant_id, job_types=list(job_types), limit=limit)
        if rows and rows[0].suspect:
            rows = rows[:1]
        tokens = [ClaimToken(row.id, row.fence) for row in rows if not row.suspect or len(rows) == 1]
        if not tokens:
            return []
        types = {row.id: row.job_type for row in rows}
        claimed = execution.claim(
            tokens=tokens, job_types=job_types, worker=worker, celery_task_id="", lease=lease
        )
        return [Work(types[row.id], row) for row in claimed]


def hold(*, tenant_id: int, tokens: Sequence[ClaimToken]) -> list[Any]:
    """Lock those of ``tokens`` that are the tenant's, and return those still running under their fences."""
    ids = [token.id for token in tokens]
    _SQL["lock"](ids=ids, tenant_id=tenant_id)
    return _SQL["held"](ids=ids, fences=[token.fence for token in tokens], tenant_id=tenant_id)


def keep_output(outputs: Sequence[tuple[Any, str]]) -> None:
    """Keep the output of attempts so far: for each its row of ``hold``, and the text. May be repeated."""
    if not outputs:
        return
    started_ats = [row.attempt_started_at for row, _ in outputs]
    _SQL["keep_output"](
        attempt_ids=[row.attempt_id for row, _ in outputs],
        attempt_started_ats=started_ats,
        first_started_at=min(started_ats),
        last_started_at=max(started_ats),
        outputs=[output for _, output in outputs],
    )


def types_among(*, tenant_id: int, names: Sequence[str]) -> dict[str, str]:
    """Those of ``names`` that are pull types of the tenant, each with the job type that its triggers have."""
    return {row.name: row.job_type for row in _SQL["types_among"](tenant_id=tenant_id, names=list(names))}


def keep_type(job_type: str) -> bool:
    """Keep a pull type from being deleted until the transaction ends. False: there is none."""
    return bool(_SQL["keep_type"](job_type=job_type))
