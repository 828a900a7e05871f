"""The event feed (docs/events.md): Event, a change of a tenant's jobs or triggers, and FeedReader."""

from django.db import models

from jobs.models.fields import TransactionId


class Event(models.Model):
    """Appended by the transaction that made the change; never changed.

    Its place is ``(xid, id)``. Ids alone are given out before commit, so that a reader who has seen 7 might miss 6,
    which commits later; a reader of transactions that are all over misses none (``store/sql/events.sql: page``).
    """

    id = models.BigAutoField(primary_key=True)
    xid = TransactionId(db_default=models.Func(function="pg_current_xact_id"), editable=False)
    tenant_id = models.BigIntegerField()
    at = models.DateTimeField()
    kind = models.CharField(max_length=32)
    job_id = models.UUIDField()
    trigger_id = models.UUIDField(null=True)
    data = models.JSONField()

    class Meta:
        indexes = (
            # store/sql/events.sql: page — a tenant's events on from one.
            models.Index(fields=("tenant_id", "xid", "id"), name="event_of_tenant"),
            # store/sql/events.sql: purge — the oldest.
            models.Index(fields=("xid", "id"), name="event_in_order"),
        )

    def __str__(self) -> str:
        return f"{self.kind} at {self.at:%Y-%m-%d %H:%M:%S}"


class FeedReader(models.Model):
    """How far a reader of ours has come: ``name`` has read everything up to and with ``(xid, event_id)``."""

    name = models.CharField(max_length=63, primary_key=True)
    xid = TransactionId(editable=False)
    event_id = models.BigIntegerField()

    def __str__(self) -> str:
        return self.name
