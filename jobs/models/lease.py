"""Lease: time-limited leadership of a beat (DESIGN §6)."""

from django.db import models


class Lease(models.Model):
    """``holder`` leads until ``expires_at`` by the database's clock; ``term`` grows with every reign."""

    name = models.CharField(max_length=64, primary_key=True)
    holder = models.CharField(max_length=200)
    term = models.BigIntegerField()
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name}: {self.holder} (term {self.term})"
