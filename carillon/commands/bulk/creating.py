"""``carillon bulk create``: the jobs of files, a thousand a call, each with its answer."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from carillon.client import Client, connect
from carillon.errors import Failure, Misuse, Problem
from carillon.files.definitions import Definition, read_definitions
from carillon.output import Format, Output, print_document, progress, say

#: The bounds of one call: its number of jobs; its bytes and values, somewhat less than 2.5 MB and 75,000.
MAX_JOBS = 1000
MAX_BYTES, MAX_VALUES = 2_000_000, 70_000


def create(
    file: Annotated[
        list[Path],
        typer.Option("--file", "-f", help="File with YAML or JSON; - is standard input; may be repeated."),
    ],
    all_or_nothing: Annotated[
        bool, typer.Option("--all-or-nothing", help="Create none if one is refused; up to 1,000 jobs.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Let the server only check the definitions.")
    ] = False,
    output: Output = Format.table,
) -> None:
    """Create the jobs of files, a thousand a call; those that are refused are told with file and line.

    A job whose name is taken is refused: `apply` is for replacing.
    """
    definitions, _ = read_definitions(file, owner=None)
    if not definitions:
        raise Misuse("The files hold no job.")
    if all_or_nothing and len(definitions) > MAX_JOBS:
        raise Misuse(f"--all-or-nothing goes up to {MAX_JOBS} jobs; the files have {len(definitions)}.")
    how = {"all_or_nothing": all_or_nothing, "dry_run": dry_run}
    parts = [definitions] if all_or_nothing else _parts(definitions)
    results: list[dict[str, Any]] = []
    refusals: list[str] = []
    client = connect()
    for part in progress(parts, "Creating"):
        answered, refused = _create(client, part, how)
        results += answered
        refusals += refused
    if output is not Format.table:
        print_document(results, output=output)
    done = sum(result["status"] == 201 for result in results)
    say(
        f"{done} {'would be created' if dry_run else 'created'}, {len(definitions) - done} "
        f"{'would be refused' if dry_run else 'refused'}."
    )
    if refusals:
        raise Failure(*refusals)


def _parts(definitions: Sequence[Definition]) -> list[list[Definition]]:
    """The definitions in order, in as few calls as possible."""
    parts: list[list[Definition]] = []
    room = values_left = 0
    for definition in definitions:
        text = json.dumps(definition.body)
        size, values = len(text), sum(map(text.count, ",[{"))
        if not parts or len(parts[-1]) == MAX_JOBS or size > room or values > values_left:
            parts.append([])
            room, values_left = MAX_BYTES, MAX_VALUES
        parts[-1].append(definition)
        room -= size
        values_left -= values
    return parts


def _create(
    client: Client, part: Sequence[Definition], how: dict[str, bool]
) -> tuple[list[dict[str, Any]], list[str]]:
    """The result of each job, and the refusals with their places."""
    try:
        answer = client.post("/jobs/bulk", {"jobs": [definition.body for definition in part], **how})
    except Problem as problem:
        if not how["all_or_nothing"] or not problem.errors:
            raise
        return [], [_placed(part, field, message) for field, message in problem.errors]
    refusals = []
    for result in answer["results"]:
        if fault := result.get("problem"):
            definition = part[result["index"]]
            refusals += [
                f"{definition.place(name)}: {definition.name}: {name} → {message}"
                for name, message in Problem(result["status"], fault).errors
            ] or [f"{definition.place()}: {definition.name}: {fault['detail']}"]
    return answer["results"], refusals


def _placed(part: Sequence[Definition], field: str, message: str) -> str:
    """``jobs[3].schedule.cron`` as the place in its file."""
    index, _, name = field.removeprefix("jobs[").partition("]")
    if not (field.startswith("jobs[") and index.isdigit()):
        return f"{field} → {message}"
    definition, name = part[int(index)], name.lstrip(".")
    return f"{definition.place(name)}: {definition.name}: {name} → {message}"
