"""Runs of the load's workflows as a sound system would leave them, and the means to break them in one place."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from chaos.history import Brought, Record, RunSeen, Started, Steered
from tests.chaos.histories import T0, a_job, a_run
from tests.chaos.tales import BEGINS, GOOD, INNER, STORIES, TALES, TIMED, Story, Tale
from tests.chaos.telling import ToldRun, a_workflow, executions

#: The number of the run whose list has five items.
NUMBERS = {"listed": 4}
_ALL_TALES = {**TALES, **INNER}


def a_run_of(
    name: str,
    *,
    number: int = 0,
    begins: float = BEGINS,
    story: Story | None = None,
    tales: list[Tale] | None = None,
) -> list[Record]:
    """One run of a workflow of the load, with the API's answers about it and with both readings of the ledger."""
    told = tales or (
        [Tale(story=story)] if story is not None else _ALL_TALES.get(name) or [Tale(story=STORIES[name])]
    )
    return ToldRun(name, number or NUMBERS.get(name, 1), begins).records(told)


def runs_of_schedule(name: str, *, without: Sequence[float] = ()) -> list[Record]:
    """Each run of a workflow that a schedule begins, except those of these instants."""
    found: list[Record] = []
    for nth, (begins, late) in enumerate(TIMED[name]):
        if begins in without:
            continue
        tale = Tale(story={task: [(at + late, GOOD)] for task, [(at, _)] in TALES[name][0].story.items()})
        run = ToldRun(name, 0, begins, run_id=f"{name}{nth}")
        found += run.records([tale])[0 if not found else 1 :]
    return found


def of_task(unit: str) -> Callable[[Record], bool]:
    """Whether a line is the start of an execution of that task, or of that item."""
    return lambda line: isinstance(line, Started) and line.key.endswith(f":{unit}")


def seen(records: list[Record], *, reading: int | None = None, of: str = "", **changes: Any) -> list[Record]:
    """The history with something else in the ledger's last words.

    The change is in one ``reading`` or in both, of all runs or ``of`` one. A change of a task is one of its entry.
    """
    return [
        _changed(line, changes)
        if isinstance(line, RunSeen)
        and (line.reading == reading if reading is not None else line.reading > 0)
        and of in ("", line.run_id)
        else line
        for line in records
    ]


def _changed(line: RunSeen, changes: Mapping[str, Any]) -> RunSeen:
    tasks = {task: each | changes.get(task, {}) for task, each in line.tasks.items()}
    return replace(
        line, tasks=tasks, **{key: value for key, value in changes.items() if key not in line.tasks}
    )


def item(records: list[Record], task: str, nth: int, **changes: Any) -> list[Record]:
    """The history with something else in the ledger's last words of an item of a map."""
    last = [line for line in records if isinstance(line, RunSeen)][-1]
    items = [
        entry | changes if place == nth else entry for place, entry in enumerate(last.tasks[task]["items"])
    ]
    return seen(records, **{task: {"items": items}})


def moment(seconds: float) -> datetime:
    """So many seconds after the start."""
    return datetime.fromtimestamp(T0 + seconds, UTC)


def tales(name: str, nth: int = 0, *, drop: tuple[str, ...] = (), **changes: Any) -> list[Tale]:
    """The tales of a workflow, one of them told otherwise.

    ``changes``: executions (``each_3``: of ``each:3``), or a field of ``Tale``. ``drop``: units that were not executed.
    """
    fields = {key: changes.pop(key) for key in list(changes) if key in Tale.__dataclass_fields__}
    told = list(_ALL_TALES[name])
    story = {unit: found for unit, found in told[nth].story.items() if unit not in drop}
    story |= {_unit(key): found for key, found in changes.items()}
    told[nth] = replace(told[nth], **{"story": story, **fields})
    return told


def _unit(key: str) -> str:
    task, _, nth = key.rpartition("_")
    return f"{task}:{nth}" if nth.isdigit() else key


def carrying(records: list[Record], unit: str, **values: Any) -> list[Record]:
    """The history in which the requests of a task carried something else."""
    numbers = {line.delivery for line in records if of_task(unit)(line)}
    return [
        replace(line, values=line.values | values)
        if isinstance(line, Brought) and line.delivery in numbers
        else line
        for line in records
    ]


def called(records: list[Record], verb: str, **changes: Any) -> list[Record]:
    """The history in which a call was another one; without changes: in which it was not made."""
    return [
        replace(line, **changes) if isinstance(line, Steered) and line.verb == verb else line
        for line in records
        if changes or not (isinstance(line, Steered) and line.verb == verb)
    ]


def again(
    name: str, unit: str, late: float, *, number: int = 1, fence: int = 9, **facts: Any
) -> list[Record]:
    """One more execution of a task."""
    at = moment(BEGINS)
    return executions(
        a_workflow(name), unit, f"run{number}", at, [(late, 200)], fence=fence, attempt=9, **facts
    )


def unread(line: Record) -> bool:
    """Whether the line is one of the ledger's last words."""
    return isinstance(line, RunSeen) and line.reading > 0


def history(name: str, *, more: Any = (), **how: Any) -> list[Record]:
    """A run beside a job, and the faults of ``more``; for a workflow that has a schedule, all of its runs."""
    found = runs_of_schedule(name, **how) if name in TIMED else a_run_of(name, **how)
    return a_run(a_job(), more=[*found, *more])
