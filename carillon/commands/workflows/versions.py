"""``carillon workflows versions``, ``diff`` and ``restore``: earlier versions of a workflow."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from carillon.client import connect
from carillon.commands.workflows.definitions import WorkflowReference, app, find_workflow
from carillon.errors import DIFFERS, OK, Misuse
from carillon.output import All, Format, Limit, Output, page_of, print_object, print_rows, say

COLUMNS = ("number", "task_count", "created_at")
DIFF_COLUMNS = ("change", "of", "field", "before", "after")
Number = Annotated[int, typer.Argument(metavar="VERSION", min=1, help="A version's number.")]


@app.command()
def versions(
    workflow: WorkflowReference, limit: Limit = 50, everything: All = False, output: Output = Format.table
) -> None:
    """List the versions of a workflow, newest first."""
    client = connect()
    path = f"/workflows/{find_workflow(client, workflow)['id']}/versions"
    rows = client.rows(path, limit=None if everything else limit + 1)
    print_rows(page_of(rows, limit=limit, everything=everything), COLUMNS, output=output)


@app.command()
def diff(
    workflow: WorkflowReference,
    before: Annotated[
        int | None, typer.Argument(min=1, help="First version to compare; the last but one by default.")
    ] = None,
    after: Annotated[
        int | None, typer.Argument(min=1, help="Second version to compare; the present one by default.")
    ] = None,
    output: Output = Format.table,
) -> None:
    """Show the differences between two versions of a workflow; exit code 6 if there are any."""
    client = connect()
    found = find_workflow(client, workflow)
    after = after or found["version"]
    before = before or found["version"] - 1
    if not before:
        raise Misuse(f"{found['name']} has one version; name two to compare.")
    compared = client.get(f"/workflows/{found['id']}/versions/{before}/compare/{after}")
    rows = list(_rows(compared))
    if output is not Format.table:
        print_object(compared, output=output)
    elif rows:
        print_rows(rows, DIFF_COLUMNS, output=output)
    some = f"{len(rows) or 'no'} difference{'' if len(rows) == 1 else 's'}"
    say(f"{found['name']}: {some} from version {before} to {after}.")
    raise typer.Exit(DIFFERS if rows else OK)


@app.command()
def restore(workflow: WorkflowReference, version: Number, output: Output = Format.table) -> None:
    """Restore an earlier version of a workflow as its next version."""
    client = connect()
    found = find_workflow(client, workflow)
    written = client.send(
        "POST",
        f"/workflows/{found['id']}/versions/{version}/restore",
        headers={"If-Match": f'"{found["version"]}"'},
    )
    if output is not Format.table:
        print_object(written, output=output)
    is_new = written["version"] != found["version"]
    told = f"version {written['version']} is as version {version} was" if is_new else "as it was"
    say(f"{written['name']}: {told}.")


def _rows(compared: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for change in compared["options"]:
        yield _changed("workflow", change)
    for told in ("added", "removed"):
        for task in compared[f"tasks_{told}"]:
            yield {"change": told, "of": f"task {task}"}
    for task in compared["tasks_changed"]:
        for change in task["changes"]:
            yield _changed(f"task {task['task']}", change)
    for told in ("added", "removed"):
        for edge in compared[f"edges_{told}"]:
            on = f" ({edge['on']})" if edge["on"] else ""
            yield {"change": told, "of": f"edge {edge['before']} → {edge['after']}{on}"}


def _changed(of: str, change: dict[str, Any]) -> dict[str, Any]:
    sides = {side: change.get(side) for side in ("before", "after")}
    return {"change": "changed", "of": of, "field": change["path"], **sides}
