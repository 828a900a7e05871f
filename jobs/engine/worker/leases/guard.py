"""The guard: keeps the leases, and the time limits, of processes whose own renewer has fallen silent.

It runs in another interpreter than the handlers: in the main process of a prefork worker, or beside a worker of threads
or a solo worker. While a process's renewer beats, the guard leaves the process alone. If a process is silent but alive,
a handler holds its interpreter. The guard renews its leases, so the handler runs once and to its end. If the handler is
past its deadline and a grace, or was asked to stop more than two graces ago, the guard kills the process. Then it gives
up the triggers that the process had claimed, as the process would have done itself. A process that is dead, or stopped
by a signal, keeps nothing: its leases run out, and other workers go on.

The guard connects to the database only when it has something to write. Without the guard, a process that falls silent
loses its leases.
"""

import os
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

import psutil

from jobs.engine.worker import draining
from jobs.engine.worker.leases.hands import Hands, Noted, Slot
from jobs.engine.worker.leases.release import abandoned, give_up, note_stopping
from jobs.engine.worker.leases.renewer import NOTICE_SECONDS, RETRY_SECONDS
from jobs.store import db, execution, reap
from jobs.telemetry import get_logger

log = get_logger()
#: A killed process is gone after this long, or the kernel cannot end it at present.
GONE_SECONDS = 5.0
_GONE = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
_STOPPED = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)


@dataclass(slots=True)
class _Watch:
    """A process that is silent. ``asked_at``: by trigger, when it was first known that its handler must stop."""

    renew_at: float = 0.0
    asked_at: dict[UUID, float] = field(default_factory=dict)


class Guard:
    """``turn`` looks after every process in ``hands``; ``grace`` is the renewer's."""

    def __init__(self, hands: Hands, *, lease: timedelta, grace: timedelta) -> None:
        self._hands = hands
        self._lease = lease
        self._grace = grace.total_seconds()
        # The renewer renews at a third of the lease, so the first renewal here comes well before its end.
        self.turn_seconds = min(1.0, lease.total_seconds() / 12)
        self._silent_seconds = min(5.0, lease.total_seconds() / 6)
        self._watched: dict[int, _Watch] = {}

    def start(self) -> None:
        """Guard from a thread of this process, which must not run handlers itself."""
        threading.Thread(target=self._run, name="carillon-guard", daemon=True).start()

    def start_beside(self) -> None:
        """Guard from a process of its own, until this one has ended. Call it before there are threads."""
        parent = os.getpid()
        if os.fork():
            return
        try:
            # The guard ends with its parent, however the parent ends. Signals to the whole group are for the parent.
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            while os.getppid() == parent:
                self._step()
            self._step()
        finally:
            os._exit(0)

    def _run(self) -> None:
        while True:
            self._step()

    def _step(self) -> None:
        time.sleep(self.turn_seconds)
        try:
            self.turn()
        except Exception:  # one bad process must not end the guard of the others
            log.exception("guard failed")

    def turn(self) -> None:
        """Look after each process once."""
        for slot in self._hands.slots():
            process = _process_of(slot)
            if process is None:
                self._watched.pop(slot.pid, None)
                self._hands.clear(slot)
            elif not self._is_silent(slot) or process.status() in _STOPPED:
                self._watched.pop(slot.pid, None)
            else:
                self._look_after(slot, process, self._watched.setdefault(slot.pid, _Watch()))

    def _is_silent(self, slot: Slot) -> bool:
        return bool(slot.noted) and time.monotonic() > slot.beat_at + self._silent_seconds

    def _look_after(self, slot: Slot, process: psutil.Process, watch: _Watch) -> None:
        try:
            if time.monotonic() >= watch.renew_at:
                self._renew(slot, watch)
            started = [noted for noted in slot.noted if noted.deadline]
            # Calls that linger beside a handler that holds the interpreter get no turn, and so are overdue. While that
            # handler may go on, its process is not killed: that would run all of them again.
            if started and all(self._overdue(noted, slot, watch) for noted in started):
                self._end(slot, process, watch, alone=len(started) == 1)
        except db.TRANSIENT as error:
            db.note_away(error, what="guard")
            watch.renew_at = time.monotonic() + RETRY_SECONDS
        finally:
            db.disconnect()  # a process that is forked meanwhile inherits none

    def _renew(self, slot: Slot, watch: _Watch) -> None:
        if not watch.renew_at:
            log.warning("silent", pid=slot.pid, triggers=[str(noted.token.id) for noted in slot.noted])
        answer = execution.renew(tokens=[noted.token for noted in slot.noted], lease=self._lease)
        if draining.begun():
            note_stopping([noted.token for noted in slot.noted])
        now = time.monotonic()
        watch.renew_at = now + self._lease.total_seconds() / 3
        for noted in slot.noted:
            if answer.get(noted.token.id, True):  # cancelled, or not ours any more
                watch.asked_at.setdefault(noted.token.id, now)

    def _overdue(self, noted: Noted, slot: Slot, watch: _Watch) -> bool:
        now = time.monotonic()
        # Later than its own renewer would have said so: that renewer is perhaps not silent for good.
        if noted.deadline and now > noted.deadline + self._grace + 2 * NOTICE_SECONDS:
            return True
        asked_at = watch.asked_at.get(noted.token.id)
        return slot.expendable and asked_at is not None and now > asked_at + 2 * self._grace + NOTICE_SECONDS

    def _end(self, slot: Slot, process: psutil.Process, watch: _Watch, *, alone: bool) -> None:
        log.error("stuck", pid=slot.pid, triggers=[str(noted.token.id) for noted in slot.noted])
        with suppress(psutil.NoSuchProcess):
            process.kill()
        _wait_until_gone(slot)
        started = {noted.token.id for noted in slot.noted if noted.deadline}
        give_up(
            [
                abandoned(row, started=row.id in started, alone=alone, cancelled=row.id in watch.asked_at)
                for row in reap.in_hand([noted.token for noted in slot.noted])
            ]
        )


def _process_of(slot: Slot) -> psutil.Process | None:
    """The living process that took the slot, and not another process that has its pid now."""
    try:
        process = psutil.Process(slot.pid)
        same = process.create_time() == slot.started_at
        return process if same and process.status() not in _GONE else None
    except psutil.NoSuchProcess:
        return None


def _wait_until_gone(slot: Slot) -> None:
    give_up_at = time.monotonic() + GONE_SECONDS
    while _process_of(slot) is not None and time.monotonic() < give_up_at:
        time.sleep(0.01)
