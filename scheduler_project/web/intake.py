"""Tells when the bytes of a connection are a whole request: a head, and the body that the head announces.

This decides only when a thread takes the request up. gunicorn parses the same bytes again, by its own stricter rules,
and gets no more bytes. A request that is called whole too early here is refused there, and blocks no thread.
"""

import re

#: At most so many bytes of a head or body are gathered, more than are ever accepted; the rest is never read.
MAX_HEAD_BYTES = 64 * 1024
MAX_BODY_BYTES = 4 * 1024 * 1024
_END = b"\r\n\r\n"
_CONTINUE = re.compile(rb"\r\nexpect:[ \t]*100-continue[ \t]*\r\n", re.IGNORECASE)
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,18})[ \t]*\r\n", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:", re.IGNORECASE)
_SIZE = re.compile(rb"[0-9a-fA-F]{1,15}(?=[; \t]|$)")


class Intake:
    """The bytes of one request so far, and maybe of the next. ``feed`` and ask ``whole``."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._body_at: int | None = None
        self._ends_at: int | None = None
        self._chunk_at: int | None = None
        self.whole = False

    def __len__(self) -> int:
        return len(self._bytes)

    @property
    def head_is_whole(self) -> bool:
        return self._body_at is not None

    @property
    def awaits_leave(self) -> bool:
        """Whether the sender holds its body back until it is told to go on."""
        return not self.whole and self._body_at is not None and _CONTINUE.search(self._head()) is not None

    @property
    def first_line(self) -> bytes:
        return bytes(self._bytes[: max(0, self._bytes.find(b"\r\n"))])

    @property
    def head(self) -> bytes:
        """The head, once it is whole; before that, nothing."""
        return self._head() if self._body_at is not None else b""

    def feed(self, data: bytes) -> None:
        seen = len(self._bytes)
        self._bytes += data
        if self._body_at is None:
            self._find_head(max(0, seen - len(_END)))
        if self._body_at is not None and not self.whole:
            self.whole = self._body_is_whole() or len(self._bytes) >= self._body_at + MAX_BODY_BYTES

    def take(self) -> bytes:
        """All bytes; the intake is empty afterwards, as for a new request.

        The header that asks for ``100 Continue`` is left out: it has been answered, and gunicorn would answer it again.
        """
        at = self._body_at or 0
        taken = _CONTINUE.sub(b"\r\n", bytes(self._bytes[:at]), count=1) + bytes(self._bytes[at:])
        self.__init__()  # type: ignore[misc]
        return taken

    def _find_head(self, start: int) -> None:
        end = self._bytes.find(_END, start)
        if end < 0:
            self.whole = len(self._bytes) > MAX_HEAD_BYTES
            return
        self._body_at = end + len(_END)
        head = self._head()
        if _CHUNKED.search(head):
            self._chunk_at = self._body_at
        else:
            length = _LENGTH.search(head)
            announced = int(length[1]) if length else 0
            self._ends_at = self._body_at + min(announced, MAX_BODY_BYTES)

    def _head(self) -> bytes:
        return bytes(self._bytes[: self._body_at])

    def _body_is_whole(self) -> bool:
        if self._ends_at is not None:
            return len(self._bytes) >= self._ends_at
        return self._chunks_are_whole()

    def _chunks_are_whole(self) -> bool:
        """Whether the last chunk has come. Also true where a chunk's size is malformed: no further byte mends that."""
        while True:
            at = self._chunk_at or 0
            line_end = self._bytes.find(b"\r\n", at)
            if line_end < 0:
                return len(self._bytes) - at > MAX_HEAD_BYTES
            size = _SIZE.match(bytes(self._bytes[at:line_end]))
            if size is None:
                return True
            length = int(size[0], 16)
            if length == 0:
                ended = self._bytes.find(_END, line_end, line_end + MAX_HEAD_BYTES) >= 0
                return ended or len(self._bytes) > line_end + MAX_HEAD_BYTES
            if len(self._bytes) < line_end + 2 + length + 2:
                return False
            self._chunk_at = line_end + 2 + length + 2
