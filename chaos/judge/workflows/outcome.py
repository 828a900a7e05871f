"""A generation of a run: the expected outcome of each task and item, and the executions that the receiver saw."""

from collections.abc import Iterator
from typing import Any, Self

from chaos.history import Steered
from chaos.judge.arrivals import Arrival
from chaos.judge.case import Case
from chaos.judge.workflows.graphs import FAILURES, Fate, before, begins_again, fates
from chaos.judge.workflows.runs import NEVER, Generation, Run, parts

ENDS = {"succeeded", "failed", "skipped", "cancelled"}
#: A wait of this length does not end by itself within a history.
LONG_SECONDS = 600.0


class Outcome:
    """All of one generation. A unit is a task, or an item of a map: ``each:3``.

    ``before``: the generation before it. ``outer``, for an inner run: that of the outer run, and the task that it is.
    """

    def __init__(
        self,
        case: Case,
        run: Run,
        generation: Generation,
        *,
        before: Self | None = None,
        outer: tuple[Self, str] | None = None,
    ) -> None:
        self.case, self.run, self.generation, self.workflow = case, run, generation, run.workflow
        self.before, self.outer = before, outer
        self.seen = generation.final
        self.earlier = run.generations[generation.number - 1].final if generation.retry else None
        self.kept = self._kept()
        self.sizes = {task: self._size(task) for task in self.workflow.tasks}
        self.kept_items = {task: self._kept_items(task) for task in self.workflow.tasks}
        #: By task, the units that had to be executed in this generation if the task starts.
        self.units = {task: self._units(task) for task in self.workflow.tasks}
        self.jobs = {unit: run.job(unit) for units in self.units.values() for unit in units}
        self._all = case.task_runs.get(run.id, {})
        self.deliveries = {
            unit: [delivery for delivery in found if delivery.generation == generation.number]
            for unit, found in {**{unit: [] for unit in self.jobs}, **self._all}.items()
        }
        self._settled: dict[str, list[Arrival]] = {}
        #: The call that cancelled it, or may have; the one of its outer run; or one that stands for its deadline.
        self.cancel = self._cancel()
        #: By task, the inner runs that it began in this generation: there must be one at most.
        self.inner: dict[str, list[Self]] = {
            task: self._inner(task) for task in self.workflow.tasks if self.is_inner(task)
        }
        self.ends = {task: end for task in self.workflow.tasks if (end := self._end(task))}
        self.fates = fates(self.workflow, self.ends, self.kept)

    def is_map(self, task: str) -> bool:
        return bool(self.workflow.tasks[task].get("over"))

    def wait(self, task: str) -> dict[str, Any]:
        """The wait of a task; empty where the task does not wait."""
        return self.workflow.tasks[task].get("wait") or {}

    def is_inner(self, task: str) -> bool:
        """Whether it is a run of another workflow."""
        return bool(self.workflow.tasks[task].get("inner"))

    def _inner(self, task: str) -> list[Self]:
        runs = self.case.inner_runs.get((self.run.id, task), [])
        return [
            type(self)(self.case, run, run.generations[0], outer=(self, task))
            for run in runs
            if self.run.generation_at(self.case.began_at(run)) == self.generation.number
        ]

    def source(self, task: str) -> Self | None:
        """The inner run whose results tasks after it take; for a task that a retry keeps, of an earlier generation."""
        if task in self.kept and self.before:
            return self.before.source(task)
        return self.inner[task][-1] if self.inner[task] else None

    def within(self) -> Iterator[Self]:
        """Its inner runs, and theirs."""
        for inner in self.inner.values():
            for each in inner:
                yield each
                yield from each.within()

    def _cancel(self) -> Steered | None:
        cancels = self.generation.asked("cancel")
        call = next((call for call in cancels if call.acknowledged_at), next(iter(cancels), None))
        if call is None and self.outer and (of_outer := self.outer[0].cancel):
            call = Steered(run_id=self.run.id, verb="cancel", requested_at=of_outer.requested_at)
        elif call is None and self.deadline_at <= self.case.closed_at:
            call = Steered(run_id=self.run.id, verb="cancel", requested_at=self.deadline_at)
        over_at = self.seen.finished_at if self.seen else None
        return call if call is None or call in cancels or not over_at or over_at > call.requested_at else None

    @property
    def deadline_at(self) -> float:
        """The earliest moment at which its deadline may be over; ``NEVER``: it has none."""
        seconds = self.workflow.deadline_seconds
        return NEVER if seconds is None else self._later(self.begins_at, seconds)

    @property
    def stops_at(self) -> float:
        """The same for its deadline or that of its outer run, the earlier one."""
        return min(self.deadline_at, self.outer[0].stops_at) if self.outer else self.deadline_at

    def _later(self, since: float, seconds: float) -> float:
        """``seconds`` later by the database's clock, at the earliest."""
        return since if self.case.stepped(since, since + seconds) else since + seconds

    def _kept(self) -> dict[str, str]:
        """The tasks that the retry left alone, with their ends. A task that it passes over counts as succeeded."""
        retry = self.generation.retry
        if retry is None or self.earlier is None:
            return {}
        states = {task: (each["state"], each["reason"]) for task, each in self.earlier.tasks.items()}
        again = begins_again(self.workflow, states, tasks=retry.tasks, skip=retry.skip)
        passed = {task for task, state in states.items() if state == ("skipped", "requested")}
        return {
            task: "succeeded" if task in {*retry.skip, *passed} else state
            for task, (state, _) in states.items()
            if task not in again
        }

    def _size(self, task: str) -> int | None:
        """How many items a map has; None: there is no list."""
        over = self.workflow.tasks[task].get("over")
        if not over or over == "input":
            items = self.run.input.get("items") if over else None
            return len(items) if isinstance(items, list) else None
        return int(self.workflow.tasks[over]["lists"])

    def _kept_items(self, task: str) -> set[int]:
        """The items that had succeeded, of a map that goes on: it is not named, and no task before it begins again."""
        retry, earlier = self.generation.retry, self.earlier
        if retry is None or earlier is None or not self.is_map(task) or retry.tasks or task in self.kept:
            return set()
        if any(one not in self.kept for one, _ in before(self.workflow, task)):
            return set()
        items = earlier.tasks[task].get("items", [])
        return {nth for nth, item in enumerate(items) if item["state"] == "succeeded"}

    def _units(self, task: str) -> list[str]:
        if self.wait(task) or self.is_inner(task):
            return []
        if not self.is_map(task):
            return [task]
        return [f"{task}:{nth}" for nth in range(self.sizes[task] or 0) if nth not in self.kept_items[task]]

    def entry(self, unit: str) -> dict[str, Any]:
        """The ledger's entry of a task or an item; empty: there is none."""
        task, nth = parts(unit)
        entry: dict[str, Any] = self.seen.tasks[task] if self.seen else {}
        if nth is None:
            return entry
        items = entry.get("items", [])
        return items[nth] if nth < len(items) else {}

    def _end(self, task: str) -> str:
        """How a task ended: by the ledger, once that was read, else by the receiver's log; empty: it has not."""
        if task in self.kept:
            return self.kept[task]
        if self.seen:
            state: str = self.seen.tasks[task]["state"]
            return state if state in ENDS else ""
        if wait := self.wait(task):
            return self._end_of_wait(task, wait)
        if self.is_inner(task):
            return self.inner[task][-1].end if self.inner[task] else ""
        if self.is_map(task) and self.sizes[task] is None:
            return "failed"
        units = self.units[task]
        if all(any(delivery.is_good for delivery in self.deliveries[unit]) for unit in units):
            return "succeeded"
        return "failed" if all(self.settled(unit) for unit in units) else ""

    def _end_of_wait(self, task: str, wait: dict[str, Any]) -> str:
        if wait["type"] == "time":
            return "succeeded"
        if self.generation.asked("refuse", task):
            return "cancelled"
        if self.answers(task):
            return "succeeded"
        return "failed" if wait.get("timeout_seconds", NEVER) < LONG_SECONDS else ""

    @property
    def end(self) -> str:
        """How it ended, by the ledger or else by its tasks; empty: it has not, or may have been cancelled."""
        if self.seen:
            return "" if self.seen.state == "running" else self.seen.state
        over = {Fate.UPSTREAM, Fate.HALTED, Fate.KEPT}
        if self.cancel or any(
            task not in self.ends and fate not in over for task, fate in self.fates.items()
        ):
            return ""
        return "failed" if set(FAILURES) & set(self.ends.values()) else "succeeded"

    def answers(self, task: str) -> list[Any]:
        """The calls that let a wait succeed."""
        return self.generation.asked({"signal": "signal"}.get(self.wait(task)["type"], "approve"), task)

    def settled(self, unit: str) -> list[Arrival]:
        """Executions that no other had to follow; by their ends."""
        if unit not in self._settled:
            found = [each for each in self.deliveries[unit] if each.settles(self.jobs[unit])]
            self._settled[unit] = sorted(found, key=lambda delivery: delivery.ended_at)
        return self._settled[unit]

    def good(self, unit: str) -> list[Arrival]:
        """Executions whose result may be taken; for a kept task or item, those of earlier generations."""
        task, nth = parts(unit)
        if task in self.kept or nth in self.kept_items[task]:
            found = [each for each in self._all.get(unit, []) if each.generation < self.generation.number]
        else:
            found = self.deliveries[unit]
        return [delivery for delivery in found if delivery.is_good]

    @property
    def begins_at(self) -> float:
        """The earliest moment at which it may have begun."""
        if self.outer:
            return self.case.began_at(self.run)
        begun = max(self.case.reached(self.run.scheduled_for), self.run.requested_at)
        return max(begun, self.generation.retry.requested_at) if self.generation.retry else begun
