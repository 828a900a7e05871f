"""Structured logs: one event per verb, with the ids that let a reader follow a firing across processes.

``log = get_logger()`` then ``log.info("claim", trigger_id=…, fence=…)``: the event is the verb of DESIGN §1, everything
else is a key. ``bound(...)`` adds keys (worker, tenant) to all events of a block. While a handler runs, every line of
its thread or task carries the ids of its attempt (``carrying``, ``carry``). Every line of a request carries its id
(``carry_request``). A handler's log lines and prints are kept with its attempt, too (``keeping``, ``prints``). The
format is console or JSON, by ``CARILLON_LOG_FORMAT``. An ``Outage`` logs that a service is away; ``Sampled`` logs
events that are too frequent for a line each.
"""

from jobs.telemetry.context import (
    bound,
    callers_trace,
    calling_from,
    carry,
    carry_caller,
    carry_request,
    carrying,
    current_request_id,
)
from jobs.telemetry.lines import FORMATS, NAME, formatter, get_logger, logging_config, shape_of
from jobs.telemetry.outage import OUTAGE_LINE_SECONDS, Outage
from jobs.telemetry.prints import keep_prints
from jobs.telemetry.sampling import Sampled

__all__ = (
    "FORMATS",
    "NAME",
    "OUTAGE_LINE_SECONDS",
    "Outage",
    "Sampled",
    "bound",
    "callers_trace",
    "calling_from",
    "carry",
    "carry_caller",
    "carry_request",
    "carrying",
    "current_request_id",
    "formatter",
    "get_logger",
    "keep_prints",
    "logging_config",
    "shape_of",
)
