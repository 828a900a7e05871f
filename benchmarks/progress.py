"""Shows what is going on: on one line that changes, in a terminal; otherwise now and then on a line of its own."""

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.status import Status

SECONDS_BETWEEN_LINES = 10.0


class Progress:
    """Call it with what is going on. Everything goes to the standard error stream."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._status: Status | None = console.status("starting") if console.is_terminal else None
        self._said_at = time.monotonic()

    def __enter__(self) -> Self:
        if self._status:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._status:
            self._status.stop()

    def __call__(self, text: str) -> None:
        if self._status:
            self._status.update(text)
        elif time.monotonic() - self._said_at >= SECONDS_BETWEEN_LINES:
            self._said_at = time.monotonic()
            print(text, file=sys.stderr, flush=True)
