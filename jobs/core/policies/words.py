"""The words in which a job's policies are chosen (DESIGN §7, §9)."""

from enum import IntEnum, StrEnum

from jobs.core.errors import InvalidInput


class OverlapPolicy(StrEnum):
    """The rule for a trigger that is due while another of the same job is unfinished."""

    SKIP = "skip"
    QUEUE = "queue"
    COLLAPSE = "collapse"
    ALLOW = "allow"
    REPLACE = "replace"


class MisfirePolicy(StrEnum):
    """The rule for firings that could not be dispatched within the grace."""

    FIRE_ONCE = "fire_once"
    SKIP = "skip"
    FIRE_ALL = "fire_all"
    BACKFILL = "backfill"


class Delivery(StrEnum):
    """How often a trigger may be started when a worker is lost."""

    AT_LEAST_ONCE = "at_least_once"
    AT_MOST_ONCE = "at_most_once"
    EXACTLY_ONCE = "exactly_once"


class CronDialect(StrEnum):
    """How a cron expression is written; ``quartz`` has seconds first and counts Sunday as 1."""

    UNIX = "unix"
    QUARTZ = "quartz"


class DstPolicy(StrEnum):
    """How a fixed schedule behaves where clocks change; wildcard schedules follow elapsed time under each policy."""

    VIXIE = "vixie"
    SKIP = "skip"
    BOTH = "both"


class Priority(IntEnum):
    """Stored as a number so that SQL can sort by it; the lower goes first."""

    CRITICAL = 0
    HIGH = 1
    MEDIUM = 2
    LOW = 3

    @property
    def label(self) -> str:
        """The lower-case word of the API."""
        return self.name.lower()

    @classmethod
    def from_label(cls, label: str) -> "Priority":
        """The priority that the API's word names. Raises ``InvalidInput`` under ``priority``."""
        for priority in cls:
            if priority.label == label:
                return priority
        words = ", ".join(priority.label for priority in cls)
        raise InvalidInput({"priority": f"{label!a:.40} is not a priority; use one of {words}."})


#: This priority and more urgent ones may start in slots that workers keep free (DESIGN §8).
LEAST_URGENT = Priority.HIGH
