"""The command line as a whole: its commands, and how failures end it."""

import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from carillon.commands import (
    bulk,
    installation,
    jobs,
    outcomes,
    secrets,
    service,
    targets,
    tenants,
    triggers,
    workflows,
)
from carillon.commands.apply import apply, diff
from carillon.commands.imports import import_celery_beat, import_crontab
from carillon.commands.tail import tail
from carillon.errors import Failure
from carillon.output import say, write

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Carillon from the command line. Set CARILLON_URL and CARILLON_API_KEY.",
)
app.add_typer(jobs.app, name="jobs")
app.add_typer(triggers.app, name="triggers")
app.add_typer(triggers.dead_letters, name="dead-letters")
app.command()(outcomes.stats)
app.command()(outcomes.attempts)
app.command("output")(outcomes.printed)
app.command()(service.preview)
app.add_typer(service.explain, name="explain")
app.command()(service.tenant)
app.add_typer(service.job_types, name="job-types")
app.add_typer(secrets.app, name="secrets")
app.add_typer(secrets.signing, name="signing-secret")
app.add_typer(workflows.app, name="workflows")
app.add_typer(bulk.app, name="bulk")
app.add_typer(bulk.operations, name="operations")
app.add_typer(installation.app, name="installation")
app.add_typer(targets.app, name="targets")
app.add_typer(tenants.app, name="tenants")
app.add_typer(tenants.keys, name="keys")
app.command()(apply)
app.command()(diff)
app.command()(import_crontab)
app.command()(import_celery_beat)
app.command()(tail)


def _version(wanted: bool) -> None:
    if wanted:
        try:
            write(version("carillon"))
        except PackageNotFoundError:
            write("not installed")
        raise typer.Exit


@app.callback()
def _root(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit with 0, or with the code that docs/cli.md lists."""
    try:
        app(args=None if arguments is None else list(arguments), prog_name="carillon")
    except Failure as failure:
        say(*failure.lines)
        sys.exit(failure.code)
    except BrokenPipeError:
        # The reader has gone, as with `| head`; the rest of the buffer has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
