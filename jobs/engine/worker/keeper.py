"""The lease keeper: one thread per worker process that renews the leases of everything in hand (DESIGN §7.4).

It has its own database connection, so a handler that holds the main one cannot starve it. Each renewal answers with
the triggers that are still ours: a cancel request, or a trigger that is not ours any more, sets its handler's cancel
event. One that does not heed it is interrupted after a grace. A handler stuck where no signal reaches it (a C call, an
event loop that is blocked) is given up a grace after its deadline, or after that interruption: what can be saved of the
batch is written and the process ends itself, to be replaced by its parent. So does a process whose worker was told to
stop, some time later: what has not ended by then is handed back, for others to start anew at once.
"""

import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from uuid import UUID

from jobs.engine.worker import draining
from jobs.handlers.context import Flag
from jobs.store import db, execution
from jobs.store.execution import Grip
from jobs.telemetry import get_logger

log = get_logger()
#: A handler that swallowed its interruption is interrupted again so much later.
AGAIN_SECONDS = 5.0
#: A handler that is found overdue has so much longer. A process that was frozen, with all that would have stopped its
#: handlers in time, finds every one of them overdue when it wakes: it must not end, and take with it what it has begun
#: since, before they have.
NOTICE_SECONDS = 2.0
#: After a failed renewal the next try comes this soon.
RETRY_SECONDS = 1.0
EXIT_STATUS = 70


@dataclass(slots=True)
class Held:
    """One trigger in hand. In monotonic seconds: ``deadline``, set while its handler runs; ``asked_at``, when it was
    asked to stop; ``interrupted_at``, when it was last made to; ``overdue_at``, since when it is known to be stuck.
    """

    grip: Grip
    cancel_event: Flag
    deadline: float | None = None
    lost: bool = False
    asked_at: float | None = None
    interrupted_at: float | None = None
    overdue_at: float | None = None

    def ask_to_stop(self) -> None:
        """It was cancelled, or taken over."""
        self.cancel_event.set()
        self.asked_at = self.asked_at or time.monotonic()


def _nothing(*_: object) -> None:
    """What is left to do for a batch that was let go."""


@dataclass(slots=True)
class Hold:
    """A batch in hand. ``rescue`` writes what can be saved before the process is given up; it is told whether one
    handler alone is at work in it. ``hand_back`` does before it ends because its worker was told to stop. ``interrupt``
    stops a trigger's handler, if it can be reached.

    ``lingers``: its message is done with, and what still runs of it is the keeper's alone, until the last has ended:
    ``ended_at``. ``sure_until``: its leases hold at least so long; a process that was frozen may wake long after. Both
    in monotonic seconds.
    """

    held: dict[UUID, Held]
    flush_if_due: Callable[[], None]
    flush: Callable[[], None]
    rescue: Callable[[bool], None]
    interrupt: Callable[[UUID], None] = lambda _: None
    hand_back: Callable[[], None] = lambda: None
    done: set[UUID] = field(default_factory=set)
    lingers: bool = False
    ended_at: float | None = None
    sure_until: float = math.inf

    def let_go(self) -> None:
        """Nothing of it is in hand any more. What it called refers to it in turn: thousands of objects a batch would
        wait for the garbage collector, which took a tenth of a worker's Python.
        """
        self.flush_if_due = self.flush = self.hand_back = _nothing
        self.rescue = self.interrupt = _nothing

    def waiting(self) -> list[Held]:
        return [held for held in self.held.values() if held.grip.id not in self.done and not held.lost]

    def started(self) -> list[Held]:
        """Whose handlers are at work, also for what is not ours any more."""
        return [held for held in self.held.values() if held.grip.id not in self.done and held.deadline]


class Keeper:
    """Renews what ``holding`` was given. Made once per process; the thread starts with the first batch after a fork.

    ``grace``: how long a handler has to stop by itself before it is interrupted, and then until its process is given
    up; for a cancel only where the process is ``expendable``, since nobody else's work is in it. ``drain``: how long
    the handlers of such a process may go on after its worker was told to stop.
    """

    def __init__(
        self,
        *,
        lease: timedelta,
        flush_seconds: float,
        grace: timedelta,
        drain: timedelta,
        expendable: bool = False,
    ) -> None:
        self._lease = lease
        self._grace = grace.total_seconds()
        self._expendable = expendable
        self._drain = drain.total_seconds()
        self._told_at: float | None = None
        self._flush_seconds = flush_seconds
        self._lock = threading.Lock()
        self._holds: list[Hold] = []
        self._changed = threading.Event()
        self._pid = 0

    @contextmanager
    def holding(self, hold: Hold) -> Iterator[None]:
        """Keep the leases of ``hold`` until the block ends, or, if it ``lingers`` then, until it has ended."""
        self._start()
        with self._lock:
            self._holds.append(hold)
        self._changed.set()
        try:
            yield
        finally:
            if not hold.lingers:
                self._release(hold)

    def lingering(self) -> int:
        """How many triggers are still at work whose messages are done with."""
        with self._lock:
            return sum(len(hold.held) - len(hold.done) for hold in self._holds if hold.lingers)

    def wait_for_the_rest(self) -> None:
        """Return when nothing is in hand any more, as a process should before it ends."""
        while self._pid == os.getpid() and self._holds:
            time.sleep(self._flush_seconds)

    def _release(self, hold: Hold) -> None:
        with self._lock:
            self._holds.remove(hold)
        hold.let_go()

    def _start(self) -> None:
        if self._pid == os.getpid():
            return
        self._pid = os.getpid()
        self._lock, self._changed, self._holds = threading.Lock(), threading.Event(), []
        threading.Thread(target=self._keep, name="carillon-lease-keeper", daemon=True).start()

    def _keep(self) -> None:
        renew_at = time.monotonic() + self._lease.total_seconds() / 3
        while True:
            with self._lock:
                holds = list(self._holds)
            if not holds:
                self._changed.wait()
                self._changed.clear()
                continue
            time.sleep(self._flush_seconds)
            try:
                for hold in holds:
                    self._look_after(hold)
                self._interrupt_the_heedless(holds)
                self._hand_back_if_drained(holds)
                self._give_up_if_stuck(holds)
                if time.monotonic() >= renew_at:
                    renewed = self._renew(holds)
                    renew_at = time.monotonic() + (
                        self._lease.total_seconds() / 3 if renewed else RETRY_SECONDS
                    )
            except Exception:  # one bad write must not end the thread every later batch relies on
                log.exception("keeper failed")

    def make_sure(self, hold: Hold) -> None:
        """Renew what is still ours of ``hold``; the rest is ``lost`` from then on. Raises what the database raises."""
        self._ask([hold])

    def _renew(self, holds: Sequence[Hold]) -> bool:
        try:
            self._ask(holds)
        except db.DISCONNECTED as error:
            triggers = sum(len(hold.waiting()) for hold in holds)
            log.warning("renew failed", error=str(error).strip().splitlines()[:1], triggers=triggers)
            db.disconnect()
            return False
        return True

    def _ask(self, holds: Sequence[Hold]) -> None:
        waiting = [held for hold in holds for held in hold.waiting()]
        if not waiting:
            return
        sure_until = time.monotonic() + self._lease.total_seconds()
        answer = execution.renew(grips=[held.grip for held in waiting], lease=self._lease)
        for hold in holds:
            hold.sure_until = sure_until
        for held in waiting:
            if held.grip.id not in answer:
                held.lost = True
                held.ask_to_stop()
                log.warning("lease lost", trigger_id=str(held.grip.id), fence=held.grip.fence)
            elif answer[held.grip.id]:
                held.ask_to_stop()

    def _look_after(self, hold: Hold) -> None:
        try:
            if hold.lingers and hold.ended_at is not None:
                hold.flush()
                self._release(hold)
            else:
                hold.flush_if_due()
        except Exception as error:  # whatever ails this one: the leases of the others are still to be renewed
            if isinstance(error, db.DISCONNECTED):
                log.warning("finish failed", error=str(error).strip().splitlines()[:1])
            else:
                log.exception("finish failed")
            db.disconnect()
            # Its leases have run out by then: reap has the last word, and a process that is to end need not wait.
            if hold.ended_at is not None and time.monotonic() > hold.ended_at + self._lease.total_seconds():
                self._release(hold)

    def _interrupt_the_heedless(self, holds: Sequence[Hold]) -> None:
        now = time.monotonic()
        for hold in holds:
            for held in hold.started():
                if held.interrupted_at is not None:
                    due = now > held.interrupted_at + AGAIN_SECONDS
                else:
                    due = held.asked_at is not None and now > held.asked_at + self._grace
                if due:
                    held.interrupted_at = now
                    hold.interrupt(held.grip.id)

    def _hand_back_if_drained(self, holds: Sequence[Hold]) -> None:
        if not (self._expendable and draining.begun()):
            return
        now = time.monotonic()
        self._told_at = self._told_at or now
        waiting = [held for hold in holds for held in hold.waiting()]
        if now < self._told_at + self._drain or not waiting:
            return
        log.warning("hand back", triggers=[str(held.grip.id) for held in waiting])
        self._end([hold.hand_back for hold in holds])

    def _stuck(self, held: Held, now: float) -> bool:
        if not self._overdue(held, now):
            held.overdue_at = None
        elif held.overdue_at is None:
            held.overdue_at = now
        return held.overdue_at is not None and now >= held.overdue_at + NOTICE_SECONDS

    def _overdue(self, held: Held, now: float) -> bool:
        if held.deadline and now > held.deadline + self._grace:
            return True
        return self._expendable and held.asked_at is not None and now > held.asked_at + 2 * self._grace

    def _give_up_if_stuck(self, holds: Sequence[Hold]) -> None:
        started = [held for hold in holds for held in hold.started()]
        now = time.monotonic()
        stuck = [held for held in started if self._stuck(held, now)]
        if not stuck:
            return
        log.error("stuck", triggers=[str(held.grip.id) for held in started])
        self._end([partial(hold.rescue, len(started) == 1) for hold in holds])

    @staticmethod
    def _end(last_words: Sequence[Callable[[], None]]) -> None:
        """End this process; what its words do not reach any more, the leases' end does."""
        try:
            for say in last_words:
                say()
        except db.DISCONNECTED as error:
            log.warning("finish failed", error=str(error).strip().splitlines()[:1])
        os._exit(EXIT_STATUS)
