"""Keeps what a handler prints with its attempt, beside printing it.

Standard output belongs to the process, whoever prints; whose text it is tells the context of the thread or task that
prints, as with log lines (``keeping``). Standard error is left alone: the interpreter writes there what failed while it
collected garbage, in the context of whoever happens to be at work. Not kept either is what goes past ``sys.stdout``: to
its ``buffer``, to the descriptor, or from other programs.
"""

import sys
from collections.abc import Iterable
from typing import Any

from jobs.telemetry.context import current_attempt


class KeepPrints:
    """A text stream that is ``stream`` in all but this: what a handler writes to it is kept as well."""

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
    """From here on, in this process and those forked from it. May be repeated."""
    if sys.stdout is not None and not isinstance(sys.stdout, KeepPrints):
        sys.stdout = KeepPrints(sys.stdout)  # type: ignore[assignment]
