"""Handlers that take a while, loaded through CARILLON_HANDLER_MODULES by the test of caps."""

import random
import time

from jobs.handlers import Context, job_type
from tests.cluster.caps import NARROW_MAX_IN_FLIGHT


@job_type("caps.a")
@job_type("caps.b")
@job_type("caps.c")
@job_type("caps.wide")
@job_type("caps.narrow", max_in_flight=NARROW_MAX_IN_FLIGHT)
def work(ctx: Context, payload: dict) -> None:
    time.sleep(random.uniform(0.02, 0.2))
