"""``carillon workflows signal``, ``approve``, ``refuse`` and ``items``: single tasks of a run."""

from typing import Annotated

import typer

from carillon.client import connect
from carillon.commands import definition as options
from carillon.commands.workflows.definitions import app
from carillon.commands.workflows.runs import RunId, path_of, print_run
from carillon.output import All, Format, Limit, Output, page_of, print_rows

ITEM_COLUMNS = ("item", "state", "reason", "value", "finished_at", "trigger_id")
TaskName = Annotated[str, typer.Argument(metavar="TASK", help="A task's key.")]
Comment = Annotated[str, typer.Option(help="Comment on the answer.")]


@app.command()
def signal(
    run: RunId,
    name: Annotated[str, typer.Argument(metavar="SIGNAL", help="The signal's name.")],
    payload: Annotated[
        str | None, typer.Option("--payload", help="Payload: JSON, or @FILE, or @- for standard input.")
    ] = None,
    output: Output = Format.table,
) -> None:
    """Send a run the signal that tasks of it wait for."""
    body = None if payload is None else {"payload": options.read_payload(payload, of="--payload")}
    print_run(connect().post(f"{path_of(run)}/signals/{name}", body), output)


@app.command()
def approve(run: RunId, task: TaskName, comment: Comment = "", output: Output = Format.table) -> None:
    """Approve the request of a task: the task succeeds."""
    print_run(connect().post(f"{path_of(run)}/tasks/{task}/approve", {"comment": comment}), output)


@app.command()
def refuse(run: RunId, task: TaskName, comment: Comment = "", output: Output = Format.table) -> None:
    """Refuse the request of a task: the task is cancelled."""
    print_run(connect().post(f"{path_of(run)}/tasks/{task}/refuse", {"comment": comment}), output)


@app.command()
def items(
    run: RunId, task: TaskName, limit: Limit = 50, everything: All = False, output: Output = Format.table
) -> None:
    """List the items of a map, in the order of its list."""
    rows = connect().rows(f"{path_of(run)}/tasks/{task}/items", limit=None if everything else limit + 1)
    print_rows(page_of(rows, limit=limit, everything=everything), ITEM_COLUMNS, output=output)
