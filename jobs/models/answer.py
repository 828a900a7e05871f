"""Answer: the answer to a call with an ``Idempotency-Key``, kept for a day (DESIGN §10)."""

from django.db import models


class Answer(models.Model):
    """Written by the transaction of the call itself: an answer exists exactly if the change that it reports was made.

    ``fingerprint`` is a keyed digest of the request's method, path and body; nothing else of the request is kept.
    ``body`` is the body of the answer, without the values that are shown only once.
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
