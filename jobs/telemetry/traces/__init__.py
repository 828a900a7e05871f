"""Traces (docs/traces.md): contexts as W3C writes them (``w3c``), and spans for a collector (``spans``).

OpenTelemetry is imported only where spans are recorded: ``recorder`` alone imports it, with the first attempt of a
process. Being off costs one comparison.
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
    """The recorder of this process's spans; None where traces are off, or cannot be had."""
    if not _on:
        return None
    return _recorder or _make()


def send_the_rest() -> None:
    """Hand over the spans that are left, within two seconds: the process is about to end."""
    if _recorder is not None:
        _recorder.close()


def _make() -> "Recorder | None":
    global _on, _recorder
    with _making:
        if _recorder is None and _on:
            try:
                from jobs.telemetry.traces.spans import Recorder  # the one import of OpenTelemetry

                _recorder = Recorder()
            except Exception:  # noqa: BLE001 - no value of its variables, and no trace, may cost a firing
                from jobs.telemetry.lines import get_logger  # which imports this package

                get_logger().exception("traces are off in this process", see="docs/traces.md")
                _on = False
        return _recorder


def _unlock() -> None:
    global _making
    _making = threading.Lock()


# A lock that another thread held at the fork would stay locked in the child.
os.register_at_fork(after_in_child=_unlock)
