"""Why a run of a workflow has not ended, and why a task of it waits, was skipped or failed (``explain_run``)."""

from jobs.explain.workflows.run import explain_run

__all__ = ("explain_run",)
