"""Wait for a fact instead of sleeping."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
#: A fact is looked at again after so long at first,
EVERY_SECONDS = 0.02
#: then after this share of what it has been waited for, at most so long: looking costs the processes that are to bring
#: it about their time.
SHARE, MAX_EVERY_SECONDS = 0.1, 0.25
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
    every_seconds: float | None = None,
    meanwhile: Callable[[], object] | None = None,
) -> T:
    """The first truthy answer of ``fact``.

    ``every_seconds``: how often it is looked at; by default less and less often (``SHARE``). ``meanwhile`` is called
    before each pause; what it raises ends the wait. Raises ``NotInTime`` when there is no such answer within
    ``timeout`` seconds, times ``patience``; its text names ``what`` was waited for.
    """
    timeout *= patience
    began = time.monotonic()
    while not (answer := fact()):
        waited = time.monotonic() - began
        if waited > timeout:
            raise NotInTime(f"waited {timeout:g} s for {what or fact}")
        if meanwhile:
            meanwhile()
        time.sleep(every_seconds or min(max(EVERY_SECONDS, waited * SHARE), MAX_EVERY_SECONDS))
    return answer
