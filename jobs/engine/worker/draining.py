"""Draining: whether this worker was told to stop. Its main process hears of it; what its pool's processes share knows.

One byte of memory that forked processes have in common: it may be set by a signal's handler, whatever that interrupts.
"""

import mmap

_told = mmap.mmap(-1, 1)


def begin() -> None:
    """From now on this process and those forked from it drain. May be called in a signal's handler, and repeated."""
    _told[0] = 1


def begun() -> bool:
    """Whether the worker was told to stop."""
    return _told[0] == 1
