"""The example of the field: three extracts side by side, transform, load, report, and an alert if one of them fails.

Load is a run of another workflow. Each task has a job type of its own, because crash points are armed by type. The
input of a run says which tasks fail first (``fail_first``) and which one for good (``fails``). The handlers are in
``tests.cluster.etl_tasks``.
"""

from typing import Any, NamedTuple

from jobs.core.workflows.states import RUN_TYPE

EXTRACTS = ("extract_1", "extract_2", "extract_3")
#: The one task of the inner run.
ROWS = "rows"
#: All tasks that have a handler here.
HANDLED = (*EXTRACTS, "transform", ROWS, "report", "alert")
#: A crash is charged to a trigger that was claimed alone; no trigger here may be buried for that.
_RETRY = {"max_attempts": 50, "backoff": "fixed", "initial_delay_seconds": 0.1, "jitter": "none"}


def type_of(task: str) -> str:
    return RUN_TYPE if task == "load" else f"etl.{task}"


def _task(key: str) -> dict[str, Any]:
    payload = {"task": key, "asked": {"$from": "workflow.input"}}
    return {"job_type": type_of(key), "retry_policy": _RETRY, "payload": payload}


INNER = {"name": "load", "tasks": {ROWS: _task(ROWS)}}
_STEPS = (*((extract, "transform") for extract in EXTRACTS), ("transform", "load"), ("load", "report"))
_WATCHED = (*EXTRACTS, "transform", "load", "report")
TASKS = {
    **{key: _task(key) for key in HANDLED if key != ROWS},
    "load": {"workflow": {"name": "load", "input": {"$from": "workflow.input"}}},
    "alert": _task("alert") | {"when": "any_failure"},
}
WORKFLOW = {
    "name": "etl",
    "tasks": TASKS,
    "edges": [
        *({"before": before, "after": after} for before, after in _STEPS),
        *({"before": key, "after": "alert", "on": "on_failure"} for key in _WATCHED),
    ],
}


class Ends(NamedTuple):
    """How a run ends, and its tasks; with the task of the inner run, if there is one."""

    run: str
    tasks: dict[str, str]


_ALL_SUCCEED = dict.fromkeys((*TASKS, ROWS), "succeeded")
_NO_INNER_RUN = dict.fromkeys(TASKS, "succeeded")
#: By the task that fails for good, if one does.
ENDS = {
    "": Ends("succeeded", _ALL_SUCCEED | {"alert": "skipped"}),
    "transform": Ends(
        "failed", _NO_INNER_RUN | {"transform": "failed", "load": "skipped", "report": "skipped"}
    ),
    ROWS: Ends("failed", _ALL_SUCCEED | {ROWS: "failed", "load": "failed", "report": "skipped"}),
}


def ends_of_triggers(ends: Ends) -> list[tuple[str, str]]:
    """Type and state of each trigger of such a run: a task that was skipped has none."""
    return [
        # The trigger of an inner run that fails has done its work: it began that run.
        (type_of(task), "dead" if state == "failed" and task != "load" else "succeeded")
        for task, state in ends.tasks.items()
        if state != "skipped"
    ]
