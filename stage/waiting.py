"""Wait for a fact instead of sleeping."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
EVERY_SECONDS = 0.02
#: By how much all waits are longer. A wait ends with its fact, so only a failure takes the longer for it. Tests raise
#: it: they are to pass on a machine that other work loads.
patience = 1.0


class NotInTime(AssertionError):
    """What was waited for did not come about. In a test, a failure."""


def wait_until(
    fact: Callable[[], T],
    timeout: float = 15.0,
    *,
    what: str = "",
    every_seconds: float = EVERY_SECONDS,
    meanwhile: Callable[[], object] | None = None,
) -> T:
    """The first truthy answer of ``fact``.

    ``meanwhile`` is called before each pause; what it raises ends the wait. Raises ``NotInTime`` when there
    is no such answer within ``timeout`` seconds, times ``patience``; its text names ``what`` was waited for.
    """
    timeout *= patience
    deadline = time.monotonic() + timeout
    while not (answer := fact()):
        if time.monotonic() > deadline:
            raise NotInTime(f"waited {timeout:g} s for {what or fact}")
        if meanwhile:
            meanwhile()
        time.sleep(every_seconds)
    return answer
