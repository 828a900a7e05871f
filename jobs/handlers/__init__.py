"""Job types: the public handler API, the registry, and running one handler safely.

A team's module needs ``Context``, ``Permanent``, ``RetryAfter``, ``Response`` and ``job_type``
(``docs/handlers.md``). The engine uses ``registry`` (``load``, ``get``, ``all_types``, ``validate_payload``),
``run_sync``, ``AsyncRunner`` and ``Outcome``. Nothing here touches the models or the store: a handler's
effects on Carillon are its ``Outcome`` and the callbacks of its ``Context``.
"""

from jobs.handlers import registry
from jobs.handlers.async_runner import AsyncRunner
from jobs.handlers.context import Context
from jobs.handlers.execution import run_sync
from jobs.handlers.outcome import Cancelled, HandlerError, Outcome, Permanent, Response, RetryAfter
from jobs.handlers.registry import JobType, job_type

__all__ = (
    "AsyncRunner",
    "Cancelled",
    "Context",
    "HandlerError",
    "JobType",
    "Outcome",
    "Permanent",
    "Response",
    "RetryAfter",
    "job_type",
    "registry",
    "run_sync",
)
