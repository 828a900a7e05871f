"""Workflows (ADR 32): ``runs`` writes versions, begins and steers runs; ``flow`` finds the values that payloads take.

Functions of the database decide the consequences of a task's end (migrations 0009, 0012 and 0019).
"""

from jobs.store.workflows.runs import (
    Map,
    answer,
    begin_cancel,
    begin_fired,
    begin_inner,
    begin_run,
    cancel_due,
    cancel_run,
    cancel_started,
    insert_graph,
    pause_run,
    purge_deleted,
    purge_runs,
    resume_run,
    retry_run,
    task_runs,
    unknown_tasks,
)

__all__ = (
    "Map",
    "answer",
    "begin_cancel",
    "begin_fired",
    "begin_inner",
    "begin_run",
    "cancel_due",
    "cancel_run",
    "cancel_started",
    "insert_graph",
    "pause_run",
    "purge_deleted",
    "purge_runs",
    "resume_run",
    "retry_run",
    "task_runs",
    "unknown_tasks",
)
