"""``carillon tail``: events as they happen."""

from itertools import islice
from typing import Annotated, Any

import typer

from carillon.client import connect
from carillon.commands.workflows.definitions import find_workflow
from carillon.feed import follow
from carillon.files.yaml_text import dump
from carillon.output import Format, Output, json_text, shown, write
from carillon.reference import job_id

_LEFT_OUT = ("job_name", "workflow_name")


def tail(
    job: Annotated[
        str | None, typer.Option("--job", help="Only events of this job: a name or an id.")
    ] = None,
    workflow: Annotated[
        str | None,
        typer.Option(
            "--workflow", help="Only events of this workflow, its runs and their tasks: a name or an id."
        ),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", help="Kind of event, such as trigger.dead; `trigger` means all of its kinds."),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option("--after", help="Begin after this event's id; `start` means all events that are kept."),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="End after this many events.")
    ] = None,
    no_stream: Annotated[
        bool, typer.Option("--no-stream", help="Read pages every two seconds instead of a stream.")
    ] = False,
    output: Output = Format.table,
) -> None:
    """Print events as they happen, until Ctrl-C; goes on by itself where the server was away.

    With -o json each event is a line.
    """
    client = connect()
    wanted = {
        **({"job_id": job_id(client, job)} if job else {}),
        **({"workflow_id": find_workflow(client, workflow)["id"]} if workflow else {}),
    }
    events = (
        event
        for event in follow(client, after=after, streams=not no_stream)
        if all(event.get(name) == value for name, value in wanted.items()) and _is_of(event["kind"], kind)
    )
    for event in islice(events, count):
        write(_line(event, output))


def _is_of(kind: str, wanted: list[str] | None) -> bool:
    return not wanted or any(kind == one or kind.startswith(f"{one}.") for one in wanted)


def _line(event: dict[str, Any], output: Format) -> str:
    if output is Format.json:
        return json_text(event)
    if output is Format.yaml:
        return f"---\n{dump(event)}"
    data = event["data"]
    details = [
        f"{name}={shown(value)}"
        for name, value in data.items()
        if name not in _LEFT_OUT and value not in (None, "")
    ]
    about = data.get("job_name") or data.get("workflow_name") or event["job_id"]
    return "  ".join([shown(event["at"]), f"{shown(event['kind']):<17}", shown(about), *details]).replace(
        "\n", " "
    )
