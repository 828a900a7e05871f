"""``carillon workflows run``, ``watch`` and the like: one time that a version is carried out."""

from typing import Annotated, Any

import typer

from carillon import client as http
from carillon.client import Client, connect
from carillon.commands import definition as options
from carillon.commands.service import print_explanation
from carillon.commands.workflows.definitions import WorkflowReference, app, find_workflow, indented
from carillon.errors import Failure, Misuse
from carillon.output import All, Format, Limit, Output, page_of, print_object, print_rows, renewed_rows, say
from carillon.reference import is_id

COLUMNS = ("created_at", "workflow_name", "version", "state", "finished_at", "id")
TASK_COLUMNS = ("task", "state", "reason", "attempt_count", "due_at", "waits_for", "trigger_id")
WATCH_SECONDS = 0.5
RunId = Annotated[str, typer.Argument(metavar="RUN", help="A run's id.")]
Task = Annotated[list[str] | None, typer.Option("--task", help="Begin again with it; may be repeated.")]

Skipped = Annotated[
    list[str] | None,
    typer.Option("--skip", help="Go on as if this task, which failed, had succeeded; may be repeated."),
]


@app.command()
def run(
    workflow: WorkflowReference,
    given: Annotated[
        str | None, typer.Option("--input", help="JSON, or @FILE, or @- for standard input.")
    ] = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option("--idempotency-key", help="Begin one run under that key, made up by default."),
    ] = None,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait for its end.")] = False,
    output: Output = Format.table,
) -> None:
    """Run a workflow now and follow it to its end; exit code 1 unless it succeeds."""
    client = connect()
    body = None if given is None else {"input": options.read_payload(given, of="--input")}
    begun = client.post(f"/workflows/{find_workflow(client, workflow)['id']}/runs", body, key=idempotency_key)
    if no_wait:
        print_run(begun, output)
        return
    _follow(client, begun, output)


@app.command()
def runs(
    workflow: Annotated[str | None, typer.Option(help="Of this one: its name or id.")] = None,
    state: Annotated[str | None, typer.Option(help="running, succeeded, failed or cancelled.")] = None,
    limit: Limit = 50,
    everything: All = False,
    output: Output = Format.table,
) -> None:
    """List runs, newest first."""
    client = connect()
    rows = client.rows(
        "/workflow-runs",
        limit=None if everything else limit + 1,
        workflow=None if workflow is None else find_workflow(client, workflow)["id"],
        state=state,
    )
    print_rows(page_of(rows, limit=limit, everything=everything), COLUMNS, output=output)


@app.command()
def show(run: RunId, output: Output = Format.table) -> None:
    """Show a run: each task, its state and what it waits for."""
    print_run(connect().get(path_of(run)), output)


@app.command()
def explain(
    run: RunId,
    task: Annotated[str | None, typer.Option("--task", help="Explain this task of it.")] = None,
    output: Output = Format.table,
) -> None:
    """Tell why a run has not ended, or why a task of it waits or how that ended."""
    answer = connect().get(f"{path_of(run)}/explain", task=task)
    print_explanation(answer if task is None or output is not Format.table else answer["task"], output)


@app.command()
def watch(run: RunId, output: Output = Format.table) -> None:
    """Follow a run to its end; exit code 1 unless it succeeds."""
    client = connect()
    _follow(client, client.get(path_of(run)), output)


@app.command()
def pause(run: RunId, output: Output = Format.table) -> None:
    """Start nothing more of a run until it is resumed; what has started goes on."""
    print_run(connect().post(f"{path_of(run)}/pause"), output)


@app.command()
def resume(run: RunId, output: Output = Format.table) -> None:
    """Start what is ready of a paused run."""
    print_run(connect().post(f"{path_of(run)}/resume"), output)


@app.command()
def cancel(run: RunId, output: Output = Format.table) -> None:
    """Start nothing more of a run for good, and ask what runs to stop."""
    print_run(connect().post(f"{path_of(run)}/cancel"), output)


@app.command()
def retry(run: RunId, task: Task = None, skip: Skipped = None, output: Output = Format.table) -> None:
    """Let a run that ended go on from what did not succeed, or from tasks; and from all that comes after these."""
    body = {"tasks": task, "skip": skip}
    print_run(
        connect().post(f"{path_of(run)}/retry", {name: given for name, given in body.items() if given}),
        output,
    )


def _follow(client: Client, run: dict[str, Any], output: Format) -> None:
    """Print the run at its end. Raises ``Failure`` unless it succeeded. Ctrl-C leaves it running, and says so."""
    path = path_of(run["id"])
    try:
        with renewed_rows(TASK_COLUMNS, output=output) as renew:
            renew(_rows(run))
            while run["state"] == "running":
                http.pause(WATCH_SECONDS)
                run = client.get(path)
                renew(_rows(run))
    except KeyboardInterrupt:
        say(f"It goes on: `carillon workflows watch`, `pause` or `cancel` {run['id']}.")
        raise
    if output is not Format.table:
        print_object(run, output=output)
    _tell(run)
    if run["state"] != "succeeded":
        went_wrong = [task["task"] for task in run["tasks"] if task["state"] in ("failed", "cancelled")]
        raise Failure(
            f"Did not succeed: {', '.join(went_wrong)}. `carillon workflows retry {run['id']}` goes on from there."
        )


def print_run(run: dict[str, Any], output: Format) -> None:
    """Print a run with its tasks."""
    if output is not Format.table:
        print_object(run, output=output)
        return
    print_rows(_rows(run), TASK_COLUMNS, output=output)
    _tell(run)


def _rows(run: dict[str, Any]) -> list[dict[str, Any]]:
    return [task | {"waits_for": _waits_for(task)} for task in indented(run["tasks"])]


def _waits_for(task: dict[str, Any]) -> str:
    if task["state"] == "started" and task["wait"]:
        wait = task["wait"]
        return {"signal": f"signal {wait.get('name')}", "approval": f"approval: {wait.get('message')}"}.get(
            wait["type"], "time"
        )
    if task["state"] == "started" and task["inner_run_id"]:
        return f"run {task['inner_run_id']}"
    if task["items_left"] is not None:
        return f"{task['items_left']:,} of {task['item_count']:,} items"
    return ", ".join(task["waits_for"])


def _tell(run: dict[str, Any]) -> None:
    paused = f", paused since {run['paused_at']}" if run["paused_at"] else ""
    say(f"{run['workflow_name']} version {run['version']}: {run['state']}{paused}; run {run['id']}.")


def path_of(run: str) -> str:
    """Where the API has a run. Raises ``Misuse``."""
    if not is_id(run):
        raise Misuse(f"{run!r} is no run's id; `carillon workflows runs` shows them.")
    return f"/workflow-runs/{run}"
