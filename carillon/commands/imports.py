"""``carillon import-crontab`` and ``import-celery-beat``: YAML for ``apply``, unless told to apply it themselves."""

from pathlib import Path
from typing import Annotated, Any

import typer

from carillon.celery_beat import translation as beat_translation
from carillon.celery_beat.tables import read_rows
from carillon.client import Client, connect
from carillon.commands.definition import read_text
from carillon.crontab.reading import read
from carillon.crontab.translation import Imported, translate
from carillon.errors import Failure, Problem
from carillon.files.definitions import OWNER, Definition
from carillon.files.plan import carry_out, plan
from carillon.files.yaml_text import dump
from carillon.output import progress, say, write

Timezone = Annotated[
    str | None,
    typer.Option("--timezone", help="Time zone of the crontab's machine, an IANA name; UTC by default."),
]
Prefix = Annotated[str, typer.Option("--prefix", help="Prefix of the jobs' names.")]
Owner = Annotated[
    str | None, typer.Option("--owner", help="Label the jobs with this owner, for `apply --prune`.")
]
Apply = Annotated[
    bool, typer.Option("--apply", help="Create the jobs, instead of printing their definitions.")
]
Check = Annotated[bool, typer.Option("--check", help="Ask the server about each schedule.")]


def import_crontab(
    file: Annotated[
        Path, typer.Argument(help="A crontab; - is standard input, such as `crontab -l` prints.")
    ],
    system: Annotated[
        bool | None,
        typer.Option(
            "--system/--user",
            help="Whether lines name a user; by default those of /etc/crontab and cron.d do.",
        ),
    ] = None,
    job_type: Annotated[str, typer.Option(help="Job type that runs the commands.")] = "command",
    timezone: Timezone = None,
    prefix: Prefix = "",
    owner: Owner = None,
    check: Check = False,
    apply: Apply = False,
) -> None:
    """Print a crontab as job definitions for `apply`, and explain each line that is doubtful or cannot be one."""
    if system is None:
        system = file.name == "crontab" or file.parent.name == "cron.d"
    entries = read(read_text(file), system=system)
    found = translate(entries, source=str(file), job_type=job_type, timezone=timezone, prefix=prefix)
    finish(found, owner=owner, check=check, apply=apply)


def finish(found: Imported, *, owner: str | None, check: bool, apply: bool) -> None:
    """Explain doubtful entries, then print or apply the definitions. Raises ``Failure`` if something was refused."""
    say(*(f"{place}: note: {words}" for place, words in found.notes))
    say(*(f"{place}: REFUSED: {words}" for place, words in found.refusals))
    refused = len(found.refusals)
    if apply and refused:
        raise Failure(f"{refused} refused: nothing was applied. Without --apply the rest is printed.")
    definitions = found.definitions
    if owner is not None:
        definitions = [{**one, "labels": {**one.get("labels", {}), OWNER: owner}} for one in definitions]
    if apply:
        _apply(connect(), definitions, found.places)
        return
    if check:
        refused += _checked(connect(), definitions, found.places)
    write(dump({**({"owner": owner} if owner else {}), "jobs": definitions}))
    say(
        f"{len(definitions)} jobs, {refused} refused. Nothing was written; `carillon apply -f FILE` does that."
    )
    if refused:
        raise Failure


def _apply(client: Client, definitions: list[dict[str, Any]], places: list[str]) -> None:
    named = [
        Definition(str(one["name"]), one, place, None) for one, place in zip(definitions, places, strict=True)
    ]
    steps, refusals = plan(client, named)
    if refusals:
        raise Failure(*refusals, "Nothing was changed.")
    for step in steps:
        write("\n".join(step.lines()))
    if refusals := carry_out(client, steps):
        raise Failure(*refusals)


def _checked(client: Client, definitions: list[dict[str, Any]], places: list[str]) -> int:
    """How many schedules the server refuses; prints each."""
    refused = 0
    for one, place in progress(list(zip(definitions, places, strict=True)), "Checking"):
        try:
            client.post("/schedules/preview", {"schedule": one["schedule"], "count": 1})
        except Problem as problem:
            if problem.status != 400:
                raise
            refused += 1
            say(*(f"{place}: REFUSED: {name} → {message}" for name, message in problem.errors))
    return refused


def import_celery_beat(
    database_url: Annotated[
        str,
        typer.Option(
            envvar="DATABASE_URL", help="URL of its database. Other users can see it on a command line."
        ),
    ],
    queue: Annotated[
        str, typer.Option(help="Queue for tasks that name no queue: Celery's task_default_queue.")
    ] = "celery",
    prefix: Prefix = "",
    owner: Owner = None,
    check: Check = False,
    apply: Apply = False,
) -> None:
    """Print django-celery-beat's periodic tasks as job definitions for `apply`, and explain each that cannot be one."""
    found = beat_translation.translate(read_rows(database_url), queue=queue, prefix=prefix)
    finish(found, owner=owner, check=check, apply=apply)
