"""A calm system: a beat leads, a worker takes from every queue, no limit is near."""

import pytest

from jobs.handlers import registry
from jobs.models import Worker
from jobs.store.insight import workers
from tests.factories import HOUR, now, take_lease


@pytest.fixture(autouse=True)
def calm(db: None, job_types: None) -> None:
    take_lease(duration=HOUR)
    workers.announce(name="w1", queues=[kind.queue for kind in registry.all_types()], concurrency=4)
    # The worker counts as alive for as long as a test may take.
    Worker.objects.update(seen_at=now() + HOUR)
