"""Checkpoints of the audit trail: what was on it, signed, each with the one before (``store/trail/chain.py``)."""

from django.db import models

from jobs.models.feed.event import TransactionId


class TrailCheckpoint(models.Model):
    """The changes of transactions after ``after_xid`` up to ``upto_xid``; those were over when it was made.

    Rows of it are appended only. After its changes are past retention it stays as their stub.
    """

    number = models.BigIntegerField(primary_key=True)
    after_xid = TransactionId()
    upto_xid = TransactionId()
    changes = models.BigIntegerField()
    #: SHA-256 of the changes' SHA-256s, in their order.
    digest = models.CharField(max_length=64)
    last_at = models.DateTimeField()
    made_at = models.DateTimeField()
    #: The seal of the checkpoint before; empty for the first.
    previous = models.CharField(max_length=64, blank=True)
    key_id = models.CharField(max_length=16)
    seal = models.CharField(max_length=64)

    def __str__(self) -> str:
        return f"checkpoint {self.number}"


class TrailHead(models.Model):
    """One row: the last checkpoint, signed. Without it nobody would miss the last ones."""

    id = models.SmallIntegerField(primary_key=True)
    number = models.BigIntegerField()
    upto_xid = TransactionId()
    last_seal = models.CharField(max_length=64, blank=True)
    key_id = models.CharField(max_length=16)
    seal = models.CharField(max_length=64)

    def __str__(self) -> str:
        return f"head at {self.number}"
