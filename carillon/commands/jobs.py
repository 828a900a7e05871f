"""``carillon jobs``: list, read and write jobs."""

from typing import Annotated, Any

import typer

from carillon.client import connect
from carillon.commands import definition as options
from carillon.errors import Misuse
from carillon.output import All, Format, Limit, Output, page_of, print_object, print_rows, say
from carillon.reference import JobReference, find_job, job_id

app = typer.Typer(no_args_is_help=True, help="List, read and write jobs.")
BACKFILL_COLUMNS = ("start", "end", "count", "materialized", "created_at", "finished_at", "id")
COLUMNS = ("name", "job_type", "status", "priority", "next_fire_at", "id")
#: Of schedules, whether a job or a workflow has it.
Reason = Annotated[str, typer.Option(help="Why; shown with the job or the workflow.")]
Until = Annotated[
    str, typer.Option(metavar="INSTANT", help="It goes on then by itself, such as 2030-01-31T02:00:00Z.")
]
Start = Annotated[str, typer.Option(help="The first instant that may run (RFC 3339).")]
End = Annotated[str, typer.Option(help="The last one; not in the future.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count the firings.")]
BeyondRetention = Annotated[
    bool, typer.Option("--beyond-retention", help="Start before history begins; what ran then runs again.")
]
Backfill = Annotated[str, typer.Argument(help="Its id, as backfills lists it.")]
IfMatch = Annotated[int | None, typer.Option("--if-match", help="Only if the job has this version.")]
Key = Annotated[
    str | None, typer.Option("--idempotency-key", help="Do this once under that key; made up by default.")
]


@app.command("list")
def list_jobs(
    status: Annotated[str | None, typer.Option(help="active, paused, cancelled or completed.")] = None,
    job_type: options.JobType = None,
    priority: options.Priority = None,
    labels: Annotated[str | None, typer.Option(help="Such as env=prod,team=billing: all of them.")] = None,
    name_prefix: Annotated[str | None, typer.Option(help="How the name begins.")] = None,
    ordering: Annotated[str | None, typer.Option(help="-created, created, name or -name.")] = None,
    limit: Limit = 50,
    everything: All = False,
    output: Output = Format.table,
) -> None:
    """List jobs, newest first."""
    rows = connect().rows(
        "/jobs",
        limit=None if everything else limit + 1,
        status=status,
        job_type=job_type,
        priority=priority,
        labels=labels,
        name_prefix=name_prefix,
        ordering=ordering,
    )
    print_rows(page_of(rows, limit=limit, everything=everything), COLUMNS, output=output)


@app.command()
def get(job: JobReference, output: Output = Format.table) -> None:
    """Show one job."""
    print_object(find_job(connect(), job), output=output)


@app.command()
def create(
    name: Annotated[str | None, typer.Argument(help="Optional with --at and --now.")] = None,
    file: options.File = None,
    job_type: options.JobType = None,
    cron: options.Cron = None,
    timezone: options.Timezone = None,
    every: options.Every = None,
    at: options.At = None,
    now: Annotated[bool, typer.Option("--now", help="Once, at once.")] = False,
    payload: options.Payload = None,
    priority: options.Priority = None,
    label: options.Label = None,
    idempotency_key: Key = None,
    output: Output = Format.table,
) -> None:
    """Create a job from a file, from options, or from a file with options in place of some of it."""
    schedule = options.schedule_of(cron, timezone, every, at)
    if now:
        if schedule:
            raise Misuse("--now goes without --cron, --every and --at.")
        schedule = {"type": "immediate"}
    body = options.definition_of(
        file=file,
        name=name,
        job_type=job_type,
        schedule=schedule,
        payload=payload,
        priority=priority,
        labels=options.labels_of(label),
    )
    if not body:
        raise Misuse(
            "Say what to create: -f FILE, or a name with --job-type and --cron, --every, --at or --now."
        )
    print_object(connect().post("/jobs", body, key=idempotency_key), output=output)


@app.command()
def edit(
    job: JobReference,
    file: options.File = None,
    name: Annotated[str | None, typer.Option(help="Rename it.")] = None,
    job_type: options.JobType = None,
    cron: options.Cron = None,
    timezone: options.Timezone = None,
    every: options.Every = None,
    at: options.At = None,
    payload: options.Payload = None,
    priority: options.Priority = None,
    label: options.Label = None,
    if_match: IfMatch = None,
    output: Output = Format.table,
) -> None:
    """Change parts of a job (JSON merge patch); refused if somebody edits it meanwhile."""
    changes = options.definition_of(
        file=file,
        name=name,
        job_type=job_type,
        schedule=options.schedule_of(cron, timezone, every, at),
        payload=payload,
        priority=priority,
        labels=options.labels_of(label),
    )
    if not changes:
        raise Misuse("Say what to change: -f FILE with the fields to change, or options.")
    client = connect()
    found = find_job(client, job, fields="id,version")
    headers = {"If-Match": f'"{found["version"] if if_match is None else if_match}"'}
    print_object(client.send("PATCH", f"/jobs/{found['id']}", changes, headers=headers), output=output)


def _act(job: str, verb: str, output: Format) -> None:
    client = connect()
    print_object(client.post(f"/jobs/{job_id(client, job)}/{verb}"), output=output)


@app.command()
def pause(job: JobReference, reason: Reason = "", until: Until = "", output: Output = Format.table) -> None:
    """Start nothing more of a job until it is resumed, or until an instant."""
    client = connect()
    print_object(client.post(f"/jobs/{job_id(client, job)}/pause", pause_body(reason, until)), output=output)


def pause_body(reason: str, until: str) -> dict[str, str] | None:
    return {name: value for name, value in (("reason", reason), ("until", until)) if value} or None


@app.command()
def resume(job: JobReference, output: Output = Format.table) -> None:
    """Let a paused job go on from now."""
    _act(job, "resume", output)


@app.command()
def cancel(job: JobReference, output: Output = Format.table) -> None:
    """End a job for good."""
    _act(job, "cancel", output)


@app.command()
def run(
    job: JobReference,
    payload: options.Payload = None,
    ignore_overlap: Annotated[
        bool,
        typer.Option("--ignore-overlap", help="Start it although another firing of the job is under way."),
    ] = False,
    idempotency_key: Key = None,
    output: Output = Format.table,
) -> None:
    """Fire a job now, beside its schedule; prints the trigger."""
    client = connect()
    body: dict[str, Any] = {} if payload is None else {"payload": options.read_payload(payload)}
    if ignore_overlap:  # an older server does not know the field
        body["ignore_overlap"] = True
    print_object(client.post(f"/jobs/{job_id(client, job)}/run", body, key=idempotency_key), output=output)


@app.command()
def backfill(
    job: JobReference,
    start: Start,
    end: End,
    dry_run: DryRun = False,
    beyond_retention: BeyondRetention = False,
    output: Output = Format.table,
) -> None:
    """Run the firings of a past stretch; the same again changes nothing."""
    client = connect()
    body = backfill_body(start, end, dry_run=dry_run, beyond_retention=beyond_retention)
    print_object(client.post(f"/jobs/{job_id(client, job)}/backfill", body), output=output)


def backfill_body(start: str, end: str, *, dry_run: bool, beyond_retention: bool) -> dict[str, Any]:
    # An older server does not know the last field.
    more = {"beyond_retention": True} if beyond_retention else {}
    return {"start": start, "end": end, "dry_run": dry_run, **more}


@app.command("cancel-backfill")
def cancel_backfill(
    job: JobReference,
    backfill: Backfill,
    output: Output = Format.table,
) -> None:
    """Make nothing more of a backfill; what it has made already runs."""
    client = connect()
    print_object(client.post(f"/jobs/{job_id(client, job)}/backfills/{backfill}/cancel"), output=output)


@app.command()
def backfills(
    job: JobReference, limit: Limit = 50, everything: All = False, output: Output = Format.table
) -> None:
    """List a job's backfills and how far they have come, newest first."""
    client = connect()
    rows = client.rows(f"/jobs/{job_id(client, job)}/backfills", limit=None if everything else limit + 1)
    print_rows(page_of(rows, limit=limit, everything=everything), BACKFILL_COLUMNS, output=output)


@app.command()
def delete(job: JobReference, if_match: IfMatch = None) -> None:
    """Cancel a job and remove it; its history stays."""
    client = connect()
    found = find_job(client, job, fields="id,name,version")
    headers = {"If-Match": f'"{found["version"] if if_match is None else if_match}"'}
    client.send("DELETE", f"/jobs/{found['id']}", headers=headers)
    say(f"{found['name']} is deleted.")
