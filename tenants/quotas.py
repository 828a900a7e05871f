"""The quotas of a tenant, each told once: its column, range, unit, what it limits, and what happens when it is reached.

The table, the admin, the commands, the API and ``explain`` take them from here. Another quota is an entry here, its
column in ``tenants.models`` with a migration, and the place that enforces it.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from django.core.validators import MaxValueValidator, MinValueValidator


class Reached(Enum):
    """The effect when there is no room left."""

    @property
    def told(self) -> str:
        """The same as a sentence."""
        return {
            "waits": "At the limit work waits; nothing is refused.",
            "conflict": "At the limit further additions are refused; nothing is removed.",
            "invalid": "A request beyond the limit is refused; existing objects stay.",
        }[self.value]

    #: Nothing is refused; work waits, and explain says so.
    WAITS = "waits"
    #: A request is refused, no matter what else it says: 409.
    CONFLICT = "conflict"
    #: This one request asks for too much: 400.
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class Quota:
    """``name``: of the column, the option and the API's field. ``low`` to ``high``: its range, both included.

    ``unit``: the things that it counts. ``limits``: a text for people that says what it limits. ``default``: None if a
    tenant may have none; ``without`` says what holds then.
    """

    name: str
    low: int
    high: int
    unit: str
    limits: str
    reached: Reached
    default: int | None
    without: str = ""

    @property
    def can_be_lifted(self) -> bool:
        return self.default is None

    def help_text(self, none: str) -> str:
        """A sentence that says what it limits; ``none`` is how no value is written there, such as ``null``."""
        return f"{self.limits}; {none}: {self.without}." if self.can_be_lifted else f"{self.limits}."

    def column(self) -> dict[str, Any]:
        """The arguments of a model's column, beside null."""
        default = {} if self.default is None else {"default": self.default}
        return {"validators": between(self.low, self.high), "help_text": self.help_text("empty")} | default

    def excess(self, limit: int) -> str:
        """Such as ``more than 10,000 firings, the quota max_backfill``."""
        return f"more than {limit:,} {self.unit}, the quota {self.name}"


def between(low: int, high: int) -> list[MinValueValidator | MaxValueValidator]:
    """Validators that refuse a number outside, naming the range."""
    message = f"Must be a whole number from {low:,} to {high:,}."
    return [MinValueValidator(low, message), MaxValueValidator(high, message)]


WEIGHT = Quota("weight", 1, 10_000, "shares", "Share of the capacity under contention", Reached.WAITS, 100)
MAX_IN_FLIGHT = Quota(
    "max_in_flight", 1, 1_000_000, "triggers", "Triggers queued or running at once", Reached.WAITS, 1000
)
MAX_JOBS = Quota("max_jobs", 0, 100_000_000, "jobs", "Living jobs", Reached.CONFLICT, 1_000_000)
MAX_PAYLOAD_BYTES = Quota(
    "max_payload_bytes", 2, 1_048_576, "bytes", "Size of one job's payload as JSON", Reached.INVALID, 65_536
)
MAX_BACKFILL = Quota(
    "max_backfill", 1, 10_000_000, "firings", "Past firings one backfill may ask for", Reached.INVALID, 10_000
)
RATE_PER_SECOND = Quota(
    "rate_per_second", 1, 1_000_000, "dispatches", "Dispatches a second", Reached.WAITS, None, "no limit"
)
RATE_BURST = Quota(
    "rate_burst", 1, 1_000_000, "dispatches", "Dispatches at once", Reached.WAITS, None, "one second's"
)
#: In the order in which they are shown.
QUOTAS = (WEIGHT, MAX_IN_FLIGHT, MAX_JOBS, MAX_PAYLOAD_BYTES, MAX_BACKFILL, RATE_PER_SECOND, RATE_BURST)
NAMES = tuple(quota.name for quota in QUOTAS)
