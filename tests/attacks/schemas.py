"""A watch over what this process opens and connects to. The schemas it watches are ``chaos.load.schemas``'."""

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
    """What was opened or connected to, and how long it took this thread's processor and everybody's clock."""

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
    """Everything this process does within, by the interpreter's own audit events.

    As in a web process (``processes.collector``), the collector leaves alone what there was before: looking through the
    heap of some thousand tests is not what a request costs.
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
