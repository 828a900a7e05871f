"""Queue: what dispatchers know together of one job type's queue (DESIGN §8). Message: what the broker cannot take."""

from django.db import models


class Queue(models.Model):
    """Locked by whoever dispatches this job type, so that its caps stay exact with several dispatchers.

    ``window`` is how many triggers may be queued at once: about what the workers take in the target wait, at ``rate``
    claims a second. ``dispatched`` counts ever; ``drained`` is what of it had left the queue at ``measured_at``.
    """

    job_type = models.CharField(max_length=63, primary_key=True)
    window = models.PositiveIntegerField()
    rate = models.FloatField(default=0)
    dispatched = models.BigIntegerField(default=0)
    drained = models.BigIntegerField(default=0)
    measured_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.job_type}: window {self.window}"


class Message(models.Model):
    """A message that waits in Postgres because the broker is away: ``items`` is ``[[trigger id, fence], …]``.

    Only written with ``CARILLON_BROKERLESS_FALLBACK``. Gone as soon as a worker takes it.
    """

    job_type = models.CharField(max_length=63)
    items = models.JSONField()
    created_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.job_type}: {len(self.items)} triggers"
