"""Tallies: sums that triggers of a table keep, so that neither quotas nor usage count its rows."""

from django.db import models


class Tally(models.Model):
    """A tenant's sum is that of its stripes. Each connection writes to a stripe of its own, or nearly, so that those
    who write at once do not wait for each other.
    """

    pk = models.CompositePrimaryKey("tenant_id", "stripe")
    tenant_id = models.BigIntegerField()
    stripe = models.PositiveSmallIntegerField()

    class Meta:
        abstract = True


class JobTally(Tally):
    """How many living jobs a tenant has, by triggers of ``jobs_job`` (migration 0009)."""

    jobs = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.jobs} of {self.tenant_id}"


class AnswerTally(Tally):
    """How many bytes of answers a tenant has, by triggers of ``jobs_answer`` (migration 0029)."""

    bytes = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.bytes} of {self.tenant_id}"
