"""One helper for every service that may be away: the database, the broker, Redis."""

import time
from typing import Any

from jobs.telemetry.lines import get_logger

#: How often a lasting outage is logged.
OUTAGE_LINE_SECONDS = 10.0
_log = get_logger()


class Outage:
    """Logs that a service is away: a line at its start, every ``OUTAGE_LINE_SECONDS`` one with a count, one at its end.
    ``keys`` are in each of them.

    There is one per process and service, however many operations fail because of it. An outage that begins soon after a
    line is told with the next line, so a service that comes and goes cannot fill the log either. It has no lock: a
    child that was forked while another thread held the lock would never log again. Without it, two threads at once may
    at worst write a line twice.
    """

    def __init__(self, event: str, **keys: Any) -> None:
        self._event, self._keys = event, keys
        self._since: float | None = None
        self._line_at = -OUTAGE_LINE_SECONDS
        self._told = False
        self._failures = 0

    def failed(self, error: BaseException, **keys: Any) -> None:
        """One more try failed."""
        now = time.monotonic()
        if self._since is None:
            self._since, self._failures, self._told = now, 0, False
        self._failures += 1
        if now - self._line_at < OUTAGE_LINE_SECONDS:
            return
        again = {"failures": self._failures, "seconds": round(now - self._since)} if self._told else {}
        self._line_at, self._told = now, True
        text = str(error).strip().splitlines()[:1]
        _log.warning(
            self._event, error=text[0] if text else type(error).__name__, **self._keys, **again, **keys
        )

    def over(self, **keys: Any) -> None:
        """It answered. Costs nothing while it was not away."""
        if self._since is None:
            return
        since, self._since = self._since, None
        if self._told:
            seconds = round(time.monotonic() - since, 1)
            _log.warning(
                f"{self._event}: over", failures=self._failures, seconds=seconds, **self._keys, **keys
            )
