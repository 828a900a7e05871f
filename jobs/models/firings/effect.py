"""Effect: a change that a handler made once (DESIGN §7)."""

from django.db import models
from django.db.models.functions import Now

from jobs.models.fields import times_in_range


class Effect(models.Model):
    """The record of an effect that a handler makes once (``Context.once``). The transaction of the effect writes it.

    ``duplicates``: how many later executions found the record and left the effect out. Purged after its trigger.
    """

    pk = models.CompositePrimaryKey("trigger_id", "key")
    trigger_id = models.UUIDField()
    key = models.CharField(max_length=200)
    fence = models.PositiveIntegerField()
    recorded_at = models.DateTimeField(db_default=Now())
    duplicates = models.PositiveIntegerField(default=0, db_default=0)

    class Meta:
        constraints = (
            models.CheckConstraint(condition=times_in_range("recorded_at"), name="effect_times_in_range"),
        )

    def __str__(self) -> str:
        return f"{self.key} of {self.trigger_id}"
