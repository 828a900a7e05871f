"""Crash points: named places at which a test lets a real process die, so that "killed just here" is not left to luck.

A process is armed only if ``CARILLON_CRASH_POINTS`` names a directory when it starts; only tests do that. An armed
process that passes a point with a file of its name there takes the file and dies as by ``kill -9``: one process a file,
however many pass at once. A file ``<point>@<job type>`` is for a process that passes the point with triggers of that
type. Unarmed, a point is a call of an empty function.
"""

import os
import signal
from collections.abc import Iterable
from typing import Protocol

#: The points, in the order in which a firing meets them.
POINTS = (
    "materialize.before_commit",
    "materialize.after_commit",
    "dispatch.before_commit",
    "dispatch.after_commit",
    "dispatch.after_publish",
    "claim.before_commit",
    "claim.after_commit",
    "finish.before_commit",
    "finish.after_commit",
    "finish.after_publish",
)
#: The points of firings that begin runs of workflows.
RUN_POINTS = ("begin_run.after_commit",)
_directory = os.environ.get("CARILLON_CRASH_POINTS", "")


class CrashPoint(Protocol):
    def __call__(self, name: str, job_types: Iterable[str] = (), /) -> None:
        """Pass the point of this name, with triggers of these types. Only armed processes look at the types."""


def _die_if_told(name: str, job_types: Iterable[str] = (), /) -> None:
    # Triggers that pass together die together, so every file that is for one of them is taken.
    taken = [_take(file) for file in (name, *(f"{name}@{job_type}" for job_type in {*job_types}))]
    if any(taken):
        os.kill(os.getpid(), signal.SIGKILL)


def _take(file: str) -> bool:
    try:
        os.unlink(os.path.join(_directory, file))  # pathlib would be most of a point's cost
    except FileNotFoundError:
        return False
    return True


def _go_on(name: str, job_types: Iterable[str] = (), /) -> None:
    """Do nothing: this process is not armed."""


crash_point: CrashPoint = _die_if_told if _directory else _go_on
