"""Where the tasks of a run stand, and why, in words: decided from the rows that were read, and nothing else.

The conditions here are those by which the database decides (``carillon_settle_run``); a property test holds the two
together. ``explain_trigger`` explains the triggers.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jobs.core.states import TriggerState
from jobs.core.workflows.states import UNFINISHED_TASK_RUNS, Condition, RunState, TaskRunState
from jobs.explain.gate import Gate, counted, moment

#: So many tasks are named in a sentence, and so many of those that hold a run are listed.
MAX_NAMED = 3
MAX_LISTED = 10
_ENDED = {
    TaskRunState.SUCCEEDED: "succeeded",
    TaskRunState.FAILED: "failed",
    TaskRunState.SKIPPED: "was skipped",
    TaskRunState.CANCELLED: "was cancelled",
}
#: The order in which to look at started tasks: a task that is tried again before one that just runs.
_FIRST = (TriggerState.RETRYING, TriggerState.PENDING, TriggerState.QUEUED, TriggerState.RUNNING)


@dataclass(frozen=True, slots=True)
class Standing:
    """A run, with its version, and its tasks by key: rows of ``workflows.sql: task_runs`` in the version's order."""

    run: Any
    tasks: Mapping[str, Any]

    def of(self, *states: str) -> list[Any]:
        """The tasks in these states."""
        return [task for task in self.tasks.values() if task.state in states]

    def unfinished_before(self, task: Any) -> list[Any]:
        """The tasks right before one that have not ended."""
        before = (self.tasks[edge["task"]] for edge in task.after)
        return [each for each in before if each.state in UNFINISHED_TASK_RUNS]

    def holders(self, task: Any) -> list[Any]:
        """The tasks upstream of a waiting one that are ready or started, the nearest first."""
        found: list[Any] = []
        seen, line = {task.task}, [task]
        for each in line:
            for before in self.unfinished_before(each):
                if before.task not in seen:
                    seen.add(before.task)
                    (line if before.state == TaskRunState.WAITING else found).append(before)
        return found

    def first_to_look_at(self, tasks: Iterable[Any]) -> Any | None:
        """The started task among ``tasks`` that most likely holds the others."""
        started = [task for task in tasks if has_trigger(task) and task.trigger_state in _FIRST]
        return min(started, key=lambda task: (_FIRST.index(task.trigger_state), task.ready_at), default=None)

    def unmet(self, task: Any) -> Iterator[tuple[Any, Condition]]:
        """The tasks right before one that ended so that their edge is not met, each with its condition."""
        for edge in task.after:
            before, condition = self.tasks[edge["task"]], Condition(edge["on"])
            if before.state not in UNFINISHED_TASK_RUNS and not condition.is_met_by(
                TaskRunState(before.state), before.reason
            ):
                yield before, condition

    def may_handle_a_failure(self, task: Any) -> bool:
        """Whether a task may yet start in a halted run, by an edge that is met after a failure."""
        seen, line = {task.task}, [task]
        for each in line:
            if each.exempt:
                return True
            for edge in each.after if each.state == TaskRunState.WAITING else ():
                before = self.tasks[edge["task"]]
                if before.state not in UNFINISHED_TASK_RUNS:
                    continue  # its edge is decided, and ``exempt`` tells of it
                if edge["on"] != Condition.ON_SUCCESS:
                    return True
                if before.task not in seen:
                    seen.add(before.task)
                    line.append(before)
        return False


def has_trigger(task: Any) -> bool:
    """Whether an unfinished task has a trigger of its present start: a retry leaves triggers of earlier starts."""
    return task.state == TaskRunState.STARTED and task.trigger_id is not None


def goes_on_as_run(task: Any) -> bool:
    """Whether a task is a run of another workflow that has begun. Its trigger has ended by then."""
    is_started = task.state == TaskRunState.STARTED and task.trigger_state not in _FIRST
    return is_started and task.inner_run_id is not None


def told(standing: Standing, task: Any) -> str:
    """How a task stands, to follow its key and a colon: ``retrying, next attempt at 2030-01-31T02:00:00Z``."""
    match task.state:
        case TaskRunState.WAITING:
            holder = next(iter(standing.holders(task)), None)
            return f"waiting for {holder.task}, which is {told(standing, holder)}" if holder else "waiting"
        case TaskRunState.READY:
            return "ready"
        case TaskRunState.STARTED:
            return _of_trigger(task)
    return f"{task.state} at {moment(task.finished_at)}{f' ({task.reason})' if task.reason else ''}"


def _of_trigger(task: Any) -> str:
    if goes_on_as_run(task):
        return f"going on as run {task.inner_run_id}"
    match task.trigger_state:
        case TriggerState.RETRYING:
            return f"retrying, next attempt at {moment(task.due_at)}"
        case TriggerState.RUNNING:
            return f"running since {moment(task.started_at)}"
        case TriggerState.QUEUED:
            return "queued"
        case TriggerState.PENDING:
            return f"pending, due at {moment(task.due_at)}"
    return f"started at {moment(task.ready_at)}"


def _listed(standing: Standing, tasks: list[Any]) -> str:
    named = "; ".join(f"{task.task}: {told(standing, task)}" for task in tasks[:MAX_NAMED])
    return f"{named}; and {len(tasks) - MAX_NAMED:,} more" if len(tasks) > MAX_NAMED else named


def _ids(tasks: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(task.trigger_id for task in tasks if has_trigger(task))[:MAX_LISTED]


def task_gates(standing: Standing, task: Any) -> list[Gate]:
    """The gates between an unfinished task and its end, in order, without those of its trigger."""
    if task.state not in UNFINISHED_TASK_RUNS or standing.run.state != RunState.RUNNING:
        return []
    has_started = task.state == TaskRunState.STARTED
    gates = [_upstream(standing, task), _halt(standing, task), _paused(standing), _max_parallel(standing)]
    if has_started:
        gates = [Gate(gate.name, True, "Passed when it started.") for gate in gates]
    what = "It" if goes_on_as_run(task) else "Its trigger"
    detail = f"{what} is {_of_trigger(task)}." if has_started else "It has no trigger yet."
    return [*gates, Gate("trigger", not has_started, detail, blockers=_ids([task]))]


def _upstream(standing: Standing, task: Any) -> Gate:
    if not task.after:
        return Gate("upstream", True, "It waits for no task.")
    if task.state != TaskRunState.WAITING:
        return Gate("upstream", True, "Its edges are met.")
    before = standing.unfinished_before(task)
    one_of = "" if task.needs_all or len(before) == 1 else "one of "
    detail = f"Waits for {one_of}{_listed(standing, before)}."
    return Gate("upstream", False, detail, used=len(before), blockers=_ids(standing.holders(task)))


def _halt(standing: Standing, task: Any) -> Gate:
    if not standing.run.version.halts:
        return Gate("halt", True, "This workflow goes on after a failure.")
    if not standing.run.halted:
        return Gate("halt", True, "No task has failed.")
    if task.state != TaskRunState.WAITING or standing.may_handle_a_failure(task):
        return Gate("halt", True, f"{_culprit(standing)}, and it may handle that.")
    return Gate(
        "halt", False, f"{_culprit(standing)}, and this workflow halts: it is skipped when its turn comes."
    )


def _culprit(standing: Standing) -> str:
    """The task that failed first."""
    failed = standing.of(TaskRunState.FAILED, TaskRunState.CANCELLED)
    first = min(failed, key=lambda task: task.finished_at, default=None)
    if first is None:  # it was read as it was sent back by a retry
        return "A task failed"
    return f"{first.task} {_ENDED[first.state]} at {moment(first.finished_at)}"


def _paused(standing: Standing) -> Gate:
    since = standing.run.paused_at
    if since is None:
        return Gate("paused", True, "The run is not paused.")
    return Gate(
        "paused",
        False,
        f"The run is paused since {moment(since)}: nothing more of it starts until it is resumed.",
    )


def _max_parallel(standing: Standing) -> Gate:
    limit, started = standing.run.version.max_parallel, standing.of(TaskRunState.STARTED)
    if limit is None:
        return Gate("max_parallel", True, "Any number of tasks may be started at once.", used=len(started))
    ready = len(standing.of(TaskRunState.READY))
    behind = f"; {counted(ready, 'task')} {'is' if ready == 1 else 'are'} ready" if ready else ""
    is_full = len(started) >= limit and ready > 0
    detail = f"{len(started):,} of {limit:,} tasks are started at once (max_parallel){behind}."
    return Gate(
        "max_parallel",
        not is_full,
        detail,
        limit=limit,
        used=len(started),
        blockers=_ids(started) if is_full else (),
    )


def run_gates(standing: Standing) -> list[Gate]:
    """The gates between a run and its end, in order; none once it has ended."""
    if standing.run.state != RunState.RUNNING:
        return []
    return [_paused(standing), _max_parallel(standing), _tasks(standing)]


def holding(standing: Standing) -> list[Any]:
    """The tasks that hold a run: those that have started, else those that are ready."""
    return standing.of(TaskRunState.STARTED) or standing.of(TaskRunState.READY)


def _tasks(standing: Standing) -> Gate:
    unfinished = standing.of(*UNFINISHED_TASK_RUNS)
    if not unfinished:
        return Gate("tasks", True, "All its tasks have ended.", limit=len(standing.tasks), used=0)
    holders = holding(standing) or unfinished
    waiting = len(unfinished) - len(holders)
    behind = f"; {counted(waiting, 'task')} behind" if waiting else ""
    asked = " It was asked to stop." if standing.run.cancel_requested else ""
    detail = f"Waits for {_listed(standing, holders)}{behind}.{asked}"
    return Gate(
        "tasks", False, detail, limit=len(standing.tasks), used=len(unfinished), blockers=_ids(holders)
    )


def run_end(standing: Standing) -> str:
    """How a run ended: its tasks counted by their end, and those that failed."""
    run, counts = standing.run, []
    for state, word in _ENDED.items():
        if number := len(standing.of(state)):
            counts.append(f"{counted(number, 'task')} {word if number == 1 else word.replace('was', 'were')}")
    end = f"{run.state.capitalize()} at {moment(run.finished_at)}: {', '.join(counts)}."
    wrong = standing.of(TaskRunState.FAILED)
    return f"{end} {_listed(standing, wrong)}." if wrong else end


def task_end(standing: Standing, task: Any) -> str:
    """How a task ended, where no trigger tells: skipped, cancelled before it started, or past retention."""
    at = moment(task.finished_at)
    if task.state == TaskRunState.SKIPPED and task.reason == "halted":
        return f"Skipped at {at}: {_culprit(standing)}, and this workflow halts."
    if task.state == TaskRunState.SKIPPED:
        return f"Skipped at {at}: {_why_skipped(standing, task)}."
    told_by = f", as run {task.inner_run_id} did" if task.inner_run_id else ""
    return f"{task.state.capitalize()} at {at}{f' ({task.reason})' if task.reason else ''}{told_by}."


def _why_skipped(standing: Standing, task: Any) -> str:
    unmet = list(standing.unmet(task))
    if not unmet:  # it was read as tasks before it were sent back by a retry
        return "an edge of it could not be met"
    before, condition = unmet[0]
    edge = f"its edge from {before.task} ({condition}) could not be met"
    if not task.needs_all and len(unmet) > 1:
        edge = f"none of its {len(unmet):,} edges could be met; from {before.task} ({condition})"
    return f"{edge}: {before.task} {_ENDED[before.state]}{_at_last(standing, before)}"


def _at_last(standing: Standing, task: Any) -> str:
    """The cause of the end of a task that was itself skipped: the end of the chain."""
    root = task
    while root.state == TaskRunState.SKIPPED:
        if root.reason == "halted":
            return f", since {_culprit(standing)} and this workflow halts"
        before = next((before for before, _ in standing.unmet(root)), None)
        if before is None:
            break
        root = before
    return "" if root is task else f", since {root.task} {_ENDED[root.state]}"
