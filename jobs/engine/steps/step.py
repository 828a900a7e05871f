"""The steps of a leader's work, each with a period, a budget, failures and a back-off of its own (DESIGN §6).

A step that fails waits longer each time before it is tried again. A step that takes longer than its budget rests as
long as it took. The log says so in both cases, once and then every ten seconds with a count. A periodic step takes at
most a tenth of the time. An error raised in a step ends there, and the other steps go on. The exception is a database
that is away, because all steps need it.
"""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

from jobs import activity
from jobs.store import db
from jobs.store.leases import Leadership
from jobs.telemetry import Outage

#: The rest after the first failure in a row. It doubles with each further failure, up to the step's own longest rest.
FIRST_SECONDS = 0.1
MAX_SECONDS = 10.0
#: A periodic step takes at most this part of the time, unless it would rest longer than its longest rest. A look that
#: has become expensive, as beside an old snapshot, then leaves the processors to dispatch.
MAX_SHARE = 0.1

Work = Callable[[Any], bool]


class Figures(NamedTuple):
    """One step's failures since the process began, and the seconds of its longest run since it was last asked."""

    failures: int
    seconds: float


class Step:
    """One step. ``work`` is given the leadership, and says whether more work could be done at once. It may be repeated
    after any result.

    ``every``: seconds between two runs; 0: at each turn. ``share``: the largest part of the time that the step takes if
    ``every`` is not 0. ``again``: seconds to rest while there is more. ``budget``: the time limit for each of its
    statements in the database. A step that takes longer than this in all is slow.
    """

    def __init__(
        self,
        name: str,
        work: Work,
        *,
        every: float = 0.0,
        again: float = 0.0,
        share: float = MAX_SHARE,
        budget: timedelta = timedelta(seconds=2),
        longest_rest: float = MAX_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.budget = budget
        self.more = False
        self._work = work
        self._every, self._share, self._again, self._longest_rest = every, share, again, longest_rest
        self._monotonic = monotonic
        self._due_at = 0.0
        self._in_a_row = self._failures = 0
        self._failing_since: float | None = None
        self._slowest = 0.0
        self._failed, self._slow = Outage("step failed", step=name), Outage("step slow", step=name)

    def seconds_until_due(self) -> float:
        return max(0.0, self._due_at - self._monotonic())

    def hurry(self) -> None:
        """Make the step due now."""
        self._due_at = 0.0

    @property
    def failing_seconds(self) -> float:
        """For how many seconds every run of it has failed; 0 while it succeeds."""
        return 0.0 if self._failing_since is None else self._monotonic() - self._failing_since

    def forget(self) -> None:
        """Forget failures: they were another's, or long ago."""
        self._in_a_row, self._failing_since, self._due_at = 0, None, 0.0

    def figures(self) -> Figures:
        found, self._slowest = Figures(self._failures, self._slowest), 0.0
        return found

    def turn(self, leadership: Leadership | None) -> bool:
        """Run if it is due. Returns whether it ran and succeeded. Raises only ``db.DISCONNECTED``."""
        began = self._monotonic()
        if began < self._due_at:
            return False
        try:
            self.more = self._work(leadership)
        except db.DISCONNECTED:
            self._due_at = 0.0
            raise
        except Exception as error:  # noqa: BLE001
            self._note_failure(error, began)
            return False
        self._in_a_row, self._failing_since = 0, None
        self._failed.over()
        self._note_time(began)
        return True

    def _note_failure(self, error: Exception, began: float) -> None:
        self.more = False
        self._failures += 1
        activity.count("step_failures", self.name)
        self._in_a_row += 1
        if self._failing_since is None:
            self._failing_since = began
        # A fault of our own code is logged with its traceback.
        self._failed.failed(error, exc_info=not isinstance(error, db.StatementFailed))
        rest = min(self._longest_rest, FIRST_SECONDS * 2.0 ** min(self._in_a_row - 1, 20))
        took = self._took(began)
        self._due_at = began + took + max(rest, min(took, self._longest_rest))

    def _note_time(self, began: float) -> None:
        took = self._took(began)
        if took > self.budget.total_seconds():
            self._slow.failed(TimeoutError(f"took {took:.1f} s"))
            self._due_at = began + took + max(self._again, min(took, self._longest_rest))
            return
        self._slow.over()
        self._due_at = began + (took + self._again if self.more else self._rest_of(took))

    def _rest_of(self, took: float) -> float:
        """Seconds from one start to the next, when there is nothing more to do."""
        if not self._every:
            return 0.0
        return max(self._every, min(took / self._share, self._longest_rest))

    def _took(self, began: float) -> float:
        took = self._monotonic() - began
        self._slowest = max(self._slowest, took)
        activity.note_time("step_seconds", self.name, seconds=took)
        return took
