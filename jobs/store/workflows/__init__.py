"""Workflows (ADR 32): ``runs`` writes versions, begins, cancels and retries runs; ``flow`` finds what payloads take.

What follows from the end of a task is decided by functions of the database (migration 0009).
"""

from jobs.store.workflows.runs import (
    begin_run,
    cancel_run,
    insert_graph,
    purge_deleted,
    purge_runs,
    retry_run,
    task_runs,
)

__all__ = (
    "begin_run",
    "cancel_run",
    "insert_graph",
    "purge_deleted",
    "purge_runs",
    "retry_run",
    "task_runs",
)
