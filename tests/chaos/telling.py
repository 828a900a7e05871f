"""Tells runs: the lines of their calls and executions, then the words of the ledger."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from chaos.history import (
    Brought,
    Effect,
    Ended,
    InnerRun,
    Record,
    RunAsked,
    RunSeen,
    Started,
    Steered,
    WorkflowMade,
)
from chaos.history.workflows import OF_RUN
from chaos.load.workflows import workflow_plans
from tests.chaos.histories import CLOSED, START, T0, a_job, executed
from tests.chaos.tales import GOOD, Tale

PLANS = {plan.name: plan for plan in workflow_plans()}


def a_workflow(name: str) -> WorkflowMade:
    return PLANS[name].made({"id": f"{name}-id", "created_at": START.isoformat()}, tenant="acme", at=T0)


def _with_inner(workflow: WorkflowMade) -> Iterator[WorkflowMade]:
    for name in filter(None, (task["inner"] for task in workflow.tasks.values())):
        yield from _with_inner(a_workflow(name))
    yield workflow


class ToldRun:
    """Tells a run: the lines of its calls and executions, then the words of the ledger."""

    def __init__(
        self,
        name: str,
        number: int,
        begins: float,
        *,
        run_id: str = "",
        outer: tuple[str, str] | None = None,
        given: Mapping[str, Any] | None = None,
    ) -> None:
        """``outer``: for an inner run, the outer one and the task's trigger; ``given``: the values it is given."""
        self.name, self.number, self.workflow = name, number, a_workflow(name)
        self.begins, self.outer, self.given = begins, outer, {"number": number, **(given or {})}
        #: By task, the inner runs that it began so far.
        self.inner: dict[str, list[ToldRun]] = {}
        self.run_id, self.at = run_id or f"run{number}", START + timedelta(seconds=begins)
        self.begins_at = self.at.timestamp()
        self.input = PLANS[name].input(number, now=self.begins_at)
        self.attempts: dict[str, int] = {}
        self.results: dict[str, Any] = {}
        self.entries: dict[str, dict[str, Any]] = {}

    def records(self, tales: Sequence[Tale]) -> list[Record]:
        lines: list[Record] = [*_with_inner(self.workflow)]
        lines += [] if self.workflow.schedule or self.outer else [self._asked()]
        # A run that waits for another one is made when the other has ended.
        first = min(late for found in tales[0].story.values() for late, _ in found)
        self.created_at = self.begins_at + first - 0.05
        for nth, tale in enumerate(tales):
            lines += self._executions(tale)
            for verb, late, task in tale.calls:
                lines.append(self._call(verb, late, task=task))
            self.seen = seen = self._seen(tale)
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
        within: list[Record] = []
        for task in self.workflow.tasks:
            if task in tale.inner:
                within += self._inner_run(task, *tale.inner[task])
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
        return [*lines, *within]

    def _inner_run(self, task: str, late: float, tale: Tale) -> list[Record]:
        self.attempts[task] = self.attempts.get(task, 0) + 1
        made, earlier = self.workflow.tasks[task], self.inner.setdefault(task, [])
        trigger_id = self._trigger(task)
        inner = ToldRun(
            made["inner"],
            self.number,
            self.begins + late,
            run_id=f"{self.run_id}.{task}{len(earlier)}",
            outer=(self.run_id, trigger_id),
            given={one: self._result(one) for one in made["gives"]},
        )
        start = InnerRun(run_id=inner.run_id, trigger_id=trigger_id, task_start=len(earlier))
        lines = [*inner.records([tale]), start]
        earlier.append(inner)
        return lines

    def _trigger(self, task: str, at: datetime | None = None) -> str:
        return f"{self.name}/{task}@{(at or self.at).isoformat()}"

    def _carried(self, line: Started, unit: str) -> list[Record]:
        """The values that a request carried, or the effect that it had."""
        task, _, nth = unit.partition(":")
        made = self.workflow.tasks[task]
        if made["target"] == "once":
            return [Effect(job_id=line.job_id, scheduled_for=line.scheduled_for, count=1)]
        carried: dict[str, Any] = {"number": self.number, "workflow": self.name}
        carried |= {one: self._result(one) for one in made["brings"]}
        if nth:
            carried |= {"nth": int(nth), "item": self._item(task, int(nth))}
        return [Brought(delivery=line.delivery, values=carried)]

    def _result(self, name: str) -> Any:
        task, _, within = name.partition(".")
        if task == "input":
            return self.given[within]
        if within:
            return self.inner[task][-1]._result(within)
        made = self.workflow.tasks[task]
        if made["wait"]:
            return self.number if made["wait"]["type"] == "signal" else True
        if made["over"]:
            return [self.results.get(f"{task}:{nth}") for nth in range(self._size(task))]
        return (self.results[task] or {}).get("delivery")

    def _item(self, task: str, nth: int) -> str:
        over = self.workflow.tasks[task]["over"]
        return self.input["items"][nth] if over == "input" else f"{self.results[over]['delivery']}.{nth}"

    def _size(self, task: str) -> int:
        over = self.workflow.tasks[task]["over"]
        return len(self.input.get("items", [])) if over == "input" else self.workflow.tasks[over]["lists"]

    def _seen(self, tale: Tale) -> RunSeen:
        again = {unit.partition(":")[0] for unit in (*tale.story, *tale.waits, *tale.ends, *tale.inner)}
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
            cancel_reason=tale.reason,
        )  # fmt: skip
        if self.outer:
            seen = replace(seen, outer_run_id=self.outer[0], trigger_id=self.outer[1], input=self.given)
        for task in (tale.retry[1] if tale.retry else {}).get("skip", ()):
            self.entries[task] = self.entries[task] | {"state": "skipped", "reason": "requested"}
        return seen

    def _end(self, tale: Tale, unit: str) -> tuple[float, str, str]:
        """When a task or an item ended in this generation, its state and why."""
        task = unit.partition(":")[0]
        if unit in tale.waits:
            late, state = tale.waits[unit]
            return late, state, ""
        if unit in tale.inner:
            seen = self.inner[unit][-1].seen
            assert seen.finished_at
            return seen.finished_at - self.begins_at, seen.state, ""
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
            "trigger_id": self._trigger(task, at) if executed_once else "",
            "finished_at": self.begins_at + late,
        } | self._of_task(unit, nth)

    def _of_task(self, unit: str, nth: str) -> dict[str, Any]:
        inner = {"inner_run_id": self.inner[unit][-1].run_id} if unit in self.inner else {}
        return inner | ({} if nth else {"attempts": self.attempts.get(unit, 0)})

    def _map(self, tale: Tale, task: str) -> dict[str, Any]:
        """The entry of a map, with its items; an item that is not executed again keeps its entry."""
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
    """The lines of a task's (or an item's) executions, by seconds after the run began; ``first`` came before."""
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
