"""``carillon workflows schedule``: the schedule that begins runs of a workflow. Runs have a ``pause`` of their own."""

from typing import Any

import typer

from carillon.client import Client, connect
from carillon.commands.jobs import (
    BACKFILL_COLUMNS,
    Backfill,
    BeyondRetention,
    DryRun,
    End,
    Reason,
    Start,
    Until,
    backfill_body,
    pause_body,
)
from carillon.commands.workflows.definitions import WorkflowReference, app, find_workflow
from carillon.output import All, Format, Limit, Output, page_of, print_object, print_rows

COLUMNS = ("name", "schedule_status", "schedule_status_reason", "schedule_paused_until", "next_fire_at")
schedule = typer.Typer(no_args_is_help=True, help="Pause, resume and backfill the schedule of a workflow.")
app.add_typer(schedule, name="schedule")


@schedule.command()
def pause(
    workflow: WorkflowReference, reason: Reason = "", until: Until = "", output: Output = Format.table
) -> None:
    """Begin no run by the schedule until it is resumed, or until an instant; runs that have begun go on."""
    client = connect()
    _print(client.post(f"{_path(client, workflow)}/pause", pause_body(reason, until)), output)


@schedule.command()
def resume(workflow: WorkflowReference, output: Output = Format.table) -> None:
    """Resume the schedule from now on."""
    client = connect()
    _print(client.post(f"{_path(client, workflow)}/resume"), output)


@schedule.command()
def backfill(
    workflow: WorkflowReference,
    start: Start,
    end: End,
    dry_run: DryRun = False,
    beyond_retention: BeyondRetention = False,
    output: Output = Format.table,
) -> None:
    """Begin a run for each instant of a past stretch that had none; the same again changes nothing."""
    client = connect()
    body = backfill_body(start, end, dry_run=dry_run, beyond_retention=beyond_retention)
    print_object(client.post(f"{_path(client, workflow)}/backfills", body), output=output)


@schedule.command("cancel-backfill")
def cancel_backfill(workflow: WorkflowReference, backfill: Backfill, output: Output = Format.table) -> None:
    """Cancel a backfill; runs that it has begun go on."""
    client = connect()
    print_object(client.post(f"{_path(client, workflow)}/backfills/{backfill}/cancel"), output=output)


@schedule.command()
def backfills(
    workflow: WorkflowReference, limit: Limit = 50, everything: All = False, output: Output = Format.table
) -> None:
    """List the backfills of the schedule and how far they have come, newest first."""
    client = connect()
    rows = client.rows(f"{_path(client, workflow)}/backfills", limit=None if everything else limit + 1)
    print_rows(page_of(rows, limit=limit, everything=everything), BACKFILL_COLUMNS, output=output)


def _path(client: Client, workflow: str) -> str:
    return f"/workflows/{find_workflow(client, workflow)['id']}"


def _print(workflow: dict[str, Any], output: Format) -> None:
    if output is Format.table:
        print_rows([workflow], COLUMNS, output=output)
    else:
        print_object(workflow, output=output)
