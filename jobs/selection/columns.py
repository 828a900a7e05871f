"""Columns of other tables that filters of triggers ask for, one look-up for each trigger that a walk comes by.

A join might begin with all rows of the other table.
"""

from django.db.models import OuterRef, Subquery

from jobs.models import Attempt, Job


def of_last_attempt(column: str) -> Subquery:
    """The value of that column in the trigger's last attempt."""
    last = Attempt.objects.filter(trigger_id=OuterRef("id")).order_by("-number", "-started_at")
    return Subquery(last.values(column)[:1])


def called_host() -> Subquery:
    """The host that the trigger's job calls."""
    return Subquery(Job.with_hidden.filter(id=OuterRef("job_id")).values("target")[:1])
