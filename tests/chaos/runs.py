"""Runs of the load's workflows as a sound system would leave them, and the means to break them in one place."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from chaos.history import Brought, Effect, Ended, Record, RunAsked, RunSeen, Started, Steered, WorkflowMade
from chaos.history.workflows import OF_RUN
from chaos.load.workflows import workflow_plans
from tests.chaos.histories import CLOSED, START, T0, a_job, a_run, executed
from tests.chaos.tales import BEGINS, GOOD, STORIES, TALES, TIMED, Story, Tale

PLANS = {plan.name: plan for plan in workflow_plans()}
#: That of the run whose list has five items.
NUMBERS = {"listed": 4}


def a_workflow(name: str) -> WorkflowMade:
    return PLANS[name].made({"id": f"{name}-id", "created_at": START.isoformat()}, tenant="acme", at=T0)


def a_run_of(
    name: str,
    *,
    number: int = 0,
    begins: float = BEGINS,
    story: Story | None = None,
    tales: list[Tale] | None = None,
) -> list[Record]:
    """One run of a workflow of the load, with what the API said of it and with both readings of the ledger."""
    told = tales or (
        [Tale(story=story)] if story is not None else TALES.get(name) or [Tale(story=STORIES[name])]
    )
    return _Run(name, number or NUMBERS.get(name, 1), begins).records(told)


def runs_of_schedule(name: str, *, without: Sequence[float] = ()) -> list[Record]:
    """Each run of a workflow that a schedule begins, but for those of these instants."""
    found: list[Record] = []
    for nth, (begins, late) in enumerate(TIMED[name]):
        if begins in without:
            continue
        tale = Tale(story={task: [(at + late, GOOD)] for task, [(at, _)] in TALES[name][0].story.items()})
        run = _Run(name, 0, begins, run_id=f"{name}{nth}")
        found += run.records([tale])[0 if not found else 1 :]
    return found


class _Run:
    """Tells a run: the lines of its calls and executions, then what the ledger says."""

    def __init__(self, name: str, number: int, begins: float, *, run_id: str = "") -> None:
        self.name, self.number, self.workflow = name, number, a_workflow(name)
        self.run_id, self.at = run_id or f"run{number}", START + timedelta(seconds=begins)
        self.begins_at = self.at.timestamp()
        self.input = PLANS[name].input(number, now=self.begins_at)
        self.attempts: dict[str, int] = {}
        self.results: dict[str, Any] = {}
        self.entries: dict[str, dict[str, Any]] = {}

    def records(self, tales: Sequence[Tale]) -> list[Record]:
        lines: list[Record] = [self.workflow, *([] if self.workflow.schedule else [self._asked()])]
        # A run that waits for another one is made when that has ended.
        first = min(late for found in tales[0].story.values() for late, _ in found)
        self.created_at = self.begins_at + first - 0.05
        for nth, tale in enumerate(tales):
            lines += self._executions(tale)
            for verb, late, task in tale.calls:
                lines.append(self._call(verb, late, task=task))
            seen = self._seen(tale)
            if nth < len(tales) - 1:
                assert tale.retry
                at = self.begins_at + tale.retry[0]
                lines += [
                    replace(seen, reading=0, at=at - 0.05),
                    self._call("retry", tale.retry[0], **tale.retry[1]),
                ]
        return [*lines, replace(seen, reading=1), seen]

    def _asked(self) -> RunAsked:
        return RunAsked(
            workflow_id=self.workflow.workflow_id,
            number=self.number,
            requested_at=self.begins_at - 0.01,
            acknowledged_at=self.begins_at + 0.01,
            run_id=self.run_id,
            scheduled_for=self.at,
            input=self.input,
        )

    def _call(self, verb: str, late: float, **told: Any) -> Steered:
        at = self.begins_at + late
        return Steered(run_id=self.run_id, verb=verb, requested_at=at, acknowledged_at=at + 0.01, **told)

    def _executions(self, tale: Tale) -> list[Record]:
        lines: list[Record] = []
        for task in self.workflow.tasks:
            units = sorted(unit for unit in tale.story if unit.partition(":")[0] == task)
            for unit in units:
                found = executions(
                    self.workflow,
                    unit,
                    self.run_id,
                    self.at,
                    tale.story[unit],
                    first=self.attempts.get(unit, 0),
                )
                self.attempts[unit] = self.attempts.get(unit, 0) + len(tale.story[unit])
                lines += found
                ended = [line for line in found if isinstance(line, Ended)][-1]
                self.results[unit] = {"delivery": ended.delivery} if ended.status == GOOD else None
        for line in list(lines):
            if isinstance(line, Started):
                lines += self._carried(line, line.key.removeprefix(f"{OF_RUN}{self.run_id}:"))
        return lines

    def _carried(self, line: Started, unit: str) -> list[Record]:
        """What a request carried, or the effect that it had."""
        task, _, nth = unit.partition(":")
        made = self.workflow.tasks[task]
        if made["target"] == "once":
            return [Effect(job_id=line.job_id, scheduled_for=line.scheduled_for, count=1)]
        carried: dict[str, Any] = {"number": self.number, "workflow": self.name}
        carried |= {one: self._result(one) for one in made["brings"]}
        if nth:
            carried |= {"nth": int(nth), "item": self._item(task, int(nth))}
        return [Brought(delivery=line.delivery, values=carried)]

    def _result(self, task: str) -> Any:
        made = self.workflow.tasks[task]
        if made["wait"]:
            return self.number if made["wait"]["type"] == "signal" else True
        if made["over"]:
            return [self.results.get(f"{task}:{nth}") for nth in range(self._size(task))]
        return self.results[task]["delivery"]

    def _item(self, task: str, nth: int) -> str:
        over = self.workflow.tasks[task]["over"]
        return self.input["items"][nth] if over == "input" else f"{self.results[over]['delivery']}.{nth}"

    def _size(self, task: str) -> int:
        over = self.workflow.tasks[task]["over"]
        return len(self.input.get("items", [])) if over == "input" else self.workflow.tasks[over]["lists"]

    def _seen(self, tale: Tale) -> RunSeen:
        again = {unit.partition(":")[0] for unit in (*tale.story, *tale.waits, *tale.ends)}
        for task, made in self.workflow.tasks.items():
            if task in self.entries and task not in again:
                continue
            if made["over"]:
                self.entries[task] = self._map(tale, task)
            else:
                late, state, reason = self._end(tale, task)
                self.entries[task] = self._entry(task, late, state, reason)
        last = max(entry["finished_at"] for entry in self.entries.values())
        bad = any(entry["state"] in ("failed", "cancelled") for entry in self.entries.values())
        seen = RunSeen(
            at=T0 + CLOSED, reading=2, run_id=self.run_id, workflow_id=self.workflow.workflow_id, number=self.number,
            state=tale.state or ("failed" if bad else "succeeded"), scheduled_for=self.at, finished_at=last,
            tasks={task: dict(entry) for task, entry in self.entries.items()}, created_at=self.created_at,
        )  # fmt: skip
        for task in (tale.retry[1] if tale.retry else {}).get("skip", ()):
            self.entries[task] = self.entries[task] | {"state": "skipped", "reason": "requested"}
        return seen

    def _end(self, tale: Tale, unit: str) -> tuple[float, str, str]:
        """When a task or an item ended in this generation, its state and why."""
        task = unit.partition(":")[0]
        if unit in tale.waits:
            late, state = tale.waits[unit]
            return late, state, ""
        if unit in tale.story:
            late, status = tale.story[unit][-1]
            seconds = max(self.workflow.tasks[task]["seconds"], 0.01)
            return late + seconds + 0.01, "succeeded" if status == GOOD else "failed", ""
        late = max((late for each in tale.story.values() for late, _ in each), default=0.0)
        state, reason = tale.ends.get(unit, ("skipped", "upstream"))
        return late, state, reason

    def _entry(self, unit: str, late: float, state: str, reason: str) -> dict[str, Any]:
        task, _, nth = unit.partition(":")
        at = self.at + timedelta(microseconds=int(nth or 0))
        executed_once = self.attempts.get(unit)
        return {
            "state": state,
            "reason": reason,
            "trigger_id": f"{self.name}/{task}@{at.isoformat()}" if executed_once else "",
            "finished_at": self.begins_at + late,
        } | ({} if nth else {"attempts": self.attempts.get(unit, 0)})

    def _map(self, tale: Tale, task: str) -> dict[str, Any]:
        """Of a map its items too; of one that goes on those that it has already."""
        units = [f"{task}:{nth}" for nth in range(self._size(task))]
        begun = any(unit in tale.story for unit in units)
        if not begun:
            return self._entry(task, *self._end(tale, task))
        old = self.entries.get(task, {}).get("items", [])
        items = [
            (
                old[nth]
                if old and unit not in tale.story
                else self._entry(unit, *self._end(tale, unit)) | {"item": nth, "value": self._item(task, nth)}
            )
            for nth, unit in enumerate(units)
        ]
        bad = any(item["state"] != "succeeded" for item in items)
        last = max(item["finished_at"] for item in items) - self.begins_at
        return self._entry(task, last, "failed" if bad else "succeeded", "") | {"items": items}


def executions(
    workflow: WorkflowMade,
    unit: str,
    run_id: str,
    at: datetime,
    answers: list[tuple[float, int]],
    *,
    first: int = 0,
    **facts: Any,
) -> list[Record]:
    """The lines of a task's executions, or of an item's, so many seconds after the run began; ``first`` had come."""
    task, _, nth = unit.partition(":")
    place = timedelta(microseconds=int(nth or 0))
    job = a_job(f"{workflow.name}/{task}", seconds=workflow.tasks[task]["seconds"])
    found: list[Record] = []
    for n, (late, status) in enumerate(answers, start=first + 1):
        started, ended = executed(
            job,
            at + place,
            **{"late": late - place.total_seconds(), "status": status, "attempt": n, "fence": n} | facts,
        )
        found += [replace(started, key=f"{OF_RUN}{run_id}:{unit}"), ended]
    return found


def of_task(unit: str) -> Callable[[Record], bool]:
    """Whether a line is the start of an execution of that task, or of that item."""
    return lambda line: isinstance(line, Started) and line.key.endswith(f":{unit}")


def seen(records: list[Record], *, reading: int | None = None, **changes: Any) -> list[Record]:
    """The history with something else in the ledger's last words, of one ``reading`` or of both; a change of a task is
    one of its entry.
    """
    return [
        _changed(line, changes)
        if isinstance(line, RunSeen)
        and (line.reading == reading if reading is not None else line.reading > 0)
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
    """Those of a workflow, one of them told otherwise: executions (``each_3``: of ``each:3``), or a field of ``Tale``.
    ``drop``: what was not executed.
    """
    fields = {key: changes.pop(key) for key in list(changes) if key in Tale.__dataclass_fields__}
    told = list(TALES[name])
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
    """Whether it is what the ledger said at the end."""
    return isinstance(line, RunSeen) and line.reading > 0


def history(name: str, *, more: Any = (), **how: Any) -> list[Record]:
    """A run beside a job, and the faults of ``more``; of a workflow that has a schedule all of its runs."""
    found = runs_of_schedule(name, **how) if name in TIMED else a_run_of(name, **how)
    return a_run(a_job(), more=[*found, *more])
