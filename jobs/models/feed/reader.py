"""FeedReader: how far a reader of ours has come in the event feed."""

from django.db import models

from jobs.models.feed.event import TransactionId


class FeedReader(models.Model):
    """``name`` has read everything up to and with ``(xid, event_id)``."""

    name = models.CharField(max_length=63, primary_key=True)
    xid = TransactionId(editable=False)
    event_id = models.BigIntegerField()

    def __str__(self) -> str:
        return self.name
