"""The output of a handler while it runs, kept in bounded room: if it is too long, its beginning and its end.

Keeps true: for any output, and from any number of threads, an ``Output`` takes a bounded amount of memory. Its result
can be stored: ``MAX_BYTES`` of UTF-8 at most, without the control characters that a terminal obeys.
"""

import re
import threading
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, NamedTuple

MAX_BYTES = 65_536
#: Bytes kept of the end where something is left out. The beginning has the rest, except the line that says so.
_TAIL_BYTES = 16_384
_HEAD_BYTES = MAX_BYTES - _TAIL_BYTES - 64
#: A terminal's sequences, such as those that colour a text; then other controls, except tab and line break.
_SEQUENCES = re.compile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b\n]*(?:\x07|\x1b\\\\)?|[@-Z\\\\^_])")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


class Said(NamedTuple):
    """The kept output: ``head`` is all of it, or ``head`` and ``tail`` stood before and behind ``left_out`` bytes."""

    head: str
    left_out: int = 0
    tail: str = ""


class Output:
    """The output of one attempt, from any thread. Each attempt has one: while it is empty, it holds no room.

    ``lock``: a lock that it shares with others, as the outputs of a batch do. The lock must let its holder in again: a
    time-out strikes the thread that holds it, and that thread then closes the output.
    """

    __slots__ = ("_closed", "_head", "_lock", "_rest", "_tail")

    def __init__(self, lock: AbstractContextManager[Any] | None = None) -> None:
        self._lock = lock or threading.RLock()
        self._head: bytearray | None = None
        self._tail = bytearray()
        #: Bytes of output behind the head.
        self._rest = 0
        self._closed = False

    def line(self, text: str) -> None:
        """Keep a line, with the time of day (UTC) before it. Nothing once it is closed."""
        self.keep(f"{datetime.now(UTC).isoformat(timespec='milliseconds')[11:23]}Z {text}\n")

    def keep(self, text: str) -> None:
        """Keep a text as it stands. Nothing once it is closed."""
        raw = text.encode(errors="replace")
        with self._lock:
            if self._closed:
                return
            if self._head is None:
                self._head = bytearray()
            room = _HEAD_BYTES - len(self._head)
            if room > 0:
                self._head += raw[:room]
            if len(raw) > room:
                self._rest += len(raw) - max(0, room)
                self._tail += raw[max(room, len(raw) - _TAIL_BYTES) :]
                if len(self._tail) > 2 * _TAIL_BYTES:
                    del self._tail[:-_TAIL_BYTES]

    def close(self) -> Said | None:
        """The output so far; None: there was none. Later output is dropped."""
        with self._lock:
            self._closed = True
            head, tail, rest = self._head, self._tail, self._rest
            self._head, self._tail, self._rest = None, bytearray(), 0
        return None if head is None else _said(bytes(head), bytes(tail), rest)


def _said(head: bytes, tail: bytes, rest: int) -> Said:
    if rest <= _TAIL_BYTES:
        return Said((head + tail[len(tail) - rest :]).decode(errors="ignore"))
    tail = tail[-_TAIL_BYTES:]
    return Said(head.decode(errors="ignore"), rest - len(tail), tail.decode(errors="ignore"))


def bounded(text: str) -> Said | None:
    """The part of ``text`` that is kept if it comes at once; None for an empty text."""
    output = Output()
    if text:
        output.keep(text)
    return output.close()


def cleaned(text: str) -> str:
    """``text`` without a terminal's sequences and controls; a carriage return is a line break."""
    text = _SEQUENCES.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROLS.sub("", text)


def stored(said: Said | None) -> str | None:
    """``said`` as it is stored: cleaned, with a line that tells how much was left out; None if nothing is left."""
    if said is None:
        return None
    head, tail, left_out = cleaned(said.head), cleaned(said.tail), said.left_out
    if not left_out and (again := bounded(head)):
        # The text put in place of secrets may have made it longer.
        head, left_out, tail = again
    if not left_out:
        return head or None
    raw_head, raw_tail = head.encode(), tail.encode()
    left_out += max(0, len(raw_head) - _HEAD_BYTES) + max(0, len(raw_tail) - _TAIL_BYTES)
    before = raw_head[:_HEAD_BYTES].decode(errors="ignore")
    return f"{before}\n… {left_out:,} bytes left out …\n{raw_tail[-_TAIL_BYTES:].decode(errors='ignore')}"
