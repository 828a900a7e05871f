"""``carillon apply`` and ``diff``: bring jobs to their definitions in files."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from carillon.client import Client, connect
from carillon.errors import DIFFERS, OK, Failure, Misuse
from carillon.files.definitions import read_definitions
from carillon.files.plan import Step, carry_out, orphans, plan
from carillon.output import Format, Output, print_document, say, write

Files = Annotated[
    list[Path],
    typer.Option("--file", "-f", help="File with YAML or JSON; - is standard input; may be repeated."),
]
Owner = Annotated[
    str | None,
    typer.Option("--owner", help="Label the jobs with this owner; `owner:` in a file does the same."),
]
Prune = Annotated[bool, typer.Option("--prune", help="Delete the owner's jobs that are in no file.")]


def apply(
    file: Files,
    owner: Owner = None,
    prune: Prune = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
    output: Output = Format.table,
) -> None:
    """Create the jobs of a file, or replace their definitions. Applied again, the same file changes nothing.

    The server checks all jobs before the first is written. If it refuses one, none is written.
    """
    client = connect()
    steps = _steps(client, file, owner, prune)
    _print(steps, output)
    if dry_run:
        return
    _confirm([step.name for step in steps if step.action == "delete"], yes=yes)
    refusals = carry_out(client, steps)
    say(_summary(steps, "done" if not refusals else f"{len(refusals)} refused"))
    if refusals:
        raise Failure(*refusals)


def diff(file: Files, owner: Owner = None, prune: Prune = False, output: Output = Format.table) -> None:
    """Show the changes that `apply` would make; exit code 6 if there are any."""
    steps = _steps(connect(), file, owner, prune)
    _print(steps, output)
    raise typer.Exit(DIFFERS if any(step.action != "keep" for step in steps) else OK)


def _steps(client: Client, files: list[Path], owner: str | None, prune: bool) -> list[Step]:
    definitions, owner = read_definitions(files, owner=owner)
    if prune and owner is None:
        raise Misuse("--prune needs an owner, whose jobs may be deleted: --owner NAME, or owner: in a file.")
    if prune and not definitions:
        raise Misuse(f"The files hold no job; --prune would delete all that {owner} has.")
    steps, refusals = plan(client, definitions)
    if refusals:
        raise Failure(*refusals, "Nothing was changed.")
    if prune and owner is not None:
        steps += orphans(client, owner=owner, names=[definition.name for definition in definitions])
    return steps


def _print(steps: list[Step], output: Format) -> None:
    for note in filter(None, (step.note() for step in steps)):
        say(note)
    if output is not Format.table:
        print_document([step.document() for step in steps], output=output)
        return
    for step in steps:
        if step.action != "keep":
            write("\n".join(step.lines()))
    if all(step.action == "keep" for step in steps):
        say(f"Nothing to change in {len(steps)} jobs.")


def _confirm(names: list[str], *, yes: bool) -> None:
    """Raises ``Misuse`` if there is no terminal to ask on, and ``Failure`` if the answer is no."""
    if not names or yes:
        return
    if not sys.stdin.isatty():
        raise Misuse(f"{len(names)} jobs would be deleted; say --yes. Nothing was changed.")
    if not typer.confirm(f"Delete {len(names)} jobs?", err=True):
        raise Failure("Nothing was changed.")


def _summary(steps: list[Step], how: str) -> str:
    counts = {"create": "created", "replace": "replaced", "delete": "deleted", "keep": "as they were"}
    told = [f"{n} {word}" for key, word in counts.items() if (n := sum(step.action == key for step in steps))]
    return f"{', '.join(told) or 'no jobs'}: {how}."
