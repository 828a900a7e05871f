"""``carillon bulk pause`` and the like: one verb for all that match; ``carillon operations``: how far it has come.

The server carries an operation on by itself. The command only watches, so stopping it stops nothing.
"""

import sys
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

app = typer.Typer(no_args_is_help=True, help="Create many jobs; one verb for all that match.")
operations = typer.Typer(no_args_is_help=True, help="How far operations on many have come.")
COLUMNS = ("created_at", "verb", "status", "done", "refused", "filter", "id")
WATCH_SECONDS = 0.5
_UNDOABLE = ("pause", "resume")
Everything = Annotated[bool, typer.Option("--all", help="All there are.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count them.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Do not wait for its end; print the operation.")]
Labels = Annotated[str | None, typer.Option(help="Such as env=prod,team=billing: all of them.")]
NamePrefix = Annotated[str | None, typer.Option(help="How the name begins.")]
Status = Annotated[str | None, typer.Option(help="active, paused, cancelled or completed.")]
OperationId = Annotated[str, typer.Argument(metavar="OPERATION", help="An operation's id.")]


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
        wanted = {
            "labels": labels,
            "name_prefix": name_prefix,
            "status": status,
            "job_type": job_type,
            "priority": priority,
        }
        _operate(connect(), verb, wanted, everything, dry_run, yes, no_wait, output)

    app.command(verb, help=does)(command)


for _verb, _does in (
    ("pause", "Start nothing more of all jobs that match."),
    ("resume", "Let all jobs that match go on from now."),
    ("cancel", "End all jobs that match for good."),
    ("delete", "Cancel all jobs that match and remove them."),
):
    _jobs_command(_verb, _does)


@app.command()
def replay(
    job: OfJob = None,
    state: Annotated[str | None, typer.Option(help="dead, unless another is named.")] = None,
    reason: Reason = None,
    job_type: options.JobType = None,
    after: After = None,
    before: Before = None,
    everything: Everything = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    no_wait: NoWait = False,
    output: Output = Format.table,
) -> None:
    """Send all triggers that match through once more; dead ones unless a state is named."""
    client = connect()
    wanted = {
        "job": None if job is None else job_id(client, job),
        "state": state,
        "reason": reason,
        "job_type": job_type,
        "scheduled_for_after": after,
        "scheduled_for_before": before,
    }
    _operate(client, "replay", wanted, everything, dry_run, yes, no_wait, output)


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


@operations.command()
def cancel(operation: OperationId, output: Output = Format.table) -> None:
    """Do nothing more of an operation; what was done stays done."""
    print_object(connect().post(f"{_path(operation)}/cancel"), output=output)


def _operate(
    client: Client,
    verb: str,
    filters: dict[str, str | None],
    everything: bool,
    dry_run: bool,
    yes: bool,
    no_wait: bool,
    output: Format,
) -> None:
    wanted = {name: value for name, value in filters.items() if value is not None}
    if bool(wanted) == everything:
        raise Misuse("Give filters, or --all: one of the two.")
    about = {"verb": verb, "filter": wanted}
    counted = client.post("/operations", about | {"dry_run": True})
    matching = f"{'' if counted['exact'] else 'at least '}{counted['matching']} match"
    if dry_run:
        if output is Format.table:
            say(f"{matching}; nothing was done.")
        else:
            print_object(counted, output=output)
        return
    _confirm(verb, matching, yes=yes or verb in _UNDOABLE)
    operation = client.post("/operations", about)
    if no_wait:
        print_object(operation, output=output)
        return
    total = counted["matching"] if counted["exact"] else None
    _finish(_watched(client, operation, total=total), output)


def _confirm(verb: str, matching: str, *, yes: bool) -> None:
    """Raises ``Misuse`` where nobody can be asked, and ``Failure`` for a no."""
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
        with bar(operation["verb"].capitalize(), total) as move:
            while operation["status"] == "running":
                http.pause(WATCH_SECONDS)
                operation = client.get(path)
                move(operation["done"] + operation["refused"])
    except KeyboardInterrupt:
        say(f"It goes on: `carillon operations watch` or `cancel` {operation['id']}.")
        raise
    return operation


def _finish(operation: dict[str, Any], output: Format) -> None:
    """Print what became of it. Raises ``Failure`` with the first refusals if there are any."""
    if output is not Format.table:
        print_object(operation, output=output)
    say(
        f"{operation['verb']}: {operation['done']} done, {operation['refused']} refused: {operation['status']}."
    )
    if operation["refused"]:
        raise Failure(*(f"{refusal['id']}: {refusal['detail']}" for refusal in operation["refusals"]))


def _path(operation: str) -> str:
    if not operation or operation.startswith("."):
        raise Misuse(f"{operation!r} is no operation's id; `carillon operations list` shows them.")
    return f"/operations/{quote(operation, safe='')}"
