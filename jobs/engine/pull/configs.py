"""The beat's knowledge of pull workers, at most a second old.

It holds the types that only pull workers serve, and the tenants whose pull workers ask for types shared with Celery's.
"""

import time
from dataclasses import dataclass

from jobs.core.pull import MARK
from jobs.engine.dispatcher import QueueConfig
from jobs.handlers import registry
from jobs.models import PullType
from jobs.store.insight import workers

REFRESH_SECONDS = 1.0


class PullConfigs:
    """Called in every turn of a beat; asks the database once a second."""

    def __init__(self) -> None:
        self._configs: dict[str, QueueConfig] = {}
        self._look_at = 0.0

    def __call__(self) -> dict[str, QueueConfig]:
        """The queue configuration of every declared pull type. Raises the database's errors."""
        if time.monotonic() >= self._look_at:
            caps = PullType.objects.values_list("job_type", "max_in_flight")
            self._configs = {job_type: QueueConfig(cap, 1, pull=True) for job_type, cap in caps}
            self._look_at = time.monotonic() + REFRESH_SECONDS
        return self._configs


@dataclass(frozen=True, slots=True)
class TakenBy:
    """Takers of a job type that both kinds of workers may serve: whether Celery's do, and whose pull workers do."""

    by_celery: bool = True
    by_tenants: frozenset[int] = frozenset()


class Takers:
    """Called in every turn of a beat; asks the database once a second, and never where no type is served by both.

    It goes by the workers' presence. If that is wrong, a trigger without a taker waits for its dispatch deadline, as
    after a lost message.
    """

    def __init__(self) -> None:
        self._taken: dict[str, TakenBy] = {}
        self._look_at = 0.0

    def __call__(self) -> dict[str, TakenBy]:
        """The takers of each registered type with ``pull``. Raises the database's errors."""
        shared = [job_type for job_type in registry.all_types() if job_type.pull]
        if shared and time.monotonic() >= self._look_at:
            queues = workers.queues_taken([job_type.queue for job_type in shared])
            self._taken = {job_type.name: _taken(job_type.queue, queues) for job_type in shared}
            self._look_at = time.monotonic() + REFRESH_SECONDS
        return self._taken


def _taken(queue: str, queues: set[str]) -> TakenBy:
    marked = f"{queue}{MARK}"
    tenants = (name.removeprefix(marked) for name in queues if name.startswith(marked))
    return TakenBy(queue in queues, frozenset(int(tenant) for tenant in tenants))
