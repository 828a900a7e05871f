"""``preview``, ``explain``, ``tenant`` and ``job-types``: what one only asks."""

from typing import Annotated, Any

import typer

from carillon.client import connect
from carillon.commands.definition import At, Cron, Every, Timezone, schedule_of
from carillon.errors import Misuse
from carillon.output import Format, Output, print_object, print_rows, write
from carillon.reference import JobReference, TriggerId, job_id, trigger_path

explain = typer.Typer(no_args_is_help=True, help="Why a job or a trigger waits, or how it ended.")
_TYPE_COLUMNS = ("name", "pull", "timeout_seconds", "batch_size", "max_in_flight", "description")


def preview(
    job: Annotated[str | None, typer.Argument(metavar="[JOB]", help="A job's name or id.")] = None,
    cron: Cron = None,
    timezone: Timezone = None,
    every: Every = None,
    at: At = None,
    after: Annotated[str | None, typer.Option(help="Firings after this instant; now by default.")] = None,
    count: Annotated[int, typer.Option(help="How many; at most 1,000.")] = 10,
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
        raise Misuse("--after is for schedules; a job's preview begins now.")
    else:
        answer = client.get(f"/jobs/{job_id(client, job)}/preview", count=count)
    if output is Format.table:
        print_rows(answer["firings"], ("at", "local", "note"), output=output)
    else:
        print_object(answer, output=output)


@explain.command("job")
def explain_job(job: JobReference, output: Output = Format.table) -> None:
    """Why a job's firings wait."""
    client = connect()
    _print_explanation(client.get(f"/jobs/{job_id(client, job)}/explain"), output)


@explain.command("trigger")
def explain_trigger(trigger: TriggerId, output: Output = Format.table) -> None:
    """Every gate between a trigger and running, or how it ended."""
    _print_explanation(connect().get(f"{trigger_path(trigger)}/explain"), output)


def tenant(output: Output = Format.table) -> None:
    """Show your limits, what you use of each, and what you got lately."""
    print_object(connect().get("/tenant"), output=output)


def job_types(output: Output = Format.table) -> None:
    """List the job types; -o json and -o yaml show what payload each takes."""
    print_rows(connect().get("/job-types")["results"], _TYPE_COLUMNS, output=output)


def _print_explanation(answer: dict[str, Any], output: Format) -> None:
    """As a table the summary, and the gates of the trigger it is about."""
    if output is not Format.table:
        print_object(answer, output=output)
        return
    print_object(
        {name: value for name, value in answer.items() if not isinstance(value, dict | list)}, output=output
    )
    waiting = answer if "gates" in answer else answer.get("oldest_waiting") or {}
    if gates := waiting.get("gates"):
        write("")
        shown = [{**gate, "open": "open" if gate["open"] else "SHUT"} for gate in gates]
        print_rows(shown, ("gate", "open", "detail", "opens_at"), output=output)
