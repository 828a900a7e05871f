"""Faults of handlers that misbehave inside the worker's own process, without ending it."""

from typing import Any

from chaos.faults.fault import Fault
from chaos.load.definitions import Plan

TENANT = "handler"
GIL_SECONDS = 60.0
#: A strike's job type, its description, whether its process may end by it, and the own fields of its jobs.
_MODES: tuple[tuple[str, str, bool, dict[str, Any]], ...] = (
    ("gil", "holds the interpreter's lock", False, {"timeout_seconds": 600}),
    # Its attempt is a failed one: its work was not committed.
    ("transaction", "leaves a transaction open", False, {"max_attempts": 1}),
    ("forks", "leaves a child behind", False, {}),
    ("descriptors", "closes every file descriptor", True, {}),
    ("hoard", "fills memory until there is no more", False, {}),
)


class BadHandler(Fault):
    """A tenant's handler that misbehaves, three jobs at once. Its own firings may suffer by it; each starts once."""

    number, strikes, long_strikes, hold_seconds, gap_seconds, after_seconds = 23, 5, 5, 45.0, 5.0, 40.0
    long_hold_seconds = 75.0
    affects = (TENANT,)

    def aim(self, strike: int) -> str:
        self.tenant(TENANT)
        self._strike = strike
        self.mode, what, self.kills, self._own = _MODES[strike % len(_MODES)]
        return f"a handler that {what}"

    def inject(self) -> None:
        for n in range(3):
            self.caller.make(
                Plan(
                    tenant=TENANT,
                    name=f"handler-{self.mode}-{self._strike}-{n}",
                    schedule={"type": "immediate"},
                    job_type=f"chaos.{self.mode}",
                    fault=TENANT,
                    query={"hold": f"{min(self.hold_seconds, GIL_SECONDS):g}"},
                    **self._own,
                )
            )

    def heal(self) -> None:
        """Each has ended by now, or is taken again when its lease runs out."""
