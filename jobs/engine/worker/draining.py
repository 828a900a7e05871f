"""Draining: whether this worker was told to stop. Its main process hears of it; its pool's processes share a flag.

The flag is one byte of memory that forked processes have in common. A signal's handler may set it at any point of the
code that it interrupts.

A stop has a time limit. If a main process waits longer for a process of its pool, it ends both, and the log says where
each stood. No work is lost with them that would not wait for its lease anyway.
"""

import faulthandler
import mmap
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from jobs.telemetry import get_logger

log = get_logger()
#: Time for processes to end after all their triggers were handed back.
LAST_SECONDS = 3.0
#: Time for them to write down where they stand.
TELL_SECONDS = 0.5
EXIT_STATUS = 1

_told = mmap.mmap(-1, 1)


def begin() -> None:
    """From now on this process and those forked from it drain. May be called in a signal's handler, and repeated."""
    _told[0] = 1


def begun() -> bool:
    """Whether the worker was told to stop."""
    return _told[0] == 1


def tell_on_signal() -> None:
    """Make SIGUSR1 write to stderr where each thread of this process stands."""
    faulthandler.register(signal.SIGUSR1, all_threads=True)


def end_after(seconds: float, *, children: Callable[[], Iterable[int]]) -> None:
    """End this process and its ``children`` (their pids) after ``seconds``, if it is still there then.

    May be called in a signal's handler.
    """
    threading.Thread(target=_end, args=(seconds, children), name="carillon-last-stop", daemon=True).start()


def _end(seconds: float, children: Callable[[], Iterable[int]]) -> None:
    time.sleep(seconds)
    left = list(children())
    log.error("stop takes too long", seconds=seconds, processes=left)
    faulthandler.dump_traceback(all_threads=True)
    for number, rest in ((signal.SIGUSR1, TELL_SECONDS), (signal.SIGKILL, 0.0)):
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        time.sleep(rest)
    os._exit(EXIT_STATUS)
