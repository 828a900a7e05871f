"""What filters of triggers ask of other tables' rows, one look-up for each trigger that a walk comes by.

A join might begin with all rows of the other table.
"""

from django.db.models import OuterRef, Subquery

from jobs.models import Attempt, Job


def of_last_attempt(column: str) -> Subquery:
    """What the trigger's last attempt has in that column."""
    last = Attempt.objects.filter(trigger_id=OuterRef("id")).order_by("-number", "-started_at")
    return Subquery(last.values(column)[:1])


def called_host() -> Subquery:
    """The host that the trigger's job calls."""
    return Subquery(Job.with_hidden.filter(id=OuterRef("job_id")).values("target")[:1])
