"""A generation of a run: what was to come of each task and item, what the receiver saw of them, and since when each
might begin.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any

from chaos.history import JobMade, RunSeen
from chaos.judge.arrivals import Arrival
from chaos.judge.case import Case
from chaos.judge.limits import TOLERANCE_SECONDS
from chaos.judge.verdict import Breach
from chaos.judge.workflows.graphs import FAILURES, Fate, before, begins_again, fates, longest, needs_all
from chaos.judge.workflows.runs import NEVER, Generation, Run, parts

ENDS = {"succeeded", "failed", "skipped", "cancelled"}
#: A wait for that long ends within no history by itself.
_LONG_SECONDS = 600.0


class Told:
    """All of one generation. A unit is a task, or an item of a map: ``each:3``."""

    def __init__(self, case: Case, run: Run, generation: Generation) -> None:
        self.case, self.run, self.generation, self.workflow = case, run, generation, run.workflow
        self.seen = generation.final
        self.earlier = run.generations[generation.number - 1].final if generation.retry else None
        self.kept = self._kept()
        self.sizes = {task: self._size(task) for task in self.workflow.tasks}
        self.kept_items = {task: self._kept_items(task) for task in self.workflow.tasks}
        #: By task, what was to be executed of it in this generation if it starts.
        self.units = {task: self._units(task) for task in self.workflow.tasks}
        self.jobs = {unit: run.job(unit) for units in self.units.values() for unit in units}
        self._all = case.task_runs.get(run.id, {})
        self.deliveries = {
            unit: [delivery for delivery in found if delivery.generation == generation.number]
            for unit, found in {**{unit: [] for unit in self.jobs}, **self._all}.items()
        }
        self._settled: dict[str, list[Arrival]] = {}
        self._ready: dict[str, float] = {}
        cancels = generation.asked("cancel")
        #: The call that cancelled it, or may have.
        self.cancel = next((call for call in cancels if call.acknowledged_at), next(iter(cancels), None))
        self.ends = {task: end for task in self.workflow.tasks if (end := self._end(task))}
        self.fates = fates(self.workflow, self.ends, self.kept)

    def is_map(self, task: str) -> bool:
        return bool(self.workflow.tasks[task].get("over"))

    def wait(self, task: str) -> dict[str, Any]:
        """What a task waits for; empty where it is none that waits."""
        return self.workflow.tasks[task].get("wait") or {}

    def _kept(self) -> dict[str, str]:
        """The tasks that the retry left alone, with their ends. What it passes over counts as succeeded."""
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
        """Those that had succeeded, of a map that goes on: it is not named, and nothing before it begins again."""
        retry, earlier = self.generation.retry, self.earlier
        if retry is None or earlier is None or not self.is_map(task) or retry.tasks or task in self.kept:
            return set()
        if any(one not in self.kept for one, _ in before(self.workflow, task)):
            return set()
        items = earlier.tasks[task].get("items", [])
        return {nth for nth, item in enumerate(items) if item["state"] == "succeeded"}

    def _units(self, task: str) -> list[str]:
        if self.wait(task):
            return []
        if not self.is_map(task):
            return [task]
        return [f"{task}:{nth}" for nth in range(self.sizes[task] or 0) if nth not in self.kept_items[task]]

    def entry(self, unit: str) -> dict[str, Any]:
        """What the ledger says of a task or an item; empty: nothing."""
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
        return "failed" if wait.get("timeout_seconds", NEVER) < _LONG_SECONDS else ""

    def answers(self, task: str) -> list[Any]:
        """The calls that let a wait succeed."""
        return self.generation.asked({"signal": "signal"}.get(self.wait(task)["type"], "approve"), task)

    def settled(self, unit: str) -> list[Arrival]:
        """Executions that nothing was to follow; by their ends."""
        if unit not in self._settled:
            found = [each for each in self.deliveries[unit] if each.settles(self.jobs[unit])]
            self._settled[unit] = sorted(found, key=lambda delivery: delivery.ended_at)
        return self._settled[unit]

    def good(self, unit: str) -> list[Arrival]:
        """Executions of which the result may be taken: of what is kept those of earlier generations."""
        task, nth = parts(unit)
        if task in self.kept or nth in self.kept_items[task]:
            found = [each for each in self._all.get(unit, []) if each.generation < self.generation.number]
        else:
            found = self.deliveries[unit]
        return [delivery for delivery in found if delivery.is_good]

    @property
    def begins_at(self) -> float:
        """The earliest moment at which it may have begun."""
        begun = max(self.case.reached(self.run.scheduled_for), self.run.requested_at)
        return max(begun, self.generation.retry.requested_at) if self.generation.retry else begun

    def ready_at(self, task: str) -> float:
        """Since when a task may have begun, going by the ends of those before it; never: it may not have."""
        if task not in self._ready:
            met = [self.met_at(one, on) for one, on in before(self.workflow, task)]
            self._ready[task] = max(
                self.begins_at, (max if needs_all(self.workflow, task) else min)(met, default=0.0)
            )
        return self._ready[task]

    def item_ready_at(self, unit: str) -> float:
        """The same of an item: when it was its turn, since as many of those before it had ended."""
        task, _ = parts(unit)
        behind = self.units[task].index(unit) - self.workflow.tasks[task]["parallel"]
        if behind < 0:
            return self.ready_at(task)
        ends = sorted(settled[0].ended_at for each in self.units[task] if (settled := self.settled(each)))
        return max(self.ready_at(task), ends[behind] if behind < len(ends) else NEVER)

    def unit_ready_at(self, unit: str) -> float:
        return self.ready_at(unit) if parts(unit)[1] is None else self.item_ready_at(unit)

    def met_at(self, one: str, on: str) -> float:
        """Since when the end of a task, or that it was skipped, may have met its edge."""
        end = self.ends.get(one, "")
        if one in self.kept:
            return self.begins_at if _meets(end, on) else NEVER
        if self.fates[one] in (Fate.UPSTREAM, Fate.HALTED) or end == "skipped":
            earlier = [self.met_at(each, "on_finished") for each, _ in before(self.workflow, one)]
            # One edge that cannot be met any more is enough, unless any of them would do.
            decided = (min if needs_all(self.workflow, one) else max)(earlier, default=self.begins_at)
            return decided if on == "on_finished" else NEVER
        if self.wait(one):
            return self.wait_over_at(one) if _meets(end, on) else NEVER
        if self.is_map(one):
            over = [self._item_over_at(unit) for unit in self.units[one]]
            return max([self.ready_at(one), *over]) if _meets(end, on) else NEVER
        settled = self.settled(one)
        if on != "on_finished":
            settled = [delivery for delivery in settled if delivery.is_good == (on == "on_success")]
        if not settled and self.cancel and end == "cancelled" and _meets(end, on):
            return self.cancel.requested_at
        return settled[0].ended_at if settled else NEVER

    def _item_over_at(self, unit: str) -> float:
        if settled := self.settled(unit):
            return settled[0].ended_at
        return self.begins_at if self.entry(unit).get("state") == "skipped" else NEVER

    def wait_over_at(self, task: str) -> float:
        """Since when a wait may have been over, in the way in which it ended."""
        wait, since, end = self.wait(task), self.ready_at(task), self.ends.get(task, "")
        if end == "cancelled":
            calls = self.generation.asked("refuse", task) + self.generation.asked("cancel")
        elif end == "succeeded" and wait["type"] != "time":
            calls = self.answers(task)
        elif "until" in wait:
            return max(since, self.case.reached(self.run.until))
        else:
            seconds = wait.get("seconds", wait.get("timeout_seconds", NEVER))
            return since if self.case.stepped(since, since + seconds) else since + float(seconds)
        return max(since, min((call.requested_at for call in calls), default=NEVER))

    @property
    def is_due(self) -> bool:
        """Whether all of it should have been over when the log was read, or before it was retried."""
        if not self.generation.is_last:
            return True
        if self.is_unanswered:
            return False
        calls = [*self.generation.calls, *([self.generation.retry] if self.generation.retry else [])]
        begun = max(
            [
                self.begins_at,
                *(call.acknowledged_at or call.requested_at for call in calls),
                *([self.seen.created_at] if self.seen and self.seen.created_at else []),
                *(found[0].at for found in self.deliveries.values() if found and self.workflow.schedule),
            ]
        )
        seconds = {task: self._seconds(task) for task in self.workflow.tasks}
        return begun + longest(self.workflow, seconds) <= self.case.closed_at - TOLERANCE_SECONDS

    @property
    def is_over(self) -> bool:
        """Whether it had ended when the log was read."""
        over = self.seen and self.seen.finished_at
        return over <= self.case.closed_at if over else not self.seen and len(self.ends) == len(self.fates)

    @property
    def is_unanswered(self) -> bool:
        """Whether it goes on since its caller never answered."""
        return any(self._is_unanswered(task) for task in self.workflow.tasks)

    def _is_unanswered(self, task: str) -> bool:
        wait = self.wait(task)
        if not wait or wait["type"] == "time" or task in self.ends or self.cancel:
            return False
        said = [*self.answers(task), *self.generation.asked("refuse", task)]
        return not said and float(wait.get("timeout_seconds", NEVER)) >= _LONG_SECONDS

    def _seconds(self, task: str) -> float:
        """How long a task takes, or a map whose items go one after the other as far as they must."""
        if wait := self.wait(task):
            if "until" in wait:
                return max(0.0, self.case.reached(self.run.until) - self.begins_at)
            seconds = float(wait.get("seconds", wait.get("timeout_seconds", 0.0)))
            return seconds if seconds < _LONG_SECONDS else 0.0
        units = self.units[task]
        work = max((self.case.work_seconds(self.jobs[unit]) for unit in units), default=0.0)
        return work * (ceil(len(units) / self.workflow.tasks[task]["parallel"]) if self.is_map(task) else 1)

    @property
    def is_troubled(self) -> bool:
        """Whether a fault may have cost one of its tasks an attempt."""
        begun = self.begins_at
        ends = [d.ended_at for each in self.deliveries.values() for d in each if d.ended_at < NEVER]
        over = [self.seen.finished_at] if self.seen and self.seen.finished_at else []
        until = max([begun, *ends, *over], default=begun)
        return bool(self.case.faulty(self.workflow.tenant, begun, until))

    def breach(self, kind: str, at: float, unit: str, detail: str) -> Breach:
        again = f", generation {self.generation.number}" if self.generation.number else ""
        return Breach(
            kind=kind,
            at=at,
            job=f"{self.workflow.name}/{unit}",
            detail=f"{detail} (run {self.run.id}{again})",
        )

    def must(self, task: str) -> list[str]:
        """What of a task had to be executed. Of a map, where a task failed and the workflow halts, the first items."""
        units = self.units[task]
        if self.fates[task] != Fate.START:
            return []
        if not self.is_map(task) or self.workflow.on_failure != "halt":
            return units
        failed = any(end in FAILURES for end in self.ends.values())
        return units[: self.workflow.tasks[task]["parallel"]] if failed else units

    def required(self) -> int:
        """How many of its tasks and items had to be executed by the end."""
        return sum(len(self.must(task)) for task in self.fates) if self.is_due and not self.cancel else 0


def _meets(end: str, on: str) -> bool:
    if on == "on_finished":
        return bool(end)
    return end == "succeeded" if on == "on_success" else end in FAILURES


def told(case: Case) -> list[Told]:
    """Each generation of each run of which it is known whether it was retried, but for runs of schedules that were
    under way when the log was read: their executions are not in it.
    """
    runs = [run for run in case.runs.values() if not run.is_uncertain]
    found = [Told(case, run, generation) for run in runs for generation in run.generations]
    return [each for each in found if not each.workflow.schedule or each.is_due or each.is_over]


def under_way(case: Case) -> bool:
    """Whether a run goes on that somebody asked for: its executions will not be in a log that is read now."""
    return any(
        not each.is_due and not each.is_unanswered for each in told(case) if not each.workflow.schedule
    )


@dataclass(frozen=True)
class Step:
    """A task or an item that began, and since when nothing but the engine made it wait; seconds since 1970."""

    job: JobMade
    due_at: float
    started_at: float


def steps(runs: list[Told]) -> Iterator[Step]:
    """Of every task that waits for all before it, in runs that have no ``max_parallel``, were not cancelled, and were
    not begun by a schedule: these may have to wait for another one.
    """
    for each in runs:
        if each.workflow.max_parallel is not None or each.cancel or each.workflow.schedule:
            continue
        for unit in each.jobs:
            task, found = parts(unit)[0], each.deliveries[unit]
            if (
                found
                and needs_all(each.workflow, task)
                and (ready := each.unit_ready_at(unit)) <= found[0].at
            ):
                calls = [*each.generation.calls, *([each.generation.retry] if each.generation.retry else [])]
                # A caller may have held it until then.
                held = [
                    call.acknowledged_at or call.requested_at
                    for call in calls
                    if call.requested_at <= found[0].at
                ]
                due_at = max(ready, *held) if held else ready
                yield Step(each.jobs[unit], min(due_at, found[0].at), found[0].at)


def state_of(seen: RunSeen | None, unit: str) -> str:
    """What the ledger says of a task or an item, in words."""
    if seen is None:
        return "nothing"
    task, nth = parts(unit)
    entry = seen.tasks[task]
    items = entry.get("items", [])
    if nth is not None:
        entry = items[nth] if nth < len(items) else {"state": "no item", "reason": ""}
    return f"{entry['state']} {entry['reason']}".strip()
