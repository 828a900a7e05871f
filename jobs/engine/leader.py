"""Leadership of one beat: take, keep and hand over the lease (DESIGN §6).

The lease decides which beat works, never what is true. Every leader write proves its term in SQL, and is also a
compare-and-set. So a deposed leader that wakes up late changes nothing, and two leaders at once are merely wasteful.

No lock stops a leader. A lease with a locked row can be neither prolonged nor taken. Once it has run out, beats lead
without a term until the lock is gone, as they do without election. A beat whose dispatch keeps failing gives its lease
up and leaves it to other beats for a while.
"""

import math
import os
import random
import socket
import time
from datetime import timedelta
from uuid import uuid4

from jobs.store import leases
from jobs.store.leases import Leadership
from jobs.telemetry import get_logger

log = get_logger()
#: A beat that finds the lease locked tries again this soon.
LOCKED_SECONDS = 1.0
#: For this long after giving its lease up, a beat takes it only if it stays free for longer than others need to look.
ABSTAIN_SECONDS = 15.0


class Leader:
    """Holds at most one leadership. Without ``election`` it always leads, without a term.

    ``inheritances`` goes up whenever a leadership begins and another leader may have left work half done.
    ``unattended_seconds``: before the last of these, no beat led for at most this long.
    """

    def __init__(self, *, lease: timedelta, election: bool = True) -> None:
        self._duration = lease
        self._election = election
        self._holder = ""
        self._leadership: Leadership | None = None if election else Leadership(self.holder(), None)
        self._wait = self._third = lease.total_seconds() / 3
        self._renew_after = self._abstains_until = 0.0
        self._locked_since: float | None = None
        self.inheritances = 0
        self.unattended_seconds = math.inf

    @staticmethod
    def holder() -> str:
        """A name that no other process has, even after this one died and its pid was reused."""
        return f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:12]}"

    def lead(self) -> Leadership | None:
        """The present leadership, renewed or newly taken; None while another leads. Raises the database's errors.

        Renews at a third of the lease. The process clock only spaces the renewals; the database decides the expiry.
        """
        if not self._election or (self._leadership and time.monotonic() < self._renew_after):
            return self._leadership
        self._holder = self._holder or self.holder()
        leadership, locked = self._renewed() or self._taken()
        if locked and self._locked_since is None:
            log.warning("lease locked")
        self._locked_since = (self._locked_since or time.monotonic()) if locked else None
        self._wait = min(LOCKED_SECONDS, self._third) if locked else self._third
        self._renew_after = time.monotonic() + self._wait
        self._leadership = leadership
        return leadership

    def step_down(self) -> None:
        """Forget the leadership without telling the database: it cannot be reached, or says that it is over."""
        if self._election:
            self._leadership = None

    @property
    def leadership(self) -> Leadership | None:
        """The present leadership as far as is known; its writes prove whether it still holds."""
        return self._leadership

    def give_up(self) -> None:
        """Leave the lease to other beats, as dispatch fails here. Take it again soon only if no other beat does."""
        if not self._election:
            return
        self.hand_over()
        self._abstains_until = time.monotonic() + ABSTAIN_SECONDS
        self._holder = ""  # the work left behind is another beat's by now

    def hand_over(self) -> None:
        """Release the lease so that another beat starts at once. May be repeated."""
        if self._election and self._leadership is not None:
            leases.release(self._leadership)
            log.info("hand over", term=self._leadership.term)
            self.step_down()

    def standby_seconds(self) -> float:
        """How long a standby waits before it tries again: a third of the lease, less while the lease is locked."""
        return self._wait * random.uniform(0.7, 1.0)  # noqa: S311

    def _renewed(self) -> tuple[Leadership, bool] | None:
        """The continued leadership and whether its lease is locked; None: there is no leadership, or it is over."""
        if self._leadership is None or self._leadership.term is None:
            return None
        locked = leases.renew(self._leadership, duration=self._duration)
        if locked is None:
            log.warning("deposed", term=self._leadership.term)
            return None
        return self._leadership, locked

    def _taken(self) -> tuple[Leadership | None, bool]:
        """A new leadership, or None, and whether the lease is locked."""
        abstains = time.monotonic() < self._abstains_until
        idle = self._duration / 2 if abstains else timedelta()
        taken = leases.take(holder=self._holder, duration=self._duration, idle=idle)
        if taken is None:
            return None, False
        if taken.term is not None:
            log.info("lead", term=taken.term, holder=self._holder)
            if taken.abandoned:
                self.inheritances += 1
                # A leader that died had renewed the lease at most one lease duration before it ran out.
                free_for = taken.free_for
                self.unattended_seconds = (
                    math.inf if free_for is None else (self._duration + free_for).total_seconds()
                )
            return Leadership(self._holder, taken.term), False
        if self._locked_since is None or self._locked_since > time.monotonic() - LOCKED_SECONDS:
            return None, True  # only just found locked: another beat may be taking it
        if self._leadership is None or self._leadership.term is not None:
            log.warning("lead without a term")
        return Leadership(self._holder, None), True
