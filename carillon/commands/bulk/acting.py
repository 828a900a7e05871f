"""``carillon bulk pause`` and the like: one verb for all that match; ``carillon operations``: how far it has come.

The server carries an operation on by itself. The command only watches, so stopping it stops nothing.
"""

import sys
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from carillon import client as http
from carillon.client import Client, connect
from carillon.commands import definition as options
from carillon.commands.triggers import After, Before, OfJob, Reason
from carillon.errors import Failure, Misuse
from carillon.output import All, Format, Limit, Output, bar, page_of, print_object, print_rows, say
from carillon.reference import job_id

app = typer.Typer(
    no_args_is_help=True, help="Create many jobs, or apply one verb to all jobs, triggers or runs that match."
)
operations = typer.Typer(
    no_args_is_help=True, help="Follow, pause and cancel operations on many jobs, triggers or runs."
)
COLUMNS = ("created_at", "verb", "status", "done", "refused", "filter", "id")
WATCH_SECONDS = 0.5
_UNDOABLE = ("pause", "resume", "pause_runs", "resume_runs")
_UNFINISHED = ("running", "paused")
Everything = Annotated[bool, typer.Option("--all", help="All of them.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count those that match.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Do not wait for the end; print the operation.")]
Labels = Annotated[
    str | None, typer.Option(help="Labels, such as env=prod,team=billing: jobs that have all of them.")
]
NamePrefix = Annotated[str | None, typer.Option(help="Beginning of the name.")]
Status = Annotated[str | None, typer.Option(help="Status: active, paused, cancelled or completed.")]
PerSecond = Annotated[
    float | None,
    typer.Option("--per-second", help="Most jobs, triggers or runs per second, from 0.1 to 1,000."),
]
OperationId = Annotated[str, typer.Argument(metavar="OPERATION", help="An operation's id.")]


def _jobs_filter(
    labels: str | None,
    name_prefix: str | None,
    status: str | None,
    job_type: str | None,
    priority: str | None,
) -> dict[str, str | None]:
    return {
        "labels": labels,
        "name_prefix": name_prefix,
        "status": status,
        "job_type": job_type,
        "priority": priority,
    }


def _jobs_command(verb: str, does: str) -> None:
    def command(
        labels: Labels = None,
        name_prefix: NamePrefix = None,
        status: Status = None,
        job_type: options.JobType = None,
        priority: options.Priority = None,
        everything: Everything = False,
        dry_run: DryRun = False,
        yes: Yes = False,
        no_wait: NoWait = False,
        output: Output = Format.table,
    ) -> None:
        wanted = _jobs_filter(labels, name_prefix, status, job_type, priority)
        operate(connect(), {"verb": verb}, wanted, everything, dry_run, yes, no_wait, output)

    app.command(verb, help=does)(command)


for _verb, _does in (
    ("pause", "Pause all jobs that match."),
    ("cancel", "Cancel all jobs that match, for good."),
    ("delete", "Cancel and delete all jobs that match."),
):
    _jobs_command(_verb, _does)


@app.command()
def resume(
    labels: Labels = None,
    name_prefix: NamePrefix = None,
    status: Status = None,
    job_type: options.JobType = None,
    priority: options.Priority = None,
    everything: Everything = False,
    per_second: PerSecond = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    no_wait: NoWait = False,
    output: Output = Format.table,
) -> None:
    """Let all jobs that match go on from now."""
    wanted = _jobs_filter(labels, name_prefix, status, job_type, priority)
    about = {"verb": "resume", **pace_of(per_second)}
    operate(connect(), about, wanted, everything, dry_run, yes, no_wait, output)


@app.command()
def edit(
    labels: Labels = None,
    name_prefix: NamePrefix = None,
    status: Status = None,
    job_type: options.JobType = None,
    priority: options.Priority = None,
    everything: Everything = False,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="YAML or JSON with the fields to change; - is standard input."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="FIELD=VALUE, such as schedule.cron='0 3 * * *'; JSON or a text; may be repeated."
        ),
    ] = None,
    all_or_nothing: Annotated[
        bool, typer.Option("--all-or-nothing", help="Edit no job if one has to be refused.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    yes: Yes = False,
    no_wait: NoWait = False,
    output: Output = Format.table,
) -> None:
    """Change parts of all jobs that match (JSON merge patch)."""
    changes = options.read_definition(file) if file is not None else {}
    changes = options.with_settings(changes, settings or [])
    if not changes:
        raise Misuse("Give the changes: -f FILE with the fields to change, or --set.")
    wanted = _jobs_filter(labels, name_prefix, status, job_type, priority)
    about = {"verb": "edit", "changes": changes, "all_or_nothing": all_or_nothing}
    operate(connect(), about, wanted, everything, dry_run, yes, no_wait, output)


@app.command()
def replay(
    job: OfJob = None,
    state: Annotated[str | None, typer.Option(help="State of the triggers; dead by default.")] = None,
    reason: Reason = None,
    job_type: options.JobType = None,
    after: After = None,
    before: Before = None,
    everything: Everything = False,
    per_second: PerSecond = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    no_wait: NoWait = False,
    output: Output = Format.table,
) -> None:
    """Send all triggers that match through once more; dead ones unless a state is named."""
    client = connect()
    wanted = _triggers_filter(client, job, state, job_type, after, before) | {"reason": reason}
    about = {"verb": "replay", **pace_of(per_second)}
    operate(client, about, wanted, everything, dry_run, yes, no_wait, output)


@app.command("cancel-triggers")
def cancel_triggers(
    job: OfJob = None,
    state: Annotated[str | None, typer.Option(help="State: pending, queued, running or retrying.")] = None,
    job_type: options.JobType = None,
    after: After = None,
    before: Before = None,
    everything: Everything = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    no_wait: NoWait = False,
    output: Output = Format.table,
) -> None:
    """Cancel all waiting triggers that match, and ask those that run to stop."""
    client = connect()
    wanted = _triggers_filter(client, job, state, job_type, after, before)
    operate(client, {"verb": "cancel_triggers"}, wanted, everything, dry_run, yes, no_wait, output)


def _triggers_filter(
    client: Client,
    job: str | None,
    state: str | None,
    job_type: str | None,
    after: str | None,
    before: str | None,
) -> dict[str, str | None]:
    return {
        "job": None if job is None else job_id(client, job),
        "state": state,
        "job_type": job_type,
        "scheduled_for_after": after,
        "scheduled_for_before": before,
    }


def pace_of(per_second: float | None) -> dict[str, float]:
    return {} if per_second is None else {"per_second": per_second}


@operations.command("list")
def list_operations(limit: Limit = 50, everything: All = False, output: Output = Format.table) -> None:
    """List operations, newest first."""
    rows = connect().rows("/operations", limit=None if everything else limit + 1)
    print_rows(page_of(rows, limit=limit, everything=everything), COLUMNS, output=output)


@operations.command()
def get(operation: OperationId, output: Output = Format.table) -> None:
    """Show one operation."""
    print_object(connect().get(_path(operation)), output=output)


@operations.command()
def watch(operation: OperationId, output: Output = Format.table) -> None:
    """Wait for an operation's end; exit code 1 if something was refused."""
    client = connect()
    _finish(_watched(client, client.get(_path(operation)), total=None), output)


@operations.command("pause")
def pause_operation(operation: OperationId, output: Output = Format.table) -> None:
    """Pause an operation until it is resumed."""
    print_object(connect().post(f"{_path(operation)}/pause"), output=output)


@operations.command("resume")
def resume_operation(operation: OperationId, output: Output = Format.table) -> None:
    """Resume a paused operation."""
    print_object(connect().post(f"{_path(operation)}/resume"), output=output)


@operations.command()
def cancel(operation: OperationId, output: Output = Format.table) -> None:
    """Cancel an operation; finished changes stay."""
    print_object(connect().post(f"{_path(operation)}/cancel"), output=output)


def operate(
    client: Client,
    about: dict[str, Any],
    filters: dict[str, str | None],
    everything: bool,
    dry_run: bool,
    yes: bool,
    no_wait: bool,
    output: Format,
) -> None:
    wanted = {name: value for name, value in filters.items() if value is not None}
    if bool(wanted) == everything:
        raise Misuse("Give either filters or --all.")
    verb, about = about["verb"], about | {"filter": wanted}
    counted = client.post("/operations", about | {"dry_run": True})
    matching = _told(counted)
    if dry_run:
        _preview(counted, output)
        return
    _confirm(verb.partition("_")[0], matching, yes=yes or verb in _UNDOABLE)
    operation = client.post("/operations", about)
    if no_wait:
        print_object(operation, output=output)
        return
    total = counted["matching"] if counted["exact"] else None
    _finish(_watched(client, operation, total=total), output)


def _told(counted: dict[str, Any]) -> str:
    """How many match; for an edit also how many of the jobs that were looked at would change or refuse."""
    told = f"{'' if counted['exact'] else 'at least '}{counted['matching']} match"
    if "changed" not in counted:
        return told
    some = "" if counted["looked_at"] == counted["matching"] else f" of {counted['looked_at']} checked"
    return f"{told}; {counted['changed']} would change and {counted['refused']} would be refused{some}"


def _preview(counted: dict[str, Any], output: Format) -> None:
    if output is not Format.table:
        print_object(counted, output=output)
        return
    rows = [
        {"job": one["name"], "field": field, **told}
        for one in counted.get("differences", ())
        for field, told in one["changes"].items()
    ]
    if rows:
        print_rows(rows, ("job", "field", "before", "after"), output=output)
    say(*(f"{refusal['id']}: {refusal['detail']}" for refusal in counted.get("refusals", ())))
    say(f"{_told(counted)}; nothing was done.")


def _confirm(verb: str, matching: str, *, yes: bool) -> None:
    """Raises ``Misuse`` if there is no terminal to ask on, and ``Failure`` if the answer is no."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Misuse(f"{matching}; say --yes to {verb} them. Nothing was done.")
    if not typer.confirm(f"{matching}. {verb.capitalize()} them?", err=True):
        raise Failure("Nothing was done.")


def _watched(client: Client, operation: dict[str, Any], *, total: int | None) -> dict[str, Any]:
    """The operation at its end. Ctrl-C leaves it running, and says how to stop it."""
    path = _path(operation["id"])
    try:
        with bar(operation["verb"].replace("_", " ").capitalize(), total) as move:
            while operation["status"] in _UNFINISHED:
                http.pause(WATCH_SECONDS)
                operation = client.get(path)
                checked = operation["checked"] if not operation["done"] else None
                move(checked or operation["done"] + operation["refused"])
    except KeyboardInterrupt:
        say(f"The operation goes on: `carillon operations watch`, `pause` or `cancel` {operation['id']}.")
        raise
    return operation


def _finish(operation: dict[str, Any], output: Format) -> None:
    """Print how the operation ended. Raises ``Failure`` with the first refusals if there are any."""
    if output is not Format.table:
        print_object(operation, output=output)
    say(
        f"{operation['verb']}: {operation['done']} done, {operation['refused']} refused: {operation['status']}."
    )
    if operation["refused"]:
        raise Failure(*(f"{refusal['id']}: {refusal['detail']}" for refusal in operation["refusals"]))


def _path(operation: str) -> str:
    if not operation or operation.startswith("."):
        raise Misuse(f"{operation!r} is not the id of an operation; `carillon operations list` shows them.")
    return f"/operations/{quote(operation, safe='')}"
