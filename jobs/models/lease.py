"""What leaders leave for one another: Lease, time-limited leadership of a beat (DESIGN §6), and ZoneRules."""

from django.db import models

from jobs.models.fields import times_in_range


class Lease(models.Model):
    """``holder`` leads until ``expires_at`` by the database's clock; ``term`` grows with every reign."""

    name = models.CharField(max_length=64, primary_key=True)
    holder = models.CharField(max_length=200)
    term = models.BigIntegerField()
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name}: {self.holder} (term {self.term})"


class ZoneRules(models.Model):
    """By which release of the time zone database the next instants of jobs were computed; at most one row.

    While a leader was at work under ``version``, last at ``seen_at``, no instant was owed.
    """

    version = models.CharField(max_length=16)
    seen_at = models.DateTimeField()

    class Meta:
        constraints = (
            models.CheckConstraint(condition=models.Q(id=1), name="zonerules_one_row"),
            models.CheckConstraint(condition=times_in_range("seen_at"), name="zonerules_times_in_range"),
        )

    def __str__(self) -> str:
        return f"{self.version}, last at {self.seen_at:%Y-%m-%d %H:%M:%S}"
