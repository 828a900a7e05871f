"""The cost of a request, paid from its key's rate: one token, and more where one call does the work of many.

A job costs the same, created in bulk or one by one. A call that only looks (a preview) costs a fraction of its
computation. A long body costs as much as the work of reading it. docs/api.md describes the costs.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

#: Firings that a preview computes for one token.
FIRINGS_A_TOKEN = 20
#: Bytes of a body for one token: to read them takes 0.3 to 1 ms of processor, 4.5 for brackets and little else, where a
#: small call takes 2 in all.
BYTES_A_TOKEN = 16_384
#: One verb for all objects that match, or the firings of a stretch: work of any length, or a look at 100,000 rows. Or a
#: version that exists already, whose thousand tasks take megabytes.
AT_LARGE = 50
#: Statistics of a job look at as many firings, and compute with each: up to a fifth of a second of the database's time.
STATISTICS = 100
#: Statistics of a tenant look up each hour of the window: a tenth of a second with ten job types in each of 90 days.
TENANT_STATISTICS = 50
#: A run begins with a row for each of its tasks, of which there may be a thousand.
RUN = 10


class Cost(NamedTuple):
    """``tokens`` of the key's rate. ``each``: the part of the request that costs one, if less can be sent at once."""

    tokens: int
    each: str = ""


def cost_of_body(length: int) -> Cost:
    """The least cost of a body of ``length`` bytes, with any content."""
    return Cost(max(1, -(-length // BYTES_A_TOKEN)), each=f"{BYTES_A_TOKEN:,} bytes of its body")


def cost_of(call: str | None, method: str, *, body: Callable[[], Any], query: Mapping[str, str]) -> Cost:
    """The cost of one request of ``call`` (its route's name). ``body`` is read only where it matters."""
    match method, call:
        case "POST", "jobs-bulk":
            return Cost(max(1, _length(body(), "jobs")), each="job")
        case ("POST", "workflows") | ("PUT", "workflow"):
            return Cost(max(1, _length(body(), "tasks")), each="task")
        case "POST", "dead-letters-replay" | "dead-letters-dismiss" if _given(body(), "ids") is not None:
            return Cost(max(1, _length(body(), "ids")), each="id")
        case (
            "POST",
            "dead-letters-replay"
            | "dead-letters-dismiss"
            | "operations"
            | "job-backfill"
            | "workflow-backfills"
            | "workflow-restore",
        ):
            return Cost(AT_LARGE)
        case "POST", "workflow-run-now" | "workflow-run-retry":
            return Cost(RUN)
        case "POST", "schedule-preview":
            return Cost(1 + _number(_given(body(), "count")) // FIRINGS_A_TOKEN)
        case "GET", "workflow-compare":
            return Cost(AT_LARGE)
        case "GET", "job-stats":
            return Cost(STATISTICS)
        case "GET", "stats":
            return Cost(TENANT_STATISTICS)
        case "GET", "job-preview":
            return Cost(1 + _number(query.get("count")) // FIRINGS_A_TOKEN)
    return Cost(1)


def _given(body: Any, name: str) -> Any:
    return body.get(name) if isinstance(body, dict) else None


def _length(body: Any, name: str) -> int:
    items = _given(body, name)
    return len(items) if isinstance(items, list | dict) else 0


def _number(given: object) -> int:
    """The number of a count; 0 for a value that will be refused."""
    if isinstance(given, str):
        return int(given) if given.isascii() and given.isdigit() and len(given) < 5 else 0
    return given if isinstance(given, int) and 0 < given < 10_000 else 0
