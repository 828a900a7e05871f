"""``carillon bulk cancel-runs`` and the like: one verb for all runs of workflows that match."""

from typing import Annotated, Any

import typer

from carillon.client import connect
from carillon.commands.bulk.acting import DryRun, Everything, NoWait, PerSecond, Yes, app, operate, pace_of
from carillon.commands.workflows.definitions import find_workflow
from carillon.output import Format, Output

OfWorkflow = Annotated[str | None, typer.Option("--workflow", help="Of this one: its name or id.")]
Running = Annotated[str | None, typer.Option("--state", help="running: all of them that have not ended.")]


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
    """Start nothing more of all runs that match for good, and ask what runs to stop."""
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
    """Start what is ready of all paused runs that match."""
    about = {"verb": "resume_runs", **pace_of(per_second)}
    _operate_on(workflow, state, about, everything, dry_run, yes, no_wait, output)


@app.command("retry-runs")
def retry_runs(
    workflow: OfWorkflow = None,
    state: Annotated[str | None, typer.Option("--state", help="failed by default, or cancelled.")] = None,
    everything: Everything = False,
    per_second: PerSecond = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    no_wait: NoWait = False,
    output: Output = Format.table,
) -> None:
    """Let all runs that match go on from what did not succeed; failed ones unless a state is named."""
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
