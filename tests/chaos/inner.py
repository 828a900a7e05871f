"""Means to break runs with inner runs in one place."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from chaos.history import InnerRun, Record, RunSeen, Started
from chaos.history.workflows import OF_RUN
from tests.chaos.histories import T0
from tests.chaos.runs import seen
from tests.chaos.tales import BEGINS

MID, DEEP = "run1.mid0", "run1.mid0.deep0"
FIRST, SECOND, THIRD = "run1.inner0", "run1.inner1", "run1.inner2"


def of_run(run_id: str) -> Callable[[Record], bool]:
    """Whether a line tells of that run, and of none within it."""
    return lambda line: (
        (isinstance(line, RunSeen | InnerRun) and line.run_id == run_id)
        or (isinstance(line, Started) and line.key.startswith(f"{OF_RUN}{run_id}:"))
    )


def of_runs(run_id: str) -> Callable[[Record], bool]:
    """The same, with those within it."""
    within = f"{run_id}."
    return lambda line: (
        of_run(run_id)(line)
        or (isinstance(line, RunSeen | InnerRun) and line.run_id.startswith(within))
        or (isinstance(line, Started) and line.key.startswith(f"{OF_RUN}{within}"))
    )


def twin(records: list[Record], run_id: str) -> list[Record]:
    """A second run beside one, as if the same start had begun it once more. It executes nothing."""
    lines = [line for line in records if isinstance(line, RunSeen | InnerRun) and line.run_id == run_id]
    return [replace(line, run_id=f"{run_id}.twin") for line in lines]


def changed(records: list[Record], run_id: str, **changes: Any) -> list[Record]:
    """The history in which the ledger tells something else of a run: a field, or with ``change_`` of a task's entry."""
    return seen(records, of=run_id, **changes)


def given(records: list[Record], run_id: str, **values: Any) -> list[Record]:
    """The history in which a run began with something else."""
    return [
        replace(line, input=line.input | values)
        if isinstance(line, RunSeen) and line.run_id == run_id
        else line
        for line in records
    ]


def started_as(records: list[Record], run_id: str, **changes: Any) -> list[Record]:
    """The history in which another start began a run."""
    return [
        replace(line, **changes) if isinstance(line, InnerRun) and line.run_id == run_id else line
        for line in records
    ]


def at(seconds: float) -> float:
    """So many seconds after the outer run began."""
    return T0 + BEGINS + seconds
