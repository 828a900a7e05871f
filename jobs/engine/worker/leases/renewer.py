"""The lease renewer: one thread per worker process that renews the leases of all claimed triggers (DESIGN §7.4).

It has its own database connection, so a handler that holds the main one cannot starve it. Each renewal answers with the
triggers that are still ours. A cancel request, or a trigger that is not ours any more, sets its handler's cancel event.
A handler that does not heed the event is interrupted after a grace. A handler stuck where no signal reaches it (a C
call, a blocked event loop) is given up a grace after its deadline, or after that interruption. Then the batch's known
outcomes are written, its other triggers are given up, and the process ends itself, to be replaced by its parent. A
process whose worker was told to stop ends itself too, some time later: triggers that have not ended by then are handed
back, so that others can start them again at once.
"""

import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Protocol
from uuid import UUID

from jobs.activity import count
from jobs.engine.endings import tell_the_rest
from jobs.engine.worker import draining
from jobs.engine.worker.leases.hands import Hands
from jobs.engine.worker.leases.release import absolve, note_stopping
from jobs.handlers.context import Flag
from jobs.store import db, execution
from jobs.store.execution import ClaimToken
from jobs.telemetry import get_logger
from jobs.telemetry.traces import send_the_rest

log = get_logger()
#: A handler that swallowed its interruption is interrupted again this much later.
AGAIN_SECONDS = 5.0
#: A handler that is found overdue has this much longer. A frozen process cannot stop its handlers in time, and finds
#: all of them overdue when it wakes. It must not end before they have ended, as that would also end the handlers that
#: it has begun since.
NOTICE_SECONDS = 2.0
#: After a failed renewal the next try comes this soon.
RETRY_SECONDS = 1.0
#: The outcomes of lingering batches that end within this time of each other are written in one look.
GATHER_SECONDS = 0.01
EXIT_STATUS = 70


@dataclass(slots=True)
class Held:
    """One claimed trigger. In monotonic seconds: ``deadline``, set while its handler runs; ``asked_at``, when it was
    asked to stop; ``interrupted_at``, when it was last interrupted; ``overdue_at``, since when it is known to be
    overdue. ``stopping``: it is on record that its worker was told to stop. ``done``: its outcome is known. ``entry``:
    the entry where the guard reads of it.
    """

    token: ClaimToken
    cancel_event: Flag
    deadline: float | None = None
    lost: bool = False
    asked_at: float | None = None
    interrupted_at: float | None = None
    overdue_at: float | None = None
    stopping: bool = False
    done: bool = False
    entry: int = -1
    tenant: str = ""

    def ask_to_stop(self) -> None:
        """Ask the handler to stop: the trigger was cancelled, or taken over."""
        self.cancel_event.set()
        self.asked_at = self.asked_at or time.monotonic()


@dataclass(slots=True)
class Hold:
    """The state of a batch while its leases are renewed.

    ``lingers``: its message is done with, and its handlers that still run are the renewer's alone. ``ended_at``: when
    the last of these ended. ``sure_until``: its leases hold at least this long; a process that was frozen may wake long
    after. Both times are in monotonic seconds.
    """

    held: dict[UUID, Held]
    lingers: bool = False
    ended_at: float | None = None
    sure_until: float = math.inf

    def waiting(self) -> list[Held]:
        return [held for held in self.held.values() if not held.done and not held.lost]

    def started(self) -> list[Held]:
        """The triggers whose handlers are at work, also those that are not ours any more."""
        return [held for held in self.held.values() if not held.done and held.deadline]


class LeasedBatch(Protocol):
    """A batch, as the renewer calls it from its thread. It must not refer to itself: a batch is thousands of objects,
    which would then wait for the garbage collector (a tenth of a worker's Python).
    """

    @property
    def hold(self) -> Hold: ...

    def flush_if_due(self) -> None:
        """Write the outcomes that have waited long enough."""

    def flush(self) -> None:
        """Write all outcomes."""

    def interrupt(self, trigger_id: UUID) -> None:
        """Stop a trigger's handler, if it can be reached."""

    def rescue(self, alone: bool) -> None:
        """Save all that is possible before the process is given up. ``alone``: only one handler was at work in it."""

    def hand_back(self) -> None:
        """Do the same before the process ends because its worker was told to stop."""


class LeaseRenewer:
    """Renews the leases of the batches that ``renewing`` was given. Made once per process.

    The thread starts with the first batch after a fork.

    ``hands``: where the guard reads the claimed triggers; None: there is no guard.
    ``grace``: how long a handler has to stop by itself before it is interrupted, and then again until its process is
    given up. After a cancel the process is given up only if it is ``expendable``, since no other work is in it.
    ``drain``: how long the handlers of an expendable process may go on after its worker was told to stop.
    ``loop_failed``: whether asynchronous handlers of this process can never end.
    """

    def __init__(
        self,
        *,
        lease: timedelta,
        flush_seconds: float,
        grace: timedelta,
        drain: timedelta,
        expendable: bool = False,
        hands: Hands | None = None,
        loop_failed: Callable[[], bool] = lambda: False,
    ) -> None:
        self._lease = lease
        self._grace = grace.total_seconds()
        self._expendable = expendable
        self._hands = hands
        self._loop_failed = loop_failed
        self._drain = drain.total_seconds()
        self._told_at: float | None = None
        self._flush_seconds = flush_seconds
        self._lock = threading.Lock()
        self._batches: list[LeasedBatch] = []
        self._changed, self._ended = threading.Event(), threading.Event()
        self._pid = 0

    @contextmanager
    def renewing(self, batch: LeasedBatch) -> Iterator[None]:
        """Keep the leases of ``batch`` until the block ends, or, if it ``lingers`` then, until it has ended."""
        self._start()
        if self._hands:
            self._hands.beat(time.monotonic())
            for held in batch.hold.held.values():
                held.entry = self._hands.note(held.token)
        with self._lock:
            self._batches.append(batch)
        self._changed.set()
        try:
            yield
        finally:
            if not batch.hold.lingers:
                self._release(batch)

    def note_end(self) -> None:
        """All handlers of a batch that lingers have ended: write their outcomes. From any thread."""
        self._ended.set()

    def wait_for_the_rest(self) -> None:
        """Return when no trigger is claimed any more. A process should call it before it ends."""
        while self._pid == os.getpid() and self._batches:
            time.sleep(self._flush_seconds)

    def set_deadline(self, held: Held, deadline: float | None) -> None:
        """Set until when the handler may run, in monotonic seconds; None: it does not run."""
        held.deadline = deadline
        if self._hands:
            self._hands.set_deadline(held.entry, deadline)

    def _release(self, batch: LeasedBatch) -> None:
        with self._lock:
            self._batches.remove(batch)
        if self._hands:
            for held in batch.hold.held.values():
                self._hands.drop(held.entry)

    def _start(self) -> None:
        if self._pid == os.getpid():
            return
        self._pid = os.getpid()
        self._lock, self._batches = threading.Lock(), []
        self._changed, self._ended = threading.Event(), threading.Event()
        if self._hands:
            self._hands.begin(expendable=self._expendable)
        threading.Thread(target=self._run, name="carillon-lease-renewer", daemon=True).start()

    def _run(self) -> None:
        renew_at = time.monotonic() + self._lease.total_seconds() / 3
        while True:
            with self._lock:
                batches = list(self._batches)
            if not batches:
                self._changed.wait()
                self._changed.clear()
                continue
            if self._ended.wait(self._flush_seconds):
                time.sleep(GATHER_SECONDS)
                self._ended.clear()
            if self._hands:
                self._hands.beat(time.monotonic())
            try:
                self._look_after_all(batches)
                if time.monotonic() >= renew_at:
                    renewed = self._renew([batch.hold for batch in batches])
                    renew_at = time.monotonic() + (
                        self._lease.total_seconds() / 3 if renewed else RETRY_SECONDS
                    )
            except Exception:  # one bad write must not end the thread every later batch relies on
                log.exception("lease renewer failed")

    def _look_after_all(self, batches: Sequence[LeasedBatch]) -> None:
        for batch in batches:
            self._look_after(batch)
        self._note_stopping([batch.hold for batch in batches])
        self._interrupt_the_heedless(batches)
        self._hand_back_if_drained(batches)
        self._give_up_if_stuck(batches)

    def make_sure(self, hold: Hold) -> None:
        """Renew the leases of ``hold`` that are still ours; others become ``lost``. Raises the database's errors."""
        self._ask([hold])

    def _renew(self, holds: Sequence[Hold]) -> bool:
        try:
            self._ask(holds)
        except db.TRANSIENT as error:
            db.note_away(error, what="renew")
            count("lease_renewal_failures")
            db.disconnect()
            return False
        return True

    def _ask(self, holds: Sequence[Hold]) -> None:
        waiting = [held for hold in holds for held in hold.waiting()]
        if not waiting:
            return
        sure_until = time.monotonic() + self._lease.total_seconds()
        answer = execution.renew(tokens=[held.token for held in waiting], lease=self._lease)
        count("lease_renewals", times=len(answer))
        for hold in holds:
            hold.sure_until = sure_until
        absolve([held.token for held in waiting if held.token.id not in answer])
        for held in waiting:
            if held.token.id not in answer:
                held.lost = True
                held.ask_to_stop()
                count("leases_lost")
                log.warning("lease lost", trigger_id=str(held.token.id), fence=held.token.fence)
            elif answer[held.token.id]:
                held.ask_to_stop()

    def _note_stopping(self, holds: Sequence[Hold]) -> None:
        """Note it at once: the worker may be killed long before it would have handed back anything."""
        if not draining.begun():
            return
        unnoted = [held for hold in holds for held in hold.waiting() if not held.stopping]
        if unnoted and note_stopping([held.token for held in unnoted]):
            for held in unnoted:
                held.stopping = True

    def _look_after(self, batch: LeasedBatch) -> None:
        hold = batch.hold
        try:
            if hold.lingers and hold.ended_at is not None:
                batch.flush()
                self._release(batch)
            else:
                batch.flush_if_due()
        except Exception as error:  # after any error here the leases of the others must still be renewed
            if isinstance(error, db.TRANSIENT):
                db.note_away(error, what="finish")
            else:
                log.exception("finish failed")
            db.disconnect()
            # Its leases have run out by then: reap decides, and a process that must end need not wait.
            if hold.ended_at is not None and time.monotonic() > hold.ended_at + self._lease.total_seconds():
                self._release(batch)

    def _interrupt_the_heedless(self, batches: Sequence[LeasedBatch]) -> None:
        now = time.monotonic()
        for batch in batches:
            for held in batch.hold.started():
                if held.interrupted_at is not None:
                    due = now > held.interrupted_at + AGAIN_SECONDS
                else:
                    due = held.asked_at is not None and now > held.asked_at + self._grace
                if due:
                    held.interrupted_at = now
                    batch.interrupt(held.token.id)

    def _hand_back_if_drained(self, batches: Sequence[LeasedBatch]) -> None:
        if not (self._expendable and draining.begun()):
            return
        now = time.monotonic()
        self._told_at = self._told_at or now
        waiting = [held for batch in batches for held in batch.hold.waiting()]
        if now < self._told_at + self._drain or not waiting:
            return
        log.warning("hand back", triggers=[str(held.token.id) for held in waiting])
        self._end([batch.hand_back for batch in batches])

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

    def _give_up_if_stuck(self, batches: Sequence[LeasedBatch]) -> None:
        started = [held for batch in batches for held in batch.hold.started()]
        now = time.monotonic()
        stuck = [held for held in started if self._stuck(held, now)]
        if not stuck and not (self._loop_failed() and any(batch.hold.waiting() for batch in batches)):
            return
        log.error("stuck", triggers=[str(held.token.id) for held in started])
        self._end([partial(batch.rescue, len(started) == 1) for batch in batches])

    @staticmethod
    def _end(last_words: Sequence[Callable[[], None]]) -> None:
        """End this process. Triggers that could not be given back are taken again when their leases expire."""
        # Before any trigger is given back: it then runs elsewhere at once, and here until the process has ended.
        send_the_rest()
        for say in last_words:
            # Tried twice: a handler that closed every descriptor closed the connection too.
            if not any(_said(say) for _ in range(2)):
                break
        tell_the_rest()
        os._exit(EXIT_STATUS)


def _said(say: Callable[[], None]) -> bool:
    try:
        say()
    except db.TRANSIENT as error:
        db.note_away(error, what="finish")
        db.disconnect()
        return False
    return True
