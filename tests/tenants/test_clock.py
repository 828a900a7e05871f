"""tenants imports nothing of jobs; facts that both must know are held together here."""

from jobs.core import instants
from tenants import models


class TestTheBoundsOfTime:
    def test_are_those_of_jobs(self) -> None:
        assert (models.EARLIEST, models.LATEST) == (instants.EARLIEST, instants.LATEST)
        assert models.OUT_OF_BOUNDS == instants.OUT_OF_BOUNDS
