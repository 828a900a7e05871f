"""``carillon targets``: the rules for the hosts that jobs call, with a key of the installation."""

from typing import Annotated, Any
from urllib.parse import quote

import typer

from carillon.client import connect
from carillon.errors import Misuse
from carillon.output import Format, Output, print_object, print_rows

app = typer.Typer(
    no_args_is_help=True,
    help="Pause, slow or cap the hosts that jobs call, for all tenants. Needs an operator key, of the installation.",
)
Pattern = Annotated[
    str,
    typer.Argument(
        metavar="HOST", help="Host: api.example.com, api.example.com:8443, '*.example.com', or '*'."
    ),
]
_COLUMNS = ("pattern", "source", "rate_per_second", "max_in_flight", "paused", "reason")


@app.command("list")
def list_targets(output: Output = Format.table) -> None:
    """List all rules, including those of the settings."""
    print_rows(connect().get("/installation/targets")["results"], _COLUMNS, output=output)


@app.command()
def pause(
    host: Pattern,
    reason: Annotated[str, typer.Option(help="Reason; tenants see it where they ask why a firing waits.")],
    output: Output = Format.table,
) -> None:
    """Start no trigger that calls these hosts. Running attempts go on, and none is spent."""
    _change(host, {"paused": True, "reason": reason}, output)


@app.command()
def resume(host: Pattern, output: Output = Format.table) -> None:
    """Resume calls to these hosts."""
    _change(host, {"paused": False}, output)


@app.command("set")
def set_limits(
    host: Pattern,
    rate: Annotated[
        str | None,
        typer.Option(
            metavar="N", help="Most calls per second to each host; 0: no limit; none: another rule decides."
        ),
    ] = None,
    max_in_flight: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Most triggers queued or running at once for each host; none: another rule decides.",
        ),
    ] = None,
    output: Output = Format.table,
) -> None:
    """Bound the rate or the concurrency of each of these hosts, over all tenants; the rest stays as it is."""
    body: dict[str, Any] = {}
    if rate is not None:
        body["rate_per_second"] = _number(rate, "--rate")
    if max_in_flight is not None:
        body["max_in_flight"] = _number(max_in_flight, "--max-in-flight", whole=True)
    if not body:
        raise Misuse("Name --rate, --max-in-flight or both.")
    _change(host, body, output)


@app.command()
def delete(host: Pattern) -> None:
    """Remove the rule; less specific rules and those of the settings then apply."""
    connect().send("DELETE", _path(host))
    typer.echo("Deleted.")


def _number(text: str, option: str, *, whole: bool = False) -> float | int | None:
    if text == "none":
        return None
    digits = text.replace(".", "", 0 if whole else 1)
    if not (digits.isascii() and digits.isdigit()):
        raise Misuse(f"{option} must be {'a whole number' if whole else 'a number'} or none; it is {text!r}.")
    # A number that is too long to be one is the server's to refuse.
    return int(text[:20]) if whole else float(text[:40])


def _change(host: str, body: dict[str, Any], output: Format) -> None:
    print_object(connect().send("PATCH", _path(host), body), output=output)


def _path(host: str) -> str:
    if not host or host.startswith("."):
        raise Misuse(f"{host!r} is not a host, such as api.example.com or '*.example.com'.")
    return f"/installation/targets/{quote(host, safe='')}"
