"""The event feed (docs/events.md): Event, a change of a tenant's jobs, triggers, workflows or runs; FeedReader; and
FeedMark.
"""

from django.db import models

from jobs.models.fields import TransactionId


class Event(models.Model):
    """Appended by the transaction that made the change; never changed.

    Its place is ``(xid, id)``. The id alone is not enough. Ids are given out before commit, so a reader that has seen 7
    might miss 6, which commits later. A reader that reads only finished transactions misses none
    (``store/sql/events.sql: page``).

    The table is partitioned by ``at`` (migration 0010, ADR 33), so its primary key is ``(xid, id, at)``. That key finds
    the oldest events of all tenants. A DELETE of its rows does nothing; retention drops partitions.
    """

    id = models.BigAutoField(primary_key=True)
    xid = TransactionId(db_default=models.Func(function="pg_current_xact_id"), editable=False)
    tenant_id = models.BigIntegerField()
    at = models.DateTimeField()
    kind = models.CharField(max_length=32)
    #: For events of workflows and their runs: the workflow's id (migration 0014).
    job_id = models.UUIDField()
    trigger_id = models.UUIDField(null=True)
    data = models.JSONField()

    class Meta:
        indexes = (
            # store/sql/events.sql: page — a tenant's events on from one.
            models.Index(fields=("tenant_id", "xid", "id"), name="event_of_tenant"),
        )

    def __str__(self) -> str:
        return f"{self.kind} at {self.at:%Y-%m-%d %H:%M:%S}"


class FeedReader(models.Model):
    """How far a reader of Carillon's own is: ``name`` has read all events up to and including ``(xid, event_id)``."""

    name = models.CharField(max_length=63, primary_key=True)
    xid = TransactionId(editable=False)
    event_id = models.BigIntegerField()

    def __str__(self) -> str:
        return self.name


class FeedMark(models.Model):
    """A moment, with the transactions that ran then. With it a place in the feed tells which partitions to read.

    Transactions after ``xid`` began after ``at``; those before ``over_xid`` were over by ``at``.
    """

    xid = TransactionId(
        primary_key=True, db_default=models.Func(function="pg_current_xact_id"), editable=False
    )
    at = models.DateTimeField()
    over_xid = TransactionId(editable=False)

    class Meta:
        indexes = (
            # store/sql/events.sql: window — the first mark that is a number of days later.
            models.Index(fields=("at",), name="feed_mark_at"),
        )

    def __str__(self) -> str:
        return f"{self.xid} at {self.at:%Y-%m-%d %H:%M:%S}"
