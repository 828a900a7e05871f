"""The queues that the tenants of a claimed batch may write to beside their own, as of now: grants may have ended."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from jobs.conf import engine_settings
from jobs.handlers.registry import JobType
from jobs.store import db
from tenants.queues import granted_queues


def queues_of(job_type: JobType, rows: Sequence[Any]) -> Mapping[int, Sequence[str]]:
    """By tenant id: one look-up for all, and none where the job type writes to no queue."""
    if job_type.sends_to is None:
        return {}
    return db.until_connected(
        partial(granted_queues, {row.tenant_id for row in rows}),
        patience_seconds=engine_settings().worker_lease_seconds,
        what="look up queues",
    )
