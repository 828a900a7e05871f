"""Crash points: named places at which a test lets a real process die, so that "killed just here" is not left to luck.

Armed only when ``CARILLON_CRASH_POINTS`` names a directory as the process starts, which nothing but tests does. Whoever
then passes a point that has a file of its name there takes the file and dies as by ``kill -9``: one process a file,
however many pass at once. Unarmed, a point is a call of an empty function.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path

#: In the order in which a firing meets them.
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
#: Where firings meet them that begin runs of workflows.
RUN_POINTS = ("begin_run.after_commit",)
_directory = os.environ.get("CARILLON_CRASH_POINTS", "")


def _die_if_told(name: str) -> None:
    try:
        (Path(_directory) / name).unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def _go_on(name: str) -> None:
    """Nobody armed this process."""


crash_point: Callable[[str], None] = _die_if_told if _directory else _go_on
