"""``carillon secrets``: values go in by prompt or standard input, never by the command line, and never come out."""

import sys
from typing import Annotated
from urllib.parse import quote

import typer

from carillon.client import connect
from carillon.errors import Misuse
from carillon.output import All, Format, Limit, Output, page_of, print_object, print_rows, say

app = typer.Typer(no_args_is_help=True, help="Keep and forget secrets; their values are never shown.")
Name = Annotated[str, typer.Argument(help="As in {{secret:NAME}}.")]


@app.command("list")
def list_secrets(limit: Limit = 50, everything: All = False, output: Output = Format.table) -> None:
    """List secrets by name."""
    rows = page_of(
        connect().rows("/secrets", limit=None if everything else limit + 1),
        limit=limit,
        everything=everything,
    )
    print_rows(rows, tuple(rows[0]) if rows else ("name",), output=output)


@app.command("set")
def set_secret(name: Name, output: Output = Format.table) -> None:
    """Keep a secret under NAME; asks for the value on a terminal, else reads it from standard input.

    One line break at the end of standard input is not part of the value.
    """
    client = connect()
    if sys.stdin.isatty():
        value = typer.prompt("Value", hide_input=True, confirmation_prompt=True, err=True)
    else:
        try:
            value = sys.stdin.buffer.read().decode()
        except UnicodeDecodeError:
            raise Misuse("The value on standard input is not UTF-8.") from None
        value = value.removesuffix("\n").removesuffix("\r")
    if not value:
        raise Misuse("The value is empty; give it on standard input.")
    print_object(client.send("PUT", _path(name), {"value": value}), output=output)


@app.command()
def delete(name: Name) -> None:
    """Forget a secret; firings that need it are buried from then on."""
    connect().send("DELETE", _path(name))
    say(f"{name} is forgotten.")


def _path(name: str) -> str:
    if not name or name.startswith("."):
        raise Misuse(f"{name!r} is no name of a secret: letters, digits, _ . and -, a letter or digit first.")
    return f"/secrets/{quote(name, safe='')}"
