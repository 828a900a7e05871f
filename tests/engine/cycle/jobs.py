"""Jobs that fire every few seconds, and the triggers that a beat's turn makes of them."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from jobs.models import Job, Trigger
from tests import factories
from tests.factories import make_job

Clock = Callable[[timedelta], None]


def make_every(seconds: int, **columns: Any) -> Job:
    """An interval job that was just created: its first firing lies one interval ahead."""
    created_at = factories.now().replace(microsecond=0)
    every = timedelta(seconds=seconds)
    plain = {"interval": every, "created_at": created_at, "next_fire_at": created_at + every}
    return make_job(**(plain | columns))


def instants(job: Job) -> list[datetime]:
    return sorted(Trigger.objects.filter(job=job).values_list("scheduled_for", flat=True))


#: A turn's duration shortens the wait until the next trigger is due. A busy machine's turns must be short beside it.
LONG_MS = 3_600_000
