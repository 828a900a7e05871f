"""Promises about workflows: each task starts once what it needs has come about, once, and a run ends once.

Runs are those of which a call or the ledger tells. How executions of tasks are repeated, fenced and doubled is judged
with all others (``executions``, ``firings``); this adds what only a graph can break.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from chaos.history import JobMade, RunSeen
from chaos.judge.case import NEVER, Arrival, Case
from chaos.judge.graphs import FAILURES, Fate, before, fates, longest, needs_all
from chaos.judge.limits import TOLERANCE_SECONDS
from chaos.judge.runs import Run
from chaos.judge.verdict import Breach

_ENDS = {"succeeded", "failed", "skipped", "cancelled"}


class Told:
    """A run, what the receiver saw of its tasks, and what should have come of each."""

    def __init__(self, case: Case, run: Run) -> None:
        self.case, self.run, self.workflow = case, run, run.workflow
        self.jobs = {task: run.job(task) for task in run.workflow.tasks}
        self.deliveries = {task: case.task_runs.get((run.id, task), []) for task in run.workflow.tasks}
        self.ends = {task: end for task in self.jobs if (end := self._end(task))}
        self.fates = fates(run.workflow, self.ends)

    def _end(self, task: str) -> str:
        """How a task ended: by the ledger, once that was read, else by the receiver's log; empty: it has not."""
        if self.run.final:
            state: str = self.run.final.tasks[task]["state"]
            return state if state in _ENDS else ""
        if any(answered_well(delivery) for delivery in self.deliveries[task]):
            return "succeeded"
        return "failed" if self.settled(task) else ""

    def settled(self, task: str) -> list[Arrival]:
        """Executions of a task that nothing was to follow; by their ends."""
        found = [delivery for delivery in self.deliveries[task] if delivery.settles(self.jobs[task])]
        return sorted(found, key=lambda delivery: delivery.ended_at)

    @property
    def is_due(self) -> bool:
        """Whether all of it should have been over when the log was read."""
        seconds = {task: self.case.work_seconds(job) for task, job in self.jobs.items()}
        begun = max(self.case.reached(self.run.scheduled_for), self.run.requested_at)
        return begun + longest(self.workflow, seconds) <= self.case.closed_at - TOLERANCE_SECONDS

    @property
    def is_troubled(self) -> bool:
        """Whether a fault may have cost one of its tasks an attempt."""
        begun = self.case.reached(self.run.scheduled_for)
        ends = [d.ended_at for each in self.deliveries.values() for d in each if d.ended_at < NEVER]
        over = [self.run.final.finished_at] if self.run.final and self.run.final.finished_at else []
        until = max([begun, *ends, *over], default=begun)
        return bool(self.case.faulty(self.workflow.tenant, begun, until))

    def breach(self, kind: str, at: float, task: str, detail: str) -> Breach:
        return Breach(
            kind=kind, at=at, job=f"{self.workflow.name}/{task}", detail=f"{detail} (run {self.run.id})"
        )

    def required(self) -> int:
        """How many of its tasks had to be executed by the end."""
        return sum(fate == Fate.START for fate in self.fates.values()) if self.is_due else 0


def told(case: Case) -> list[Told]:
    return [Told(case, run) for run in case.runs.values()]


def judged(case: Case, runs: list[Told], excused: Counter[str]) -> Iterator[Breach]:
    """Everything that is wrong with the runs."""
    yield from _asked(case, runs)
    for each in runs:
        yield from _started(each, excused)
        yield from _order(each, excused)
        yield from _values(each)
        if each.run.final:
            yield from _recorded(each, each.run.final, excused)
            yield from _ended_once(each, each.run.final)
            yield from _effects(each, each.run.final)
        elif case.ledger_of_runs and each.run.acknowledged and each.is_due:
            yield each.breach("unrecorded", each.run.requested_at, "", "the ledger has no such run")


def _asked(case: Case, runs: list[Told]) -> Iterator[Breach]:
    """Runs that no call asked for, or two for one call; executions of tasks of no known run."""
    numbers: dict[tuple[str, int], set[str]] = defaultdict(set)
    for each in runs:
        numbers[each.workflow.workflow_id, each.run.number].add(each.run.id)
        if not each.run.requested_at:
            at = each.run.scheduled_for.timestamp()
            yield each.breach("phantom", at, "", f"run number {each.run.number}, which was never asked for")
    for (workflow_id, number), ids in numbers.items():
        if len(ids) > 1:
            detail = f"one call began {len(ids)} runs: {', '.join(sorted(ids))}"
            name = case.workflows[workflow_id].name
            at = min(case.runs[each].scheduled_for.timestamp() for each in ids)
            yield Breach(kind="doubled firing", at=at, job=name, detail=f"number {number}: {detail}")
    # A call whose outcome is unknown may have begun one, of which the ledger will tell.
    unknown = 0 if case.ledger_of_runs else sum(asked.acknowledged_at is None for asked in case.asked)
    strays = {d.task_run[0]: d for d in case.deliveries if d.task_run and d.task_run[0] not in case.runs}
    if len(strays) > unknown:
        for run_id, delivery in strays.items():
            detail = "a task of a run that was never acknowledged"
            yield Breach(kind="phantom", at=delivery.at, job=run_id, detail=detail)


def _started(each: Told, excused: Counter[str]) -> Iterator[Breach]:
    """Tasks that should have been executed and were not, and those that should not and were."""
    for task, fate in each.fates.items():
        deliveries = each.deliveries[task]
        if fate in (Fate.UPSTREAM, Fate.HALTED) and deliveries:
            yield each.breach("phantom", deliveries[0].at, task, f"was executed, though it {fate}")
        if fate == Fate.START and each.is_due and not each.settled(task):
            if each.is_troubled and each.ends.get(task) == "failed":
                excused["a task buried: a fault cost it its last attempt"] += 1
                continue
            seen = (
                f"{len(deliveries)} deliveries, none of which settled it" if deliveries else "never executed"
            )
            at = each.run.scheduled_for.timestamp()
            yield each.breach("lost", at, task, f"{seen}; the ledger says {_state(each.run.final, task)}")


def _state(seen: RunSeen | None, task: str) -> str:
    if seen is None:
        return "nothing"
    return f"{seen.tasks[task]['state']} {seen.tasks[task]['reason']}".strip()


def _order(each: Told, excused: Counter[str]) -> Iterator[Breach]:
    """A task that began before as many of those before it had ended as it needs."""
    for task, deliveries in each.deliveries.items():
        edges = before(each.workflow, task)
        if not deliveries or not edges:
            continue
        began = deliveries[0].at
        open_edges = [one for one, on in edges if not _is_met(each, one, on, began)]
        if (open_edges and needs_all(each.workflow, task)) or len(open_edges) == len(edges):
            lost = (each.ends.get(one) == "failed" or not each.settled(one) for one in open_edges)
            if each.is_troubled and all(lost):
                excused["a task after one of which a fault cost the last attempt"] += 1
                continue
            detail = f"began before the end of {', '.join(open_edges)}"
            yield each.breach("early", began, task, detail)


def _is_met(each: Told, one: str, on: str, began: float) -> bool:
    """Whether the end of a task, or that it was skipped, had met its edge at that moment."""
    if each.fates[one] in (Fate.UPSTREAM, Fate.HALTED) or each.ends.get(one) == "skipped":
        earlier = [
            _is_met(each, before_it, "on_finished", began) for before_it, _ in before(each.workflow, one)
        ]
        # One edge that cannot be met any more is enough, unless any of them would do.
        return on == "on_finished" and (any(earlier) if needs_all(each.workflow, one) else all(earlier))
    settled = each.settled(one)
    if on != "on_finished":
        settled = [delivery for delivery in settled if answered_well(delivery) == (on == "on_success")]
    return bool(settled) and settled[0].ended_at <= began


def _values(each: Told) -> Iterator[Breach]:
    """What a request carried, held against what the tasks before it had been answered."""
    taken: dict[str, set[int]] = defaultdict(set)
    for task, made in each.workflow.tasks.items():
        for delivery in each.deliveries[task]:
            values = each.case.brought.get(delivery.request.delivery)
            if values is None:
                if delivery.settles(each.jobs[task]) and made["target"] != "once":
                    yield each.breach("value", delivery.at, task, "its request carried nothing")
                continue
            if values.get("number") != each.run.number:
                detail = f"carried input {values.get('number')}, not {each.run.number}"
                yield each.breach("value", delivery.at, task, detail)
            for one in made.get("brings", ()):
                answers = {
                    answer.request.delivery
                    for answer in each.deliveries[one]
                    if answered_well(answer) and answer.ended_at <= delivery.at
                }
                if values.get(one) not in answers:
                    detail = f"carried {values.get(one)} of {one}, which had been answered {sorted(answers)}"
                    yield each.breach("value", delivery.at, task, detail)
                taken[one].add(values.get(one))
    for one, found in taken.items():
        if len(found) > 1:
            at = each.run.scheduled_for.timestamp()
            yield each.breach("value", at, one, f"tasks after it carried {len(found)} results of it: {found}")


def answered_well(delivery: Arrival) -> bool:
    """Whether its task could take the answer for its result."""
    return delivery.sent and delivery.status == 200


def _recorded(each: Told, seen: RunSeen, excused: Counter[str]) -> Iterator[Breach]:
    """The ledger, held against the receiver's log and the graph."""
    at = seen.scheduled_for.timestamp()
    for task, fate in each.fates.items():
        state, reason = seen.tasks[task]["state"], seen.tasks[task]["reason"]
        if state not in _ENDS:
            if each.is_due:
                yield each.breach("unfinished", at, task, f"still {state}")
        elif state == "skipped":
            if not _may_skip(fate, reason):
                yield each.breach("task", at, task, f"skipped ({reason}), though it {fate}")
        elif fate in (Fate.UPSTREAM, Fate.HALTED, Fate.WAIT):
            yield each.breach("task", at, task, f"{state}, though it {fate}")
        elif wrong := _unlike(each, task, state, excused):
            yield each.breach("task", at, task, wrong)
        known = {delivery.request.trigger_id for delivery in each.deliveries[task]}
        if known - {seen.tasks[task]["trigger_id"]}:
            yield each.breach("doubled firing", at, task, f"the ledger knows one of {len(known)} triggers")


def _may_skip(fate: Fate, reason: str) -> bool:
    if fate == Fate.EITHER:
        return reason == Fate.HALTED.reason
    return fate in (Fate.UPSTREAM, Fate.HALTED) and reason == fate.reason


def _unlike(each: Told, task: str, state: str, excused: Counter[str]) -> str:
    """How a task's state differs from what its receiver answered; empty: it does not."""
    settled = each.settled(task)
    if state == "succeeded":
        return "" if any(map(answered_well, settled)) else "succeeded, and no execution was answered well"
    if state == "failed" and any(not answered_well(delivery) for delivery in settled):
        return ""
    if state == "failed" and each.is_troubled:
        excused["a task that failed in a fault, and had not been refused"] += 1
        return ""
    return f"{state}, and its receiver said nothing of the kind"


def _ended_once(each: Told, seen: RunSeen) -> Iterator[Breach]:
    """A run's end follows from its tasks', comes after them, and stays as it is."""
    at = seen.scheduled_for.timestamp()
    states = {task["state"] for task in seen.tasks.values()}
    if seen.state == "running":
        if each.is_due:
            yield each.breach("unfinished", at, "", "the run has not ended")
    elif seen.state != ("failed" if states & set(FAILURES) else "succeeded"):
        yield each.breach("task", at, "", f"the run is {seen.state}, and its tasks are {sorted(states)}")
    elif seen.finished_at is not None and not each.case.stepped(at, seen.finished_at):
        late = [task for task, one in seen.tasks.items() if (one["finished_at"] or NEVER) > seen.finished_at]
        if late:
            yield each.breach(
                "second end", seen.finished_at, "", f"{', '.join(late)} ended after the run had"
            )
    for earlier in each.run.seen:
        if earlier.state != "running" and (earlier.state, earlier.finished_at) != (
            seen.state,
            seen.finished_at,
        ):
            detail = f"ended as {earlier.state}, and later was {seen.state}, or ended at another time"
            yield each.breach("second end", at, "", detail)
        for task, was in earlier.tasks.items():
            if was["state"] in _ENDS and was != seen.tasks[task]:
                yield each.breach("second end", at, task, f"was {was}, and later {seen.tasks[task]}")


def _effects(each: Told, seen: RunSeen) -> Iterator[Breach]:
    """Of an exactly-once task that succeeded there is one effect, and never two."""
    for task, job in each.jobs.items():
        if job.target != "once" or not each.deliveries[task]:
            continue
        count = each.case.effects.get(each.deliveries[task][0].firing, 0)
        if count > 1 or (count == 0 and seen.tasks[task]["state"] == "succeeded"):
            detail = f"{count} effects; the ledger says {_state(seen, task)}"
            yield each.breach("effect", seen.scheduled_for.timestamp(), task, detail)


@dataclass(frozen=True)
class Step:
    """A task that began, and since when nothing but the engine made it wait; seconds since 1970."""

    job: JobMade
    due_at: float
    started_at: float


def steps(case: Case) -> Iterator[Step]:
    """Of every task that waits for all before it, each of which was executed, in runs that have no ``max_parallel``."""
    for each in told(case):
        if each.workflow.max_parallel is not None:
            continue
        for task, deliveries in each.deliveries.items():
            edges = before(each.workflow, task)
            if not deliveries or not needs_all(each.workflow, task):
                continue
            began = deliveries[0].at
            ends = [[d.ended_at for d in each.settled(one) if d.ended_at <= began] for one, _ in edges]
            if all(ends):
                begun = max(case.reached(each.run.scheduled_for), each.run.requested_at)
                yield Step(each.jobs[task], max([begun, *(found[-1] for found in ends)]), began)
