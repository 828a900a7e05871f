"""Answer: what a call with an ``Idempotency-Key`` was answered, for a day (DESIGN §10)."""

from django.db import models


class Answer(models.Model):
    """Written by the transaction of the call itself: there is an answer exactly if what it speaks of was done.

    ``fingerprint`` is a keyed digest of method, path and body: of what was sent nothing else is kept. ``body`` is what
    was answered, without what is shown only once.
    """

    pk = models.CompositePrimaryKey("tenant_id", "key")
    tenant_id = models.BigIntegerField()
    key = models.CharField(max_length=255, db_collation="C")
    fingerprint = models.BinaryField()
    status = models.PositiveSmallIntegerField()
    headers = models.JSONField()
    body = models.BinaryField()
    created_at = models.DateTimeField()

    class Meta:
        indexes = (
            # store/sql/answers.sql: purge; the oldest.
            models.Index(fields=("created_at",), name="answer_created"),
        )

    def __str__(self) -> str:
        return f"{self.key}: {self.status}"
