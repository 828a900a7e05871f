"""``preview``, ``explain``, ``tenant`` and ``job-types``: questions to the API, and the pull types of a tenant."""

from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from carillon.client import connect
from carillon.commands.definition import At, Cron, Every, File, Timezone, read_definition, schedule_of
from carillon.errors import Misuse
from carillon.output import Format, Output, print_object, print_rows, say, write
from carillon.reference import JobReference, TriggerId, job_id, trigger_path

explain = typer.Typer(no_args_is_help=True, help="Why a job or a trigger waits, or how it ended.")
job_types = typer.Typer(invoke_without_command=True)
TypeName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the type, as in a job's job_type.")]
_TYPE_COLUMNS = ("name", "pull", "timeout_seconds", "batch_size", "max_in_flight", "description")


def preview(
    job: Annotated[str | None, typer.Argument(metavar="[JOB]", help="A job's name or id.")] = None,
    cron: Cron = None,
    timezone: Timezone = None,
    every: Every = None,
    at: At = None,
    after: Annotated[
        str | None, typer.Option(help="Show the firings after this instant; now by default.")
    ] = None,
    count: Annotated[int, typer.Option(help="How many firings to show; at most 1,000.")] = 10,
    output: Output = Format.table,
) -> None:
    """Show the next firings of a job, or of a schedule that is stored nowhere."""
    schedule = schedule_of(cron, timezone, every, at)
    if (job is None) == (schedule is None):
        raise Misuse("Give a job, or one of --cron, --every and --at.")
    client = connect()
    if job is None:
        body: dict[str, Any] = {"schedule": schedule, "count": count, **({"after": after} if after else {})}
        answer = client.post("/schedules/preview", body)
    elif after:
        raise Misuse("--after works only with a schedule; a job's preview begins now.")
    else:
        answer = client.get(f"/jobs/{job_id(client, job)}/preview", count=count)
    if output is Format.table:
        print_rows(answer["firings"], ("at", "local", "note"), output=output)
    else:
        print_object(answer, output=output)


@explain.command("job")
def explain_job(job: JobReference, output: Output = Format.table) -> None:
    """Explain why a job's firings wait."""
    client = connect()
    print_explanation(client.get(f"/jobs/{job_id(client, job)}/explain"), output)


@explain.command("trigger")
def explain_trigger(trigger: TriggerId, output: Output = Format.table) -> None:
    """Show every gate between a trigger and its start, or how it ended."""
    print_explanation(connect().get(f"{trigger_path(trigger)}/explain"), output)


def tenant(output: Output = Format.table) -> None:
    """Show your limits, how much of each you use, and your recent starts."""
    print_object(connect().get("/tenant"), output=output)


@job_types.callback()
def list_job_types(context: typer.Context, output: Output = Format.table) -> None:
    """List the job types (-o json and -o yaml show their payload schemas), or declare those of pull workers."""
    if context.invoked_subcommand is None:
        print_rows(connect().get("/job-types")["results"], _TYPE_COLUMNS, output=output)


@job_types.command("get")
def get_job_type(name: TypeName, output: Output = Format.table) -> None:
    """Show one of your pull types."""
    print_object(connect().get(_type_path(name)), output=output)


@job_types.command()
def declare(
    name: TypeName,
    file: File = None,
    description: Annotated[str | None, typer.Option(help="A sentence that says what the type does.")] = None,
    schema: Annotated[
        Path | None,
        typer.Option(help="YAML or JSON with the JSON Schema of its payload; - is standard input."),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(help="Time limit of one attempt, in seconds; 60 by default.")
    ] = None,
    max_in_flight: Annotated[
        int | None, typer.Option(help="Most triggers queued or running at once.")
    ] = None,
    output: Output = Format.table,
) -> None:
    """Declare a job type that your pull workers serve, or replace its declaration. Other options get defaults."""
    given: dict[str, Any] = {
        "description": description,
        "payload_schema": None if schema is None else read_definition(schema),
        "timeout_seconds": timeout,
        "max_in_flight": max_in_flight,
    }
    base = read_definition(file) if file is not None else {}
    body = base | {field: value for field, value in given.items() if value is not None}
    print_object(connect().send("PUT", _type_path(name), body), output=output)


@job_types.command("delete")
def delete_job_type(name: TypeName) -> None:
    """Delete one of your pull types, unless it has jobs or unfinished firings."""
    connect().send("DELETE", _type_path(name))
    say(f"{name} is deleted.")


def _type_path(name: str) -> str:
    if not name or name.startswith("."):
        raise Misuse(
            f"{name!r} is not the name of a job type: lower-case letters, digits, _ and ., a letter first."
        )
    return f"/job-types/{quote(name, safe='')}"


def print_explanation(answer: dict[str, Any], output: Format) -> None:
    """As a table: the summary, and the gates of the trigger that it is about."""
    if output is not Format.table:
        print_object(answer, output=output)
        return
    print_object(
        {name: value for name, value in answer.items() if not isinstance(value, dict | list)}, output=output
    )
    waiting = answer if "gates" in answer else answer.get("oldest_waiting") or {}
    if gates := waiting.get("gates"):
        write("")
        shown = [{**gate, "state": "passed" if gate["passed"] else "BLOCKING"} for gate in gates]
        print_rows(shown, ("gate", "state", "detail", "opens_at"), output=output)
