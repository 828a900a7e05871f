"""Worker: a process that takes messages, as long as it keeps saying so (DESIGN §7)."""

from django.contrib.postgres.fields import ArrayField
from django.db import models

from jobs.models.fields import times_in_range


class Worker(models.Model):
    """``name`` takes from ``queues`` with ``concurrency`` processes or threads; last heard of at ``seen_at``.

    For people and for ``explain``: nothing that must be true depends on it. Triggers are recovered by their leases.
    """

    name = models.CharField(max_length=200, primary_key=True)
    queues = ArrayField(models.CharField(max_length=80))
    concurrency = models.PositiveIntegerField()
    seen_at = models.DateTimeField()

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=times_in_range("seen_at"), name="worker_times_between_2000_and_2100"
            ),
        )

    def __str__(self) -> str:
        return self.name
