"""Every error Carillon raises on purpose: one small tree.

Messages say what was wrong, where, and what would be right, because they are shown to the person who can mend it:
the API renders them as problem+json, the admin as form errors, commands on stderr. Anything outside this tree that
reaches an entry point is a defect.
"""

from collections.abc import Mapping, Sequence


class CarillonError(Exception):
    """Base of everything below."""


class InvalidInput(CarillonError):
    """Input that can never be accepted. Nothing was changed.

    ``errors`` maps a field path in the caller's own words (``"schedule.cron"``, ``"payload.headers"``) to one or more
    sentences, each saying what was wrong and what would be right.
    """

    def __init__(self, errors: Mapping[str, str | Sequence[str]]) -> None:
        self.errors: dict[str, list[str]] = {
            field: [messages] if isinstance(messages, str) else list(messages)
            for field, messages in errors.items()
        }
        super().__init__(
            "; ".join(f"{field}: {' '.join(messages)}" for field, messages in self.errors.items())
        )

    def under(self, prefix: str) -> "InvalidInput":
        """The same error with every field path moved below ``prefix``."""
        return InvalidInput({f"{prefix}.{field}" if field else prefix: m for field, m in self.errors.items()})


class NotFound(CarillonError):
    """No such object, or not one of this tenant's: the two are never told apart (DESIGN §2.10)."""


class Conflict(CarillonError):
    """The request is well-formed but contradicts the present state. Nothing was changed."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        self.field = field
        super().__init__(message)


class QuotaExceeded(CarillonError):
    """A tenant's limit is reached. Carries the quota's name, its limit and the present use."""

    def __init__(self, quota: str, *, limit: int, used: int) -> None:
        self.quota, self.limit, self.used = quota, limit, used
        super().__init__(f"The quota {quota} is {limit} and {used} are in use; delete some or ask for more.")


class Unavailable(CarillonError):
    """A server that Carillon needs (Postgres, the broker) did not answer. Worth trying again."""


class ScheduleError(CarillonError):
    """A stored schedule that can no longer be computed (a zone that left the database, for one)."""
