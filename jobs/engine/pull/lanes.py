"""The lanes of pull types, for the beat: as declared a second ago at most."""

import time

from jobs.engine.dispatcher import Lane
from jobs.models import PullType

REFRESH_SECONDS = 1.0


class PullLanes:
    """Called in every turn of a beat; asks the database once a second."""

    def __init__(self) -> None:
        self._lanes: dict[str, Lane] = {}
        self._look_at = 0.0

    def __call__(self) -> dict[str, Lane]:
        """Every declared pull type and how it is served. Raises what the database raises."""
        if time.monotonic() >= self._look_at:
            caps = PullType.objects.values_list("job_type", "max_in_flight")
            self._lanes = {job_type: Lane(cap, 1, pull=True) for job_type, cap in caps}
            self._look_at = time.monotonic() + REFRESH_SECONDS
        return self._lanes
