"""Wait for a fact instead of sleeping."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
#: At first a fact is looked at again after this long.
EVERY_SECONDS = 0.02
#: Later it is looked at again after this share of the time waited so far, at most after this long: looking takes time
#: from the processes that must bring the fact about.
SHARE, MAX_EVERY_SECONDS = 0.1, 0.25
#: The factor by which all waits are longer. A wait ends with its fact, so only a failure takes longer. Tests raise it,
#: because they must pass on a machine that other work loads.
patience = 1.0


class NotInTime(AssertionError):
    """The fact that was waited for did not come about. In a test, a failure."""


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
    before each pause; an exception from it ends the wait. Raises ``NotInTime`` when there is no such answer within
    ``timeout`` seconds, times ``patience``; its text has ``what``, the thing that was waited for.
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
