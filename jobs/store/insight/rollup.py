"""Kept activity: minutes are rolled up to hours, both go when their time is over, and the busiest tenants are named.

Each function is bounded, may be repeated, and may run in two processes at once.
"""

from datetime import timedelta

from jobs.core.activity import tenants_to_name
from jobs.store import db, partitions
from tenants.clock import database_now

_SQL = db.queries("activity")
#: This long after its end nothing is added to an hour any more: processes add only to the present minute.
GRACE = timedelta(minutes=2)
#: How long counts are kept by the minute.
BY_THE_MINUTE = timedelta(hours=48)
#: How many minutes count as a tenant's recent activity.
RECENT_MINUTES = 5


def roll_up() -> bool:
    """Roll up the next hour that is over. Returns whether there was one."""
    for row in _SQL["next_hour"](grace=GRACE):
        if row.is_over:
            _SQL["roll_up"](hour=row.hour)
            return True
    return False


def drop(*, retention: timedelta) -> list[str]:
    """Drop partitions of minutes older than two days, as far as they are rolled up, and of hours past ``retention``.
    Returns their names.
    """
    now = database_now()
    rolled_until = min((row.hour for row in _SQL["next_hour"](grace=GRACE)), default=now)
    minutes = partitions.drop(partitions.MINUTES, before=min(now - BY_THE_MINUTE, rolled_until))
    return minutes + partitions.drop(partitions.HOURS, before=now - retention)


def purge(*, retention: timedelta) -> bool:
    """Delete the counts of the oldest minute and hour that are in no partition that is dropped. Returns whether there
    were any.
    """
    now = database_now()
    rolled_until = min((row.hour for row in _SQL["next_hour"](grace=GRACE)), default=now)
    # A whole partition goes at once: rows in one are left to that.
    before = min(now - BY_THE_MINUTE - partitions.MINUTES.span, rolled_until)
    minutes = _SQL["purge_minute"](before=before)
    hours = _SQL["purge_hour"](before=now - retention - partitions.HOURS.span)
    return bool(minutes or hours)


def name_tenants(*, places: int) -> None:
    """Give the busiest tenants, at most ``places``, series of their own in ``/metrics``."""
    rows = _SQL["busiest"](minutes=RECENT_MINUTES, limit=2 * places)
    named = {row.tenant_id: row.count for row in rows if row.named}
    candidates = {row.tenant_id: row.count for row in rows}
    chosen = tenants_to_name(named, candidates, places=places)
    if new := sorted(chosen - named.keys()):
        _SQL["name_tenants"](tenant_ids=new)
    _SQL["unname_tenants"](tenant_ids=sorted(chosen))
