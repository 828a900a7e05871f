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
Reason = Annotated[str, typer.Option(help="Why; tenants see it where they ask why a firing waits.")]
TypeName = Annotated[str, typer.Argument(metavar="NAME", help="A job type; a tenant's own as NAME@NUMBER.")]
_COLUMNS = ("name", "paused", "max_in_flight", "own_max_in_flight", "queued", "running", "reason")


@app.command()
def show(output: Output = Format.table) -> None:
    """Whether dispatch runs."""
    print_object(connect().get("/installation"), output=output)


@app.command()
def stop(reason: Reason, output: Output = Format.table) -> None:
    """Dispatch nothing for any tenant; what runs goes on."""
    _change("/installation", {"dispatch": "stopped", "reason": reason}, output)


@app.command()
def start(output: Output = Format.table) -> None:
    """Dispatch again."""
    _change("/installation", {"dispatch": "running"}, output)


@app.command("job-types")
def list_job_types(output: Output = Format.table) -> None:
    """List the job types, with what is in flight of each."""
    print_rows(connect().get("/installation/job-types")["results"], _COLUMNS, output=output)


@app.command()
def pause(name: TypeName, reason: Reason, output: Output = Format.table) -> None:
    """Start nothing more of a job type, for any tenant; what runs goes on."""
    _change(_path(name), {"paused": True, "reason": reason}, output)


@app.command()
def resume(name: TypeName, output: Output = Format.table) -> None:
    """Let a job type go on."""
    _change(_path(name), {"paused": False}, output)


@app.command()
def cap(
    name: TypeName,
    max_in_flight: Annotated[
        str, typer.Argument(metavar="N", help="Queued or running at once, over all tenants; none lifts it.")
    ],
    output: Output = Format.table,
) -> None:
    """Bound what is in flight of a job type, beside what its handler allows."""
    if max_in_flight != "none" and not (max_in_flight.isascii() and max_in_flight.isdigit()):
        raise Misuse(f"N must be a whole number or none; it is {max_in_flight!r}.")
    # A number that is too long to be one is the server's to refuse.
    wanted = None if max_in_flight == "none" else int(max_in_flight[:20])
    _change(_path(name), {"max_in_flight": wanted}, output)


def _change(path: str, body: dict[str, Any], output: Format) -> None:
    print_object(connect().send("PATCH", path, body), output=output)


def _path(name: str) -> str:
    if not name or name.startswith("."):
        raise Misuse(f"{name!r} is no name of a job type; `carillon installation job-types` shows them.")
    return f"/installation/job-types/{quote(name, safe='')}"
