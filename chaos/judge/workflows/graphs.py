"""Which tasks of a run start: the judge's own model of docs/workflows.md, which shares nothing with the engine's.

It looks at all edges of a task each time and keeps no counters, because it must find the faults of counters.
"""

from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum

from chaos.history import WorkflowMade

FAILURES = ("failed", "cancelled")


class Fate(StrEnum):
    """The fate of a task, by the ends of the tasks before it."""

    START = "starts"
    #: Its edges cannot be met any more.
    UPSTREAM = "is skipped: upstream"
    #: A task before it failed, and the workflow halts.
    HALTED = "is skipped: halted"
    #: A task that is not before it failed: it depends on which came first.
    EITHER = "starts, or is skipped: halted"
    #: A task before it has not ended.
    WAIT = "waits"
    #: The run was retried, from elsewhere.
    KEPT = "is kept as it ended"

    @property
    def reason(self) -> str:
        """The reason of a skipped task."""
        return self.value.partition(": ")[2]


def before(workflow: WorkflowMade, task: str) -> list[tuple[str, str]]:
    """The tasks right before one, each with the condition of its edge."""
    return [(one, on) for one, other, on in workflow.edges if other == task]


def needs_all(workflow: WorkflowMade, task: str) -> bool:
    """Whether a task needs all of its edges, and not any one."""
    return str(workflow.tasks[task]["when"]).startswith("all")


def fates(workflow: WorkflowMade, ends: Mapping[str, str], kept: Collection[str] = ()) -> dict[str, Fate]:
    """The fate of each task. ``ends``: succeeded, failed, cancelled or skipped, of the tasks that have ended. ``kept``:
    those among them that a retry leaves alone.
    """
    return _Model(workflow, ends, kept).fates


def begins_again(
    workflow: WorkflowMade,
    states: Mapping[str, tuple[str, str]],
    *,
    tasks: Collection[str],
    skip: Collection[str],
) -> set[str]:
    """The tasks that a retry sends back: ``tasks``, or else those that did not succeed, and all downstream of these.
    The tasks in ``skip`` stay as they are, and those downstream of them are sent back. ``states``: the states in which
    the tasks had ended, and why.
    """
    failed = set() if skip else {task for task, (state, _) in states.items() if state in FAILURES}
    halted = {task for task, state in states.items() if state == ("skipped", Fate.HALTED.reason)}
    first = set(tasks) or failed | halted
    after = {task for task in workflow.tasks if {*_upstream(workflow, task)} & (first | set(skip))}
    return (first | after) - set(skip)


class _Model:
    def __init__(self, workflow: WorkflowMade, ends: Mapping[str, str], kept: Collection[str]) -> None:
        self.workflow, self.ends, self.kept = workflow, ends, kept
        self.fates: dict[str, Fate] = {}
        #: Tasks that start though the workflow halts: they handle a failure, or come after one that does. Where one
        #: edge of several is enough, this may depend on which edge was met first.
        self.handlers: set[str] = set()
        self.may_handle: set[str] = set()
        for task in _in_order(workflow):
            fate = self._fate(task)
            self.fates[task] = Fate.KEPT if task in kept else fate

    def _fate(self, task: str) -> Fate:
        edges = before(self.workflow, task)
        met = [self._met(one, on) for one, on in edges]
        all_needed = needs_all(self.workflow, task)
        if (False in met) if all_needed else (met and not any(is_met is not False for is_met in met)):
            return Fate.UPSTREAM
        if (None in met) if all_needed else (met and True not in met):
            return Fate.WAIT
        met_edges = [edge for edge, is_met in zip(edges, met, strict=True) if is_met]
        handling = [on != "on_success" or one in self.handlers for one, on in met_edges]
        if any(handling) if all_needed else (handling and all(handling)):
            self.handlers.add(task)
        if any(on != "on_success" or one in self.may_handle for one, on in met_edges):
            self.may_handle.add(task)
        return self._halted(task)

    def _halted(self, task: str) -> Fate:
        """The fate of a task whose edges are met."""
        if self.workflow.on_failure != "halt" or task in self.handlers:
            return Fate.START
        failed = {each for each, end in self.ends.items() if end in FAILURES}
        if task not in self.may_handle and (failed - set(self.kept)) & set(self._surely_before(task)):
            return Fate.HALTED
        # The documents do not say whether a failure that an earlier generation left halts the workflow.
        old = failed & set(self.kept)
        return (
            Fate.EITHER if old or any(self._may_precede(one, task) for one in failed - {task}) else Fate.START
        )

    def _may_precede(self, one: str, task: str) -> bool:
        """Whether ``one`` may have ended before ``task`` was ready: it may have begun earlier."""
        had_ended = set(self._surely_before(one))
        return task not in had_ended and not set(_upstream(self.workflow, task)) <= had_ended

    def _surely_before(self, task: str) -> Iterator[str]:
        """Tasks that had ended when this one could start: none where any one of several was enough."""
        if needs_all(self.workflow, task):
            for one, _ in before(self.workflow, task):
                yield one
                if self.fates.get(one) not in (Fate.UPSTREAM, Fate.HALTED, None):
                    yield from self._surely_before(one)

    def _met(self, one: str, on: str) -> bool | None:
        """Whether an edge is met; None as long as that is undecided."""
        end = self._end(one)
        if end is None:
            return None
        if on == "on_finished":
            return True
        return end == "succeeded" if on == "on_success" else end in FAILURES

    def _end(self, task: str) -> str | None:
        """The end of a task. One that must be skipped ends so, even if the ledger says otherwise."""
        if self.fates[task] in (Fate.UPSTREAM, Fate.HALTED):
            return "skipped"
        return None if self.fates[task] == Fate.WAIT else self.ends.get(task)


def _in_order(workflow: WorkflowMade) -> Iterator[str]:
    """Each task after all that come before it."""
    done: set[str] = set()
    while len(done) < len(workflow.tasks):
        ready = [
            task
            for task in workflow.tasks
            if task not in done and all(one in done for one, _ in before(workflow, task))
        ]
        if not ready:
            raise ValueError(f"workflow {workflow.name} has a cycle")
        yield from ready
        done.update(ready)


def _upstream(workflow: WorkflowMade, task: str) -> Iterator[str]:
    for one, _ in before(workflow, task):
        yield one
        yield from _upstream(workflow, one)


def longest(workflow: WorkflowMade, seconds: Mapping[str, float]) -> float:
    """Seconds from the beginning of a run to its end, where each task takes its ``seconds``."""
    until: dict[str, float] = {}
    for task in _in_order(workflow):
        until[task] = seconds[task] + max((until[one] for one, _ in before(workflow, task)), default=0.0)
    return max(until.values())
