"""Leadership of one beat: take, keep and hand over the lease (DESIGN §6).

The lease decides who works, never what is true: every leader write proves its term in SQL, and each is a CAS besides,
so a deposed leader that wakes up late changes nothing, and two leaders at once are merely wasteful.
"""

import os
import random
import socket
import time
from datetime import timedelta
from uuid import uuid4

from jobs.store import leases
from jobs.store.leases import Reign
from jobs.telemetry import get_logger

log = get_logger()
LEASE = "leader"


class Leader:
    """Holds at most one reign. ``election`` off means: always lead, without a term."""

    def __init__(self, *, lease: timedelta, election: bool = True) -> None:
        self._duration = lease
        self._election = election
        self._reign: Reign | None = None if election else Reign(LEASE, self.holder(), None)
        self._renew_after = 0.0

    @staticmethod
    def holder() -> str:
        """A name no other process has, even after this one died and its pid was given away."""
        return f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"

    def lead(self) -> Reign | None:
        """The present reign, renewed or newly taken; None while another leads. Raises what the database raises.

        Renews at a third of the lease. The process clock only spaces the renewals; expiry is the database's to say.
        """
        if not self._election:
            return self._reign
        if self._reign is None:
            self._reign = leases.take(lease=LEASE, holder=self.holder(), duration=self._duration)
            if self._reign:
                log.info("lead", term=self._reign.term, holder=self._reign.holder)
        elif time.monotonic() < self._renew_after:
            return self._reign
        elif not leases.renew(self._reign, duration=self._duration):
            log.warning("deposed", term=self._reign.term)
            self._reign = None
        self._renew_after = time.monotonic() + self._duration.total_seconds() / 3
        return self._reign

    def step_down(self) -> None:
        """Forget the reign, without a word to the database: it cannot be reached, or says we no longer lead."""
        if self._election:
            self._reign = None

    def hand_over(self) -> None:
        """Release the lease so that a standby starts at once. May be repeated."""
        if self._election and self._reign:
            leases.release(self._reign)
            log.info("hand over", term=self._reign.term)
            self._reign = None

    def standby_seconds(self) -> float:
        """How long a standby waits before it tries the lease again: a third of it, spread out."""
        return self._duration.total_seconds() / 3 * random.uniform(0.7, 1.0)  # noqa: S311
