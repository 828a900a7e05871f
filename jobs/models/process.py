"""State that processes share: Lease, which beat leads (DESIGN §6); ZoneRules, the release of the time zones in use.

Rate: how much of a rate limit is spent, where no Redis counts it.

Processes also report on themselves, for people: Worker, the workers that take messages (DESIGN §7); Clock, how far off
the clock of each process is.
"""

from django.contrib.postgres.fields import ArrayField
from django.db import models

from jobs.models.fields import times_in_range


class Lease(models.Model):
    """``holder`` leads until ``expires_at`` by the database's clock; ``term`` grows with every leadership."""

    name = models.CharField(max_length=64, primary_key=True)
    holder = models.CharField(max_length=200)
    term = models.BigIntegerField()
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name}: {self.holder} (term {self.term})"


class ZoneRules(models.Model):
    """The release of the time zone database by which the next instants of jobs were computed; at most one row.

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


class Rate(models.Model):
    """A bucket of ``jobs.limits``, counted here where there is no Redis. The table is unlogged (docs/adr/0030).

    ``full_at``: when it is full again, in seconds since 1970 by the database's clock. ``granted`` and ``asked`` serve
    the exchange statement alone. That statement can return the granted tokens and read the request only through the
    row.
    """

    bucket = models.TextField(primary_key=True)
    full_at = models.FloatField()
    granted = models.IntegerField()
    asked = ArrayField(models.FloatField())

    def __str__(self) -> str:
        return self.bucket


class Worker(models.Model):
    """``name`` takes from ``queues`` with ``concurrency`` processes or threads; last heard of at ``seen_at``.

    It serves people, ``explain``, and beats, which do not send the broker messages that no worker takes. Nothing that
    must be true depends on it. Triggers are recovered by their leases. ``process`` tells apart two workers that were
    given one name. ``busy`` of its processes or threads were at work at ``seen_at``; null: the worker does not report
    it.
    """

    name = models.CharField(max_length=200, primary_key=True)
    queues = ArrayField(models.CharField(max_length=80))
    concurrency = models.PositiveIntegerField()
    process = models.CharField(max_length=32, default="", db_default="")
    busy = models.PositiveIntegerField(null=True)
    seen_at = models.DateTimeField()

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=times_in_range("seen_at"), name="worker_times_between_2000_and_2100"
            ),
        )

    def __str__(self) -> str:
        return self.name


class Clock(models.Model):
    """The clock of the process ``name`` (a beat, a worker, one of the web) is ``offset_seconds`` ahead of the
    database's, measured to ``within_seconds``. For a beat, ``rate_limit_bypassed`` counts the firings whose rate it
    counted alone because Redis was away. ``version`` is the version of Carillon that the process runs.

    For people: no process clock decides anything.
    """

    name = models.CharField(max_length=200, primary_key=True)
    offset_seconds = models.FloatField()
    within_seconds = models.FloatField()
    rate_limit_bypassed = models.BigIntegerField(default=0, db_default=0)
    version = models.CharField(max_length=32, blank=True, default="", db_default="")
    measured_at = models.DateTimeField()

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=times_in_range("measured_at"), name="clock_times_between_2000_and_2100"
            ),
        )

    def __str__(self) -> str:
        return f"{self.name}: {self.offset_seconds:+.3f} s"
