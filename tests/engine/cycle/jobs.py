"""Jobs that fire every few seconds, and what a beat's turn left of them."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from jobs.models import Job, Trigger
from tests import factories
from tests.factories import make_job

Clock = Callable[[timedelta], None]


def make_every(seconds: int, **columns: Any) -> Job:
    """An interval job just created: its first firing lies one interval ahead."""
    created_at = factories.now().replace(microsecond=0)
    every = timedelta(seconds=seconds)
    plain = {"interval": every, "created_at": created_at, "next_fire_at": created_at + every}
    return make_job(**(plain | columns))


def instants(job: Job) -> list[datetime]:
    return sorted(Trigger.objects.filter(job=job).values_list("scheduled_for", flat=True))


#: Turns take their time off the wait for what is due next: a busy machine's are to be short beside it.
LONG_MS = 3_600_000
