"""Traces (docs/traces.md): contexts as W3C writes them (``w3c``), and spans for a collector (``spans``).

Nothing of OpenTelemetry is imported where no spans are recorded: ``recorder`` alone brings it in, with the first
attempt of a process. Being off costs one comparison.
"""

import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobs.telemetry.traces.spans import Recorder

_on = False
_recorder: "Recorder | None" = None
_making = threading.Lock()


def traces_config(*, on: bool) -> None:
    """Whether this process, and those forked from it, record spans. May be repeated."""
    global _on
    _on = on


def recorder() -> "Recorder | None":
    """Takes the spans of this process; None where traces are off."""
    if not _on:
        return None
    return _recorder or _make()


def send_the_rest() -> None:
    """Hand over what spans are left, within two seconds: the process is about to end."""
    if _recorder is not None:
        _recorder.close()


def _make() -> "Recorder":
    global _recorder
    from jobs.telemetry.traces.spans import Recorder  # the one import of OpenTelemetry

    with _making:
        if _recorder is None:
            _recorder = Recorder()
        return _recorder


def _unlock() -> None:
    global _making
    _making = threading.Lock()


# A lock that another thread held at the fork would stay locked in the child.
os.register_at_fork(after_in_child=_unlock)
