"""``carillon triggers`` and ``dead-letters``: firings and their outcomes."""

from typing import Annotated, Any

import typer

from carillon.client import connect
from carillon.commands.definition import JobType
from carillon.errors import Misuse
from carillon.output import All, Format, Limit, Output, page_of, print_object, print_rows, say
from carillon.reference import TriggerId, job_id, trigger_path

app = typer.Typer(no_args_is_help=True, help="List triggers; read, cancel and replay one.")
dead_letters = typer.Typer(no_args_is_help=True, help="List, replay and dismiss dead letters.")
COLUMNS = ("scheduled_for", "state", "reason", "attempt_count", "job_type", "job_id", "id")
MAX_IDS = 1000
OfJob = Annotated[str | None, typer.Option("--job", help="A job's name or id.")]
DeadLetterIds = Annotated[list[str] | None, typer.Argument(help="Ids of dead letters.")]
Everything = Annotated[bool, typer.Option("--all", help="All of them.")]
Reason = Annotated[str | None, typer.Option("--reason", help="Reason, such as exhausted.")]
After = Annotated[str | None, typer.Option("--after", help="Scheduled for this instant or later (RFC 3339).")]
Before = Annotated[str | None, typer.Option("--before", help="Scheduled for before this instant.")]


@app.command("list")
def list_triggers(
    job: OfJob = None,
    state: Annotated[str | None, typer.Option(help="State, such as running or retrying.")] = None,
    reason: Reason = None,
    job_type: JobType = None,
    after: After = None,
    before: Before = None,
    limit: Limit = 50,
    everything: All = False,
    output: Output = Format.table,
) -> None:
    """List triggers, newest first."""
    _list(
        "/triggers", job, limit, everything, output, state=state, **_filter(reason, job_type, after, before)
    )


@app.command()
def get(trigger: TriggerId, output: Output = Format.table) -> None:
    """Show one trigger."""
    print_object(connect().get(trigger_path(trigger)), output=output)


@app.command()
def cancel(trigger: TriggerId, output: Output = Format.table) -> None:
    """Cancel a waiting trigger, or ask a running one to stop."""
    print_object(connect().post(f"{trigger_path(trigger)}/cancel"), output=output)


@app.command()
def replay(trigger: TriggerId, output: Output = Format.table) -> None:
    """Run an ended trigger again, under its old idempotency key."""
    print_object(connect().post(f"{trigger_path(trigger)}/replay"), output=output)


@dead_letters.command("list")
def list_dead_letters(
    job: OfJob = None,
    reason: Reason = None,
    job_type: JobType = None,
    after: After = None,
    before: Before = None,
    limit: Limit = 50,
    everything: All = False,
    output: Output = Format.table,
) -> None:
    """List dead letters, newest first."""
    _list("/dead-letters", job, limit, everything, output, **_filter(reason, job_type, after, before))


@dead_letters.command("replay")
def replay_dead_letters(
    triggers: DeadLetterIds = None,
    job: OfJob = None,
    reason: Reason = None,
    job_type: JobType = None,
    after: After = None,
    before: Before = None,
    everything: Everything = False,
    output: Output = Format.table,
) -> None:
    """Replay the dead letters that are named, those that match, or --all."""
    wanted = _filter(reason, job_type, after, before)
    answer = _do("replay", triggers, job, everything, wanted)
    _tell(answer, "replayed", output)


@dead_letters.command("dismiss")
def dismiss_dead_letters(
    note: Annotated[str, typer.Option("--note", help="Why these dead letters need no further action.")],
    triggers: DeadLetterIds = None,
    job: OfJob = None,
    reason: Reason = None,
    job_type: JobType = None,
    after: After = None,
    before: Before = None,
    everything: Everything = False,
    output: Output = Format.table,
) -> None:
    """Take the dead letters that are named, those that match, or --all off the list. They may still be replayed."""
    wanted = _filter(reason, job_type, after, before)
    answer = _do("dismiss", triggers, job, everything, wanted, note=note)
    _tell(answer, "dismissed", output)


def _do(
    verb: str,
    ids: list[str] | None,
    job: str | None,
    everything: bool,
    given: dict[str, str | None],
    **told: str,
) -> Any:
    """Do it to the dead letters that are meant: the API's answer. Raises ``Misuse``."""
    wanted = {name: value for name, value in given.items() if value is not None}
    if sum((bool(ids), bool(wanted or job), everything)) != 1:
        raise Misuse("Give one of these: ids of triggers, filters, or --all.")
    if ids and len(ids) > MAX_IDS:
        raise Misuse(f"At most {MAX_IDS} triggers at once.")
    client = connect()
    if job is not None:
        wanted["job"] = job_id(client, job)
    meant: dict[str, Any] = {"ids": ids} if ids else {"filter": wanted}
    return client.post(f"/dead-letters/{verb}", {**meant, **told})


def _tell(answer: dict[str, Any], done: str, output: Format) -> None:
    if output is Format.table:
        say(f"{answer[done]} {done}.")
    else:
        print_object(answer, output=output)


def _filter(
    reason: str | None, job_type: str | None, after: str | None, before: str | None
) -> dict[str, str | None]:
    return {
        "reason": reason,
        "job_type": job_type,
        "scheduled_for_after": after,
        "scheduled_for_before": before,
    }


def _list(path: str, job: str | None, limit: int, everything: bool, output: Format, **filters: Any) -> None:
    client = connect()
    if job is not None:
        filters["job"] = job_id(client, job)
    rows = client.rows(path, limit=None if everything else limit + 1, **filters)
    print_rows(page_of(rows, limit=limit, everything=everything), COLUMNS, output=output)
