"""One terminal for many processes: whole lines, each after the coloured name of its process.

Bytes pass through unchanged; at thousands of log lines a second any further processing would cost a core. A
terminal that has gone away is reported once, by ``lost``, and never raises.
"""

import os
import sys
from typing import BinaryIO

# Readable on dark and light backgrounds; red is kept for the supervisor's bad news.
COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)
MAX_LINE_BYTES = 65_536


class Console:
    """Prefixed output to ``stream`` (standard output when omitted)."""

    def __init__(self, *, names: list[str], stream: BinaryIO | None = None) -> None:
        self.stream = stream or sys.stdout.buffer
        self.lost = False
        coloured = self.stream.isatty() and "NO_COLOR" not in os.environ
        width = max(map(len, names), default=0)
        self._prefixes = {
            name: f"\x1b[{COLOURS[i % len(COLOURS)]}m{name:<{width}} |\x1b[0m ".encode()
            if coloured
            else f"{name:<{width}} | ".encode()
            for i, name in enumerate(names)
        }
        self._unfinished: dict[str, bytes] = {}

    def feed(self, name: str, data: bytes) -> None:
        """Print the lines that ``data`` completes; keep the rest until it is finished."""
        *lines, rest = (self._unfinished.pop(name, b"") + data).split(b"\n")
        if len(rest) > MAX_LINE_BYTES:
            lines.append(rest)
        elif rest:
            self._unfinished[name] = rest
        if lines:
            prefix = self._prefixes[name]
            self._write(b"".join(prefix + line + b"\n" for line in lines))

    def finish(self, name: str) -> None:
        """Print the line that ``name`` left unfinished."""
        if name in self._unfinished:
            self.feed(name, b"\n")

    def say(self, name: str, text: str) -> None:
        self.feed(name, f"{text}\n".encode())

    def _write(self, data: bytes) -> None:
        if self.lost:
            return
        try:
            self.stream.write(data)
            self.stream.flush()
        except OSError:
            self.lost = True
            # The buffer keeps the bytes that could not be written, and Python would fail on them again at exit.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.stream.fileno())
            os.close(nowhere)
