"""``carillon secrets`` and ``signing-secret``: values come from a prompt or standard input, and never come out."""

import sys
from typing import Annotated, Any
from urllib.parse import quote

import typer

from carillon.client import connect
from carillon.errors import Misuse
from carillon.output import All, Format, Limit, Output, page_of, print_object, print_rows, say

app = typer.Typer(no_args_is_help=True, help="List, set and delete secrets; their values are never shown.")
signing = typer.Typer(
    no_args_is_help=True, help="Show the state of the secret that signs webhooks, or replace it."
)
Name = Annotated[str, typer.Argument(help="Name of the secret, as in {{secret:NAME}}.")]


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
def set_secret(
    name: Name,
    host: Annotated[
        list[str] | None,
        typer.Option(
            help="Host to which it may be sent: api.example.com, *.example.com, * for any; may be repeated."
        ),
    ] = None,
    output: Output = Format.table,
) -> None:
    """Keep a secret under NAME; asks for the value on a terminal, else reads it from standard input.

    A new one needs a --host; another value under a name keeps its hosts. One line break at the end of standard input is
    not part of the value.
    """
    client = connect()
    body: dict[str, Any] = {"value": _value()}
    if host:
        body["hosts"] = host
    print_object(client.send("PUT", _path(name), body), output=output)


@app.command()
def delete(name: Name) -> None:
    """Delete a secret; firings that need it are buried from then on."""
    connect().send("DELETE", _path(name))
    say(f"{name} is deleted.")


@signing.command("show")
def show_signing_secret(output: Output = Format.table) -> None:
    """Whether the signing secret is being replaced; it is never shown."""
    print_object(connect().get("/signing-secret"), output=output)


@signing.command("rotate")
def rotate_signing_secret(
    overlap: Annotated[
        float | None,
        typer.Option(help="How many seconds requests carry both signatures; a day by default."),
    ] = None,
    output: Output = Format.table,
) -> None:
    """Sign webhooks with another secret; asks for it on a terminal, else reads it from standard input.

    It is whsec_ and the base64 of 24 to 64 random bytes. Receivers need it before the overlap is over.
    """
    client = connect()
    body: dict[str, Any] = {"secret": _value()}
    if overlap is not None:
        body["overlap_seconds"] = overlap
    print_object(client.send("PUT", "/signing-secret", body), output=output)


def _value() -> str:
    """From a prompt or standard input, without the line break at its end. Raises ``Misuse``."""
    if sys.stdin.isatty():
        value = str(typer.prompt("Value", hide_input=True, confirmation_prompt=True, err=True))
    else:
        try:
            value = sys.stdin.buffer.read().decode()
        except UnicodeDecodeError:
            raise Misuse("The value on standard input is not UTF-8.") from None
        value = value.removesuffix("\n").removesuffix("\r")
    if not value:
        raise Misuse("The value is empty; give it on standard input.")
    return value


def _path(name: str) -> str:
    if not name or name.startswith("."):
        raise Misuse(
            f"{name!r} is not the name of a secret: letters, digits, _ . and -, a letter or digit first."
        )
    return f"/secrets/{quote(name, safe='')}"
