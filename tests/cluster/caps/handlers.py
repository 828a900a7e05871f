"""Handlers that take a while, loaded through CARILLON_HANDLER_MODULES: one job type for each kind of cap."""

import random
import time

from jobs.handlers import Context, job_type

#: Of the type ``caps.narrow``, over all tenants.
NARROW_MAX_IN_FLIGHT = 5


def _work() -> None:
    time.sleep(random.uniform(0.02, 0.2))


@job_type("caps.tenants")
def tenants(ctx: Context, payload: dict) -> None:
    _work()


@job_type("caps.jobs")
def jobs(ctx: Context, payload: dict) -> None:
    _work()


@job_type("caps.paced")
def paced(ctx: Context, payload: dict) -> None:
    _work()


@job_type("caps.narrow", max_in_flight=NARROW_MAX_IN_FLIGHT)
def narrow(ctx: Context, payload: dict) -> None:
    _work()


@job_type("caps.wide")
def wide(ctx: Context, payload: dict) -> None:
    _work()
