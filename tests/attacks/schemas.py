"""A watch over this process: all that it opens or connects to. The watched schemas are ``chaos.load.schemas``'."""

import gc
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

_EVENTS = ("socket.connect", "socket.getaddrinfo", "urllib.Request", "open", "subprocess.Popen", "os.system")
_watches: list["Watch"] = []


@dataclass
class Watch:
    """All that was opened or connected to, and the seconds that it took: of this thread's CPU, and of the clock."""

    events: list[str] = field(default_factory=list)
    cpu_seconds: float = 0.0
    seconds: float = 0.0


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if _watches and event in _EVENTS:
        for watch in _watches:
            watch.events.append(f"{event} {arguments[-1 if event == 'socket.connect' else 0]!r}")


sys.addaudithook(_hear)


@contextmanager
def watched() -> Iterator[Watch]:
    """Watch everything that this process does in the block, by the interpreter's own audit events.

    As in a web process (``processes.collector``), the garbage collector leaves older objects alone: looking through the
    heap of some thousand tests is not a cost of the request.
    """
    gc.freeze()
    watch, cpu, clock = Watch(), time.thread_time(), time.perf_counter()
    _watches.append(watch)
    try:
        yield watch
    finally:
        _watches.remove(watch)
        watch.cpu_seconds = time.thread_time() - cpu
        watch.seconds = time.perf_counter() - clock
        gc.unfreeze()
