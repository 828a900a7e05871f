"""``carillon installation``: the levers over all tenants, with a key of the installation."""

from typing import Annotated, Any
from urllib.parse import quote

import typer

from carillon.client import connect
from carillon.errors import Misuse
from carillon.output import Format, Output, print_object, print_rows

app = typer.Typer(
    no_args_is_help=True,
    help="Stop dispatch for all tenants, pause or cap a job type. Needs an operator key, of the installation.",
)
Reason = Annotated[str, typer.Option(help="Reason; tenants see it where they ask why a firing waits.")]
TypeName = Annotated[
    str, typer.Argument(metavar="NAME", help="A job type; for a tenant's own type, NAME@NUMBER.")
]
_COLUMNS = ("name", "paused", "max_in_flight", "own_max_in_flight", "queued", "running", "reason")


@app.command()
def show(output: Output = Format.table) -> None:
    """Whether dispatch runs."""
    print_object(connect().get("/installation"), output=output)


@app.command()
def stop(reason: Reason, output: Output = Format.table) -> None:
    """Stop dispatch for all tenants; running attempts go on."""
    _change("/installation", {"dispatch": "stopped", "reason": reason}, output)


@app.command()
def start(output: Output = Format.table) -> None:
    """Start dispatch again."""
    _change("/installation", {"dispatch": "running"}, output)


@app.command("job-types")
def list_job_types(output: Output = Format.table) -> None:
    """List the job types, with the number of triggers in flight of each."""
    print_rows(connect().get("/installation/job-types")["results"], _COLUMNS, output=output)


@app.command()
def pause(name: TypeName, reason: Reason, output: Output = Format.table) -> None:
    """Pause a job type for all tenants; running attempts go on."""
    _change(_path(name), {"paused": True, "reason": reason}, output)


@app.command()
def resume(name: TypeName, output: Output = Format.table) -> None:
    """Resume a paused job type."""
    _change(_path(name), {"paused": False}, output)


@app.command()
def cap(
    name: TypeName,
    max_in_flight: Annotated[
        str,
        typer.Argument(
            metavar="N", help="Most triggers queued or running at once, over all tenants; none: no limit."
        ),
    ],
    output: Output = Format.table,
) -> None:
    """Limit how many triggers of a job type are in flight, in addition to its handler's limit."""
    if max_in_flight != "none" and not (max_in_flight.isascii() and max_in_flight.isdigit()):
        raise Misuse(f"N must be a whole number or none; it is {max_in_flight!r}.")
    # A number that is too long to be one is the server's to refuse.
    wanted = None if max_in_flight == "none" else int(max_in_flight[:20])
    _change(_path(name), {"max_in_flight": wanted}, output)


def _change(path: str, body: dict[str, Any], output: Format) -> None:
    print_object(connect().send("PATCH", path, body), output=output)


def _path(name: str) -> str:
    if not name or name.startswith("."):
        raise Misuse(f"{name!r} is not the name of a job type; `carillon installation job-types` shows them.")
    return f"/installation/job-types/{quote(name, safe='')}"
