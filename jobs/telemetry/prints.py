"""Keeps a handler's prints with its attempt, and also prints them.

Standard output belongs to the whole process. The context of the thread or task that prints tells which attempt a text
belongs to, as with log lines (``keeping``). Standard error is left alone: the interpreter writes there the failures of
garbage collection, in the context of any thread that happens to be at work. Text that goes past ``sys.stdout`` is not
kept either: to its ``buffer``, to the descriptor, or from other programs.
"""

import sys
from collections.abc import Iterable
from typing import Any

from jobs.telemetry.context import current_attempt


class KeepPrints:
    """A text stream that behaves as ``stream`` and also keeps the text that a handler writes to it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        attempt = current_attempt()
        if attempt is not None and isinstance(text, str):
            attempt.output.keep(text)
        written: int = self._stream.write(text)
        return written

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def keep_prints() -> None:
    """Keep prints from here on, in this process and those forked from it. May be repeated."""
    if sys.stdout is not None and not isinstance(sys.stdout, KeepPrints):
        sys.stdout = KeepPrints(sys.stdout)  # type: ignore[assignment]
