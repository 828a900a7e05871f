"""Queue: state of a job type's queue that dispatchers share (DESIGN §8). Message: one that the broker cannot take."""

from django.db import models

from jobs.models.fields import times_in_range


class Queue(models.Model):
    """The dispatcher that serves this job type locks it, so that its caps stay exact with several dispatchers.

    ``window`` is how many triggers may be queued at once: about as many as the workers claim within the target wait, at
    ``rate`` claims a second. ``dispatched`` counts all triggers ever dispatched; ``drained`` is how many of them had
    left the queue at ``measured_at``.

    The other columns are operators' (``store/sql/levers.sql``). While ``paused_at`` is set, no trigger of the type
    starts. ``max_in_flight`` bounds the triggers in flight, as the handler's own ``max_in_flight`` does; the lower one
    counts.
    """

    job_type = models.CharField(max_length=63, primary_key=True)
    window = models.PositiveIntegerField()
    rate = models.FloatField(default=0)
    dispatched = models.BigIntegerField(default=0)
    drained = models.BigIntegerField(default=0)
    measured_at = models.DateTimeField()
    paused_at = models.DateTimeField(null=True, blank=True, editable=False)
    paused_by = models.CharField(max_length=200, default="", db_default="", editable=False)
    pause_reason = models.CharField(max_length=500, default="", db_default="", editable=False)
    max_in_flight = models.PositiveIntegerField(null=True, blank=True)

    class Meta:
        verbose_name = "job type"
        indexes = (
            # store/sql/execution.sql: claim.
            models.Index(
                fields=("job_type",), condition=models.Q(paused_at__isnull=False), name="queue_paused"
            ),
        )
        constraints = (
            models.CheckConstraint(
                condition=models.Q(max_in_flight__isnull=True) | models.Q(max_in_flight__gte=1),
                name="queue_max_in_flight_positive",
            ),
            models.CheckConstraint(
                condition=times_in_range("paused_at"), name="queue_paused_between_2000_and_2100"
            ),
        )

    def __str__(self) -> str:
        return self.job_type


class Message(models.Model):
    """A message that waits in Postgres because the broker is away: ``items`` is ``[[trigger id, fence], …]``.

    Only written with ``CARILLON_BROKERLESS_FALLBACK``. Deleted as soon as a worker takes it.
    """

    job_type = models.CharField(max_length=63)
    items = models.JSONField()
    created_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.job_type}: {len(self.items)} triggers"
