"""What fires in the time to come. Bounded reads, however many jobs there are."""

from datetime import datetime

from jobs.store import db

_SQL = db.queries("forecast")
#: At most so many of the jobs that fire in one minute are looked at.
MAX_IN_MINUTE = 5_000


def jobs_in_minute(*, tenant_id: int, minute: datetime) -> tuple[int, bool]:
    """How many jobs of the tenant fire next in that minute, and whether that is all of them. One statement."""
    [found] = _SQL["in_minute"](tenant_id=tenant_id, minute=minute, most=MAX_IN_MINUTE)
    return found.own, found.looked_at < MAX_IN_MINUTE
