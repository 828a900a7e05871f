"""The state machines of workflow runs and task runs: SQL and docs must match this table, as with ``core.states``."""

from enum import StrEnum


class RunState(StrEnum):
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class TaskRunState(StrEnum):
    #: Not everything is known of the tasks before it.
    WAITING = "waiting"
    #: May start; the run's ``max_parallel`` holds it.
    READY = "ready"
    #: Has its trigger, which holds all else.
    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


#: The job type of tasks that wait: Carillon's own.
WAIT_TYPE = "carillon.wait"
UNFINISHED_TASK_RUNS = (TaskRunState.WAITING, TaskRunState.READY, TaskRunState.STARTED)
#: Why a task run was skipped: no condition of its edges can be met any more; a task failed and the workflow halts; a
#: caller asked to go on without it, so that it counts as succeeded for the tasks after it.
SKIP_REASONS = ("upstream", "halted", "requested")
#: Why a map failed before it had items: the value to go over is not there, is no list, or is too long.
MAP_REASONS = ("no_list", "too_long")
#: Why a run was asked to end: a caller asked; it took longer than it may; a newer firing takes its place; the run of
#: which it is a task is cancelled.
CANCEL_REASONS = ("requested", "deadline", "replaced", "outer")
#: The job type of the hidden job that is a workflow's schedule: each of its firings begins a run.
SCHEDULE_TYPE = "carillon.workflow"
#: The job type of tasks that are a run of another workflow. Such a task ends as its run does.
RUN_TYPE = "carillon.run"
#: How deep runs may lie within runs, and how many there may be below a run that no other run began.
MAX_DEPTH = 8
MAX_BELOW = 10_000


class Condition(StrEnum):
    """When an edge is met. ``on_finished`` is met however the task before ended, skipped included."""

    ON_SUCCESS = "on_success"
    ON_FAILURE = "on_failure"
    ON_FINISHED = "on_finished"

    def is_met_by(self, end: TaskRunState, reason: str = "") -> bool:
        """Whether an edge is met whose earlier task ended so. The database has the same rule (carillon_settle_run)."""
        if self is Condition.ON_SUCCESS:
            return end is TaskRunState.SUCCEEDED or (end, reason) == (TaskRunState.SKIPPED, "requested")
        return self is Condition.ON_FINISHED or end in (TaskRunState.FAILED, TaskRunState.CANCELLED)


class When(StrEnum):
    """How many of its incoming edges a task needs, and the condition of an edge that names none."""

    ALL_SUCCESS = "all_success"
    ALL_FINISHED = "all_finished"
    ANY_SUCCESS = "any_success"
    ANY_FAILURE = "any_failure"

    @property
    def needs_all(self) -> bool:
        return self in (When.ALL_SUCCESS, When.ALL_FINISHED)

    @property
    def usual_condition(self) -> Condition:
        if self is When.ALL_FINISHED:
            return Condition.ON_FINISHED
        return Condition.ON_FAILURE if self is When.ANY_FAILURE else Condition.ON_SUCCESS


#: Verb -> pairs of states. A retry lets a run that ended go on.
RUN_TRANSITIONS: dict[str, frozenset[tuple[str, str]]] = {
    "begin": frozenset({("-", RunState.RUNNING)}),
    "end": frozenset(
        (RunState.RUNNING, end) for end in (RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED)
    ),
    "retry": frozenset(
        (end, RunState.RUNNING) for end in (RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED)
    ),
}
S = TaskRunState
#: Verb -> pairs of states. ``plan`` makes a task run with its run. ``end`` follows the end of its trigger; for a map,
#: the end of its items. ``expand`` is of a map. ``again`` and ``pass`` are of a run that is retried.
TASK_RUN_TRANSITIONS: dict[str, frozenset[tuple[str, str]]] = {
    "plan": frozenset({("-", S.WAITING), ("-", S.READY)}),
    "ready": frozenset({(S.WAITING, S.READY)}),
    "start": frozenset({(S.READY, S.STARTED)}),
    "end": frozenset({(S.STARTED, S.SUCCEEDED), (S.STARTED, S.FAILED), (S.STARTED, S.CANCELLED)}),
    "expand": frozenset({(S.READY, S.STARTED), (S.READY, S.SUCCEEDED), (S.READY, S.FAILED)}),
    "skip": frozenset({(S.WAITING, S.SKIPPED)}),
    "cancel": frozenset({(S.WAITING, S.CANCELLED), (S.READY, S.CANCELLED)}),
    "again": frozenset(
        (end, begin)
        for end in (S.SUCCEEDED, S.FAILED, S.SKIPPED, S.CANCELLED)
        for begin in (S.WAITING, S.READY)
    ),
    "pass": frozenset({(S.FAILED, S.SKIPPED), (S.CANCELLED, S.SKIPPED)}),
}
del S
