"""Printing: results to standard output as a table, JSON or YAML; everything else to standard error.

Anybody may have written the text that the server sends. Characters that a terminal obeys are shown as escapes, in
tables, JSON and YAML alike, and never sent to it (``carillon.unseen``).
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.live import Live
from rich.progress import Progress, track
from rich.table import Table
from rich.text import Text

from carillon.files.yaml_text import dump
from carillon.unseen import for_json, for_people

T = TypeVar("T")
#: The fraction of an instant, which a table of rows leaves out; JSON and YAML have the whole instant.
_FRACTION = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d+Z$", re.ASCII)


class Format(StrEnum):
    table = "table"
    json = "json"
    yaml = "yaml"


Output = Annotated[Format, typer.Option("--output", "-o", help="Format of the output.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="Most rows to print; pages are followed.")]
All = Annotated[bool, typer.Option("--all", help="Print all rows.")]


def shown(value: object) -> str:
    """``value`` in one cell, with nothing in it that a terminal would obey."""
    match value:
        case None:
            text = ""
        case bool() | dict() | list():
            text = json.dumps(value, ensure_ascii=False)
        case _:
            text = str(value)
    return for_people(text)


def say(*lines: str) -> None:
    """Print to standard error, for people."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    for line in lines:
        console.print(Text(shown(line)))


def write(text: str) -> None:
    """Print to standard output as it is, for programs."""
    typer.echo(text, nl=not text.endswith("\n"))


def print_rows(rows: Iterable[dict[str, Any]], columns: Sequence[str], *, output: Format) -> None:
    """A list; ``columns`` are those of the table, while JSON and YAML have all."""
    if output is not Format.table:
        print_document(list(rows), output=output)
        return
    _print_table(_table_of(rows, columns))


@contextmanager
def renewed_rows(
    columns: Sequence[str], *, output: Format
) -> Iterator[Callable[[list[dict[str, Any]]], None]]:
    """A table that each call draws again in its place, and that stays as it was last. Off a terminal it is printed
    once, at the end. Formats other than the table print nothing.
    """
    last: list[dict[str, Any]] = []

    def keep(rows: list[dict[str, Any]]) -> None:
        last[:] = rows

    if output is not Format.table:
        yield keep
    elif (console := Console(highlight=False)).is_terminal:
        with Live(console=console) as live:
            yield lambda rows: live.update(_table_of(rows, columns), refresh=True)
    else:
        yield keep
        print_rows(last, columns, output=output)


def _table_of(rows: Iterable[dict[str, Any]], columns: Sequence[str]) -> Table:
    table = Table(box=None, header_style="bold")
    for column in columns:
        # Folded, never cut, so that an id can be copied.
        table.add_column(column.replace("_", " "), overflow="fold", no_wrap=column == "id")
    for row in rows:
        table.add_row(*(Text(_FRACTION.sub(r"\1Z", shown(row.get(column)))) for column in columns))
    return table


def print_object(thing: dict[str, Any], *, output: Format) -> None:
    """One object; as a table a row for each field."""
    if output is not Format.table:
        print_document(thing, output=output)
        return
    table = Table(box=None, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in thing.items():
        text = dump(value).rstrip() if isinstance(value, dict | list) and value else shown(value)
        table.add_row(Text(shown(name), style="bold"), Text(shown(text)))
    _print_table(table)


def terminal_width() -> int | None:
    """Columns of the terminal that results go to; None where they go elsewhere."""
    console = Console()
    return console.width if console.is_terminal else None


def print_document(document: Any, *, output: Format) -> None:
    if output is Format.json:
        write(json_text(document, indent=2))
    else:
        write(dump(document))


def json_text(document: Any, indent: int | None = None) -> str:
    return for_json(json.dumps(document, indent=indent, ensure_ascii=False))


def _print_table(table: Table) -> None:
    """In a pipe nothing is cut off or wrapped: rows stay lines."""
    console = Console(highlight=False)
    if not console.is_terminal:
        for column in table.columns:
            column.no_wrap = True
        console = Console(highlight=False, width=10_000)
        with console.capture() as capture:
            console.print(table)
        write("\n".join(line.rstrip() for line in capture.get().splitlines()))
        return
    console.print(table)


def progress(items: Sequence[T], label: str) -> Iterable[T]:
    """``items``, with a bar on a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal or len(items) < 2:
        return items
    return track(items, description=label, console=console, transient=True)


@contextmanager
def bar(label: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """On a terminal, a bar that a call moves to the number done; elsewhere the call does nothing."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda done: None
        return
    with Progress(console=console, transient=True) as shown_bars:
        row = shown_bars.add_task(label, total=total)
        yield lambda done: shown_bars.update(row, completed=done)


def page_of(rows: Iterable[dict[str, Any]], *, limit: int, everything: bool) -> list[dict[str, Any]]:
    """The rows to print; says so when there are more. ``rows`` must be asked for one more than ``limit``."""
    found = list(rows)
    if not everything and len(found) > limit:
        say(f"There are more than {limit}: --limit N or --all shows them.")
        return found[:limit]
    return found
