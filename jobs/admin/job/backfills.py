"""The backfills of a job and how far they have come, for its page."""

from datetime import datetime
from typing import Any

from jobs.admin.shared.cells import distance_text, instant_text
from jobs.models import CatchUp, Job

MAX_SHOWN = 5
#: Catch-ups of a job that are looked at, the newest: outages leave some, too.
MAX_LOOKED_AT = 50


def latest_backfills(job: Job) -> list[CatchUp]:
    """The newest backfills, finished or not."""
    newest = CatchUp.objects.filter(job_id=job.id).order_by("-id").defer("tail")[:MAX_LOOKED_AT]
    return [each for each in newest if each.origin == CatchUp.Origin.BACKFILL][:MAX_SHOWN]


def backfills(job: Job, *, now: datetime) -> dict[str, Any]:
    """The context of ``templates/admin/jobs/job/backfills.html``; the page fetches it again while one runs."""
    latest = latest_backfills(job)
    return {
        "rows": [_shown(each, now=now) for each in latest],
        "running": any(each.finished_at is None for each in latest),
    }


def _shown(backfill: CatchUp, *, now: datetime) -> dict[str, Any]:
    length = backfill.until_at - backfill.from_at
    come = min(1.0, max(0.0, (backfill.cursor - backfill.from_at) / length)) if length else 1.0
    cancelled = backfill.finished_at is not None and backfill.cursor < backfill.until_at
    state = "ended early" if cancelled else "complete" if backfill.finished_at else "under way"
    stretch = f"{instant_text(backfill.from_at)} to {instant_text(backfill.until_at)}"
    return {
        "title": f"{stretch}: {state}, begun {distance_text(backfill.created_at, now=now)}",
        "made": f"{backfill.fired:,} of {backfill.expected or 0:,} made",
        "percent": round(100 * come),
    }
