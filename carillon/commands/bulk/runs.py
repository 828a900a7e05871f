"""``carillon bulk cancel-runs`` and the like: one verb for all runs of workflows that match."""

from typing import Annotated, Any

import typer

from carillon.client import connect
from carillon.commands.bulk.acting import DryRun, Everything, NoWait, PerSecond, Yes, app, operate, pace_of
from carillon.commands.workflows.definitions import find_workflow
from carillon.output import Format, Output

OfWorkflow = Annotated[
    str | None, typer.Option("--workflow", help="Only runs of this workflow: its name or id.")
]
Running = Annotated[
    str | None,
    typer.Option("--state", help="State: only `running`, which means all runs that have not ended."),
]


@app.command("cancel-runs")
def cancel_runs(
    workflow: OfWorkflow = None,
    state: Running = None,
    everything: Everything = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    no_wait: NoWait = False,
    output: Output = Format.table,
) -> None:
    """Cancel all runs that match: no further task starts, and running tasks are asked to stop."""
    _operate_on(workflow, state, {"verb": "cancel_runs"}, everything, dry_run, yes, no_wait, output)


@app.command("pause-runs")
def pause_runs(
    workflow: OfWorkflow = None,
    state: Running = None,
    everything: Everything = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    no_wait: NoWait = False,
    output: Output = Format.table,
) -> None:
    """Start nothing more of all runs that match, until they are resumed."""
    _operate_on(workflow, state, {"verb": "pause_runs"}, everything, dry_run, yes, no_wait, output)


@app.command("resume-runs")
def resume_runs(
    workflow: OfWorkflow = None,
    state: Running = None,
    everything: Everything = False,
    per_second: PerSecond = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    no_wait: NoWait = False,
    output: Output = Format.table,
) -> None:
    """Resume all paused runs that match: their ready tasks start."""
    about = {"verb": "resume_runs", **pace_of(per_second)}
    _operate_on(workflow, state, about, everything, dry_run, yes, no_wait, output)


@app.command("retry-runs")
def retry_runs(
    workflow: OfWorkflow = None,
    state: Annotated[
        str | None, typer.Option("--state", help="State: failed (the default) or cancelled.")
    ] = None,
    everything: Everything = False,
    per_second: PerSecond = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    no_wait: NoWait = False,
    output: Output = Format.table,
) -> None:
    """Retry all runs that match, from the tasks that did not succeed. Without a state: the failed runs."""
    about = {"verb": "retry_runs", **pace_of(per_second)}
    _operate_on(workflow, state, about, everything, dry_run, yes, no_wait, output)


def _operate_on(
    workflow: str | None,
    state: str | None,
    about: dict[str, Any],
    everything: bool,
    dry_run: bool,
    yes: bool,
    no_wait: bool,
    output: Format,
) -> None:
    client = connect()
    wanted = {
        "workflow": None if workflow is None else find_workflow(client, workflow)["id"],
        "state": state,
    }
    operate(client, about, wanted, everything, dry_run, yes, no_wait, output)
