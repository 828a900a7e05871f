"""Hands: the triggers that each process of a worker has claimed, in memory that another process can read.

A handler that holds the interpreter (a regular expression, a C extension) stops every thread of its process, the lease
renewer's too. So each process notes its triggers where the ``guard`` reads them without asking. Each process has one
slot, with one entry per trigger. While a process lives, only it writes to its slot, so no locks are needed except to
take a slot. Times are monotonic seconds, which all processes of a machine share.
"""

import fcntl
import mmap
import os
import struct
import tempfile
from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple
from uuid import UUID

import psutil

from jobs.store.execution import ClaimToken

#: Processes beyond these, and triggers of one process beyond these, have only their own lease renewer.
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


def _memory_file() -> BinaryIO:
    """An empty file on no disk, where the system has such files: a write to a page that a slow disk is saving would
    wait for it, and one to a full disk would end the process.
    """
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("carillon-hands"), "r+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)


class Noted(NamedTuple):
    """A trigger that a process has claimed. ``deadline``: None while its handler does not run."""

    token: ClaimToken
    deadline: float | None


class Slot(NamedTuple):
    """A process and the triggers that it noted."""

    place: int
    pid: int
    started_at: float
    beat_at: float
    expendable: bool
    noted: Sequence[Noted]


class Hands:
    """The memory. It is made before the worker's processes are forked; each of them calls ``begin`` for itself."""

    def __init__(self) -> None:
        self._file = _memory_file()
        self._file.truncate(MAX_PROCESSES * _SLOT_BYTES)  # pages without writes take no room
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
        """Note a claimed trigger. Returns its entry, -1 where there is no room."""
        try:
            entry = self._free.pop()
        except IndexError:
            return -1
        _ENTRY.pack_into(self._memory, entry, token.id.bytes, token.fence, 0.0)
        return entry

    def set_deadline(self, entry: int, deadline: float | None) -> None:
        """Note until when the entry's handler may run; None: it does not run."""
        if entry >= 0:
            _DEADLINE.pack_into(self._memory, entry + _DEADLINE_OFFSET, deadline or 0.0)

    def drop(self, entry: int) -> None:
        """Free the entry: this process no longer holds the trigger."""
        if entry >= 0:
            self._memory[entry : entry + _ENTRY.size] = _FREE
            self._free.append(entry)

    def beat(self, now: float) -> None:
        """Note that the process's own renewer is at work."""
        if self._slot >= 0:
            _BEAT_AT.pack_into(self._memory, self._slot + _BEAT_OFFSET, now)

    def slots(self) -> Iterator[Slot]:
        """Every process that took a slot, dead ones too, with its claimed triggers; torn entries are of no trigger."""
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
