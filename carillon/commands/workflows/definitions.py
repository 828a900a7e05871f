"""``carillon workflows list``, ``get``, ``graph``, ``apply`` and ``delete``: the definitions of workflows."""

from graphlib import TopologicalSorter
from pathlib import Path
from typing import Annotated, Any

import typer

from carillon.client import Client, connect
from carillon.commands import definition as options
from carillon.errors import NOT_FOUND, Failure, Misuse
from carillon.output import All, Format, Limit, Output, page_of, print_object, print_rows, say
from carillon.reference import is_id

app = typer.Typer(no_args_is_help=True, help="Graphs of tasks: define, run, follow and steer them.")
COLUMNS = ("name", "version", "schedule_status", "next_fire_at", "updated_at", "id")
GRAPH_COLUMNS = ("task", "job_type", "when", "after")
#: A task is shown this much further to the right than those before it.
INDENT = "  "
WorkflowReference = Annotated[str, typer.Argument(metavar="WORKFLOW", help="A workflow's name or id.")]
File = Annotated[
    Path, typer.Option("--file", "-f", help="YAML or JSON with one definition; - is standard input.")
]


@app.command("list")
def list_workflows(limit: Limit = 50, everything: All = False, output: Output = Format.table) -> None:
    """List workflows, newest first."""
    rows = connect().rows("/workflows", limit=None if everything else limit + 1)
    print_rows(page_of(rows, limit=limit, everything=everything), COLUMNS, output=output)


@app.command()
def get(workflow: WorkflowReference, output: Output = Format.table) -> None:
    """Show one workflow with its definition."""
    print_object(find_workflow(connect(), workflow), output=output)


@app.command()
def graph(workflow: WorkflowReference, output: Output = Format.table) -> None:
    """Show the tasks of a workflow, each further to the right than those before it."""
    written = find_workflow(connect(), workflow)["definition"]
    after: dict[str, list[dict[str, Any]]] = {key: [] for key in written["tasks"]}
    for edge in written["edges"]:
        after[edge["after"]].append({"task": edge["before"], "on": edge["on"]})
    tasks = [
        {"task": key, "after": after[key], "job_type": task["job_type"], "when": task["when"]}
        for key, task in written["tasks"].items()
    ]
    if output is not Format.table:
        print_rows(tasks, GRAPH_COLUMNS, output=output)
        return
    print_rows(
        [row | {"after": ", ".join(map(_edge, row["after"]))} for row in indented(tasks)],
        GRAPH_COLUMNS,
        output=output,
    )


@app.command()
def apply(file: File, output: Output = Format.table) -> None:
    """Create the workflow of a file, or its next version. Applied again, the same file changes nothing."""
    definition = options.read_definition(file)
    name = definition.get("name")
    if not isinstance(name, str) or not name:
        raise Misuse(f"{file}: name → Is required, as a text: it identifies a workflow in a file.")
    client = connect()
    present = _named(client, name)
    if present is None:
        written, told = client.post("/workflows", definition), "created"
    else:
        headers = {"If-Match": f'"{present["version"]}"'}
        written = client.send("PUT", f"/workflows/{present['id']}", definition, headers=headers)
        is_new = written["version"] != present["version"]
        told = f"updated to version {written['version']}" if is_new else "as it was"
    if output is not Format.table:
        print_object(written, output=output)
    say(f"{name}: {told}.")


@app.command()
def delete(workflow: WorkflowReference) -> None:
    """Delete a workflow that has no unfinished run; its runs stay readable until retention."""
    client = connect()
    found = find_workflow(client, workflow)
    client.send("DELETE", f"/workflows/{found['id']}", headers={"If-Match": f'"{found["version"]}"'})
    say(f"{found['name']} is deleted.")


def find_workflow(client: Client, reference: str) -> dict[str, Any]:
    """A workflow with its definition, by its id or its name. Raises ``Failure`` where there is none."""
    if not is_id(reference):
        named = _named(client, reference)
        if named is None:
            raise Failure(
                f"No workflow is named {reference!r}; `carillon workflows list` shows them.", code=NOT_FOUND
            )
        reference = named["id"]
    found: dict[str, Any] = client.get(f"/workflows/{reference}")
    return found


def _named(client: Client, name: str) -> dict[str, Any] | None:
    return next(client.rows("/workflows", limit=1, name=name), None)


def indented(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tasks, each after all before it, and further to the right."""
    by_key = {task["task"]: task for task in tasks}
    before = {key: [edge["task"] for edge in task["after"]] for key, task in by_key.items()}
    depth: dict[str, int] = {}
    for key in TopologicalSorter(before).static_order():
        depth[key] = max((depth[other] + 1 for other in before[key]), default=0)
    order = sorted(by_key, key=lambda key: depth[key])
    return [by_key[key] | {"task": INDENT * depth[key] + key} for key in order]


def _edge(edge: dict[str, Any]) -> str:
    return edge["task"] if edge["on"] in (None, "on_success") else f"{edge['task']} ({edge['on']})"
