"""Hands: what each process of a worker has in hand, in memory that another process can read.

A handler that holds the interpreter (a regular expression, a C extension) stops every thread of its process, the lease
renewer's too. So each process notes its triggers where the ``guard`` reads them without asking. One slot a process, one
entry a trigger. Only its process writes to a slot while it lives, so there are no locks but for taking one. Times are
monotonic seconds, which all processes of a machine share.
"""

import fcntl
import mmap
import os
import struct
import tempfile
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

import psutil

from jobs.store.execution import ClaimToken

#: More processes, or more triggers in one's hand, have their own lease renewer alone.
MAX_PROCESSES = 256
MAX_ENTRIES = 2048
#: pid, when it was started, its renewer's last turn, whether it is expendable
_HEAD = struct.Struct("=qdd?")
#: trigger id, fence, deadline: 0 while its handler does not run; a fence of 0 marks a free entry
_ENTRY = struct.Struct("=16sqd")
_BEAT_AT, _DEADLINE = struct.Struct("=d"), struct.Struct("=d")
_BEAT_OFFSET, _DEADLINE_OFFSET, _ENTRIES_OFFSET = 16, 24, 64
_SLOT_BYTES = _ENTRIES_OFFSET + MAX_ENTRIES * _ENTRY.size
_FREE = bytes(_ENTRY.size)


class Noted(NamedTuple):
    """A trigger in a process's hand. ``deadline``: None while its handler does not run."""

    token: ClaimToken
    deadline: float | None


class Slot(NamedTuple):
    """A process and what it noted."""

    place: int
    pid: int
    started_at: float
    beat_at: float
    expendable: bool
    noted: Sequence[Noted]


class Hands:
    """The memory. Made before the worker's processes are forked; each of them calls ``begin`` for itself."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process lives
        self._file.truncate(MAX_PROCESSES * _SLOT_BYTES)  # pages nobody writes to take no room
        self._memory = mmap.mmap(self._file.fileno(), MAX_PROCESSES * _SLOT_BYTES)
        self._slot = -1
        self._free: list[int] = []

    def begin(self, *, expendable: bool) -> None:
        """Take a slot for this process; without a free one it notes nothing."""
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        try:
            starts = range(0, MAX_PROCESSES * _SLOT_BYTES, _SLOT_BYTES)
            self._slot = next(
                (start for start in starts if not _HEAD.unpack_from(self._memory, start)[0]), -1
            )
            if self._slot >= 0:
                started_at = psutil.Process().create_time()
                _HEAD.pack_into(self._memory, self._slot, os.getpid(), started_at, 0.0, expendable)
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN)
        first = self._slot + _ENTRIES_OFFSET
        self._free = (
            [] if self._slot < 0 else list(range(first, first + MAX_ENTRIES * _ENTRY.size, _ENTRY.size))
        )

    def note(self, token: ClaimToken) -> int:
        """Note that a trigger is in hand. Returns its entry, -1 where there is no room."""
        try:
            entry = self._free.pop()
        except IndexError:
            return -1
        _ENTRY.pack_into(self._memory, entry, token.id.bytes, token.fence, 0.0)
        return entry

    def set_deadline(self, entry: int, deadline: float | None) -> None:
        """Until when its handler may run; None: it does not."""
        if entry >= 0:
            _DEADLINE.pack_into(self._memory, entry + _DEADLINE_OFFSET, deadline or 0.0)

    def drop(self, entry: int) -> None:
        """It is in hand no more."""
        if entry >= 0:
            self._memory[entry : entry + _ENTRY.size] = _FREE
            self._free.append(entry)

    def beat(self, now: float) -> None:
        """The process's own renewer is at work."""
        if self._slot >= 0:
            _BEAT_AT.pack_into(self._memory, self._slot + _BEAT_OFFSET, now)

    def slots(self) -> Iterator[Slot]:
        """Every process that took a slot, dead ones too, with what it has in hand; torn entries are of no trigger."""
        for place in range(0, MAX_PROCESSES * _SLOT_BYTES, _SLOT_BYTES):
            pid, started_at, beat_at, expendable = _HEAD.unpack_from(self._memory, place)
            if pid:
                yield Slot(place, pid, started_at, beat_at, expendable, self._noted(place))

    def _noted(self, place: int) -> list[Noted]:
        first = place + _ENTRIES_OFFSET
        entries = self._memory[first : place + _SLOT_BYTES]
        return [
            Noted(ClaimToken(UUID(bytes=key), fence), deadline or None)
            for key, fence, deadline in _ENTRY.iter_unpack(entries)
            if fence
        ]

    def clear(self, slot: Slot) -> None:
        """Free the slot of a process that is dead."""
        self._memory[slot.place : slot.place + _SLOT_BYTES] = bytes(_SLOT_BYTES)
