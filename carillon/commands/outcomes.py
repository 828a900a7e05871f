"""``carillon stats`` and ``attempts``: how firings went."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from carillon.client import connect
from carillon.commands.definition import JobType
from carillon.errors import Misuse
from carillon.output import (
    All,
    Format,
    Limit,
    Output,
    page_of,
    print_document,
    print_object,
    print_rows,
    say,
    shown,
    terminal_width,
    write,
)
from carillon.reference import TriggerId, job_id, trigger_path

_OUTCOMES = ("succeeded", "dead", "skipped", "cancelled")
#: Further counts, if the answer has them: the first is of a job, the second of a tenant.
_BESIDE = ("unfinished", "retried")
_ATTEMPT_COLUMNS = (
    "started_at", "number", "state", "duration_seconds", "error_code", "http_status", "worker", "trigger_id",
)  # fmt: skip
_BARS = "▁▂▃▄▅▆▇█"
#: Columns for the name beside a sparkline.
_NAME_WIDTH = 22


def stats(
    job: Annotated[str | None, typer.Argument(help="A job's name or id; without it, all jobs.")] = None,
    window: Annotated[str, typer.Option(help="Window that ends now: 24h, 7d or 90d.")] = "24h",
    output: Output = Format.table,
) -> None:
    """Show how the firings of a job went, or those of all jobs: outcomes, start lag and duration."""
    client = connect()
    path = "/stats" if job is None else f"/jobs/{job_id(client, job)}/stats"
    answer = client.get(path, window=window)
    if output is not Format.table:
        print_document(answer, output=output)
        return
    total, buckets = answer["total"], answer["buckets"]
    print_object(_summary(answer), output=output)
    write("")
    if (width := terminal_width()) is None:
        print_rows(map(_row, buckets), ("at", *_columns(total)), output=output)
    else:
        print_object(_sparklines(_fit(buckets, most=max(1, width - _NAME_WIDTH))), output=output)
    if types := answer.get("job_types"):
        write("")
        print_rows(map(_row, types), ("job_type", *_columns(total)), output=output)
    if not total.get("complete", True):
        say("There were more firings than are read: the counts are those of a sample.")


def attempts(
    job: Annotated[str | None, typer.Option("--job", help="A job's name or id.")] = None,
    trigger: Annotated[str | None, typer.Option(help="A trigger's id.")] = None,
    state: Annotated[
        str | None, typer.Option(help="State of the attempt, such as failed or timed_out.")
    ] = None,
    error_code: Annotated[str | None, typer.Option(help="Error code, such as timeout.")] = None,
    http_status: Annotated[str | None, typer.Option(help="HTTP status, such as 503.")] = None,
    job_type: JobType = None,
    after: Annotated[str | None, typer.Option("--after", help="Started at this instant or later.")] = None,
    before: Annotated[str | None, typer.Option("--before", help="Started before this instant.")] = None,
    limit: Limit = 50,
    everything: All = False,
    output: Output = Format.table,
) -> None:
    """List attempts, newest first: those of one job or trigger, or of all jobs those that went wrong."""
    filters: dict[str, Any] = {
        "state": state,
        "error_code": error_code,
        "http_status": http_status,
        "job_type": job_type,
        "started_after": after,
        "started_before": before,
    }
    filtered = any(value is not None for value in filters.values())
    if trigger is not None and (filtered or job is not None):
        raise Misuse("--trigger takes no filters: a trigger has few attempts.")
    client, path = connect(), "/attempts"
    if trigger is not None:
        path = f"{trigger_path(trigger)}/attempts"
    elif job is not None and filtered:
        filters["job"] = job_id(client, job)
    elif job is not None:
        path = f"/jobs/{job_id(client, job)}/attempts"
    rows = client.rows(path, limit=None if everything else limit + 1, **filters)
    print_rows(page_of(rows, limit=limit, everything=everything), _ATTEMPT_COLUMNS, output=output)


def printed(
    trigger: TriggerId,
    number: Annotated[
        int | None,
        typer.Option(min=1, help="Number of the attempt; by default the latest attempt with output."),
    ] = None,
) -> None:
    """Print what the handler of a trigger printed."""
    client = connect()
    for attempt in client.rows(
        f"{trigger_path(trigger)}/attempts", limit=None, fields="id,number,output_bytes"
    ):
        if attempt["number"] == number if number is not None else attempt["output_bytes"]:
            write(shown(client.get(f"/attempts/{attempt['id']}", fields="output")["output"]))
            return
    if number is not None:
        raise Misuse(
            f"There is no attempt {number}; `carillon attempts --trigger {trigger}` shows its attempts."
        )
    say("No output was kept.")


def _summary(answer: dict[str, Any]) -> dict[str, Any]:
    total = answer["total"]
    return {
        "window": f"{answer['window']}, {answer['since']} to {answer['until']}",
        "firings": ", ".join(f"{total[name]:,} {name}" for name in _counts(total)),
        "success rate": _percent(total["success_rate"]),
        "start lag": _percentiles(total["start_lag_seconds"]),
        "duration": _percentiles(total["duration_seconds"]),
    }


def _counts(figures: dict[str, Any]) -> tuple[str, ...]:
    return (*_OUTCOMES, *(name for name in _BESIDE if name in figures))


def _columns(figures: dict[str, Any]) -> tuple[str, ...]:
    return (*_counts(figures), "success_rate", "start_lag_p95", "duration_p95")


def _percent(share: float | None) -> str:
    # Cut, not rounded, so that no lower share shows as 100 %.
    return "" if share is None else f"{round(share * 1_000_000) // 100 / 100:g} %"


def _percentiles(spread: dict[str, Any] | None) -> str:
    if spread is None:
        return ""
    return ", ".join(f"{name} {spread[name]:g} s" for name in ("p50", "p95", "p99"))


def _p95(bucket: dict[str, Any], name: str) -> float | None:
    spread: dict[str, float] | None = bucket[name]
    return None if spread is None else spread["p95"]


def _row(bucket: dict[str, Any]) -> dict[str, Any]:
    lag, duration = _p95(bucket, "start_lag_seconds"), _p95(bucket, "duration_seconds")
    return {**bucket, "start_lag_p95": lag, "duration_p95": duration}


def _fit(buckets: Sequence[dict[str, Any]], *, most: int) -> list[list[dict[str, Any]]]:
    """The buckets in at most ``most`` groups of neighbours."""
    size = -(-len(buckets) // most)
    return [list(buckets[first : first + size]) for first in range(0, len(buckets), size)]


def _sparklines(groups: Sequence[Sequence[dict[str, Any]]]) -> dict[str, str]:
    """Sparklines by the name of their figure, with its highest value; a group shows its highest percentile."""

    def counts(*names: str) -> list[float]:
        return [sum(bucket[name] for bucket in group for name in names) for group in groups]

    def highest(name: str) -> list[float | None]:
        return [
            max((p95 for bucket in group if (p95 := _p95(bucket, name)) is not None), default=None)
            for group in groups
        ]

    rates = [
        succeeded / (succeeded + dead) if succeeded + dead else None
        for succeeded, dead in zip(counts("succeeded"), counts("dead"), strict=True)
    ]
    lines: dict[str, list[float] | list[float | None]] = {
        "firings": counts(*_OUTCOMES, *(["unfinished"] if "unfinished" in groups[0][0] else [])),
        "dead": counts("dead"),
        "start lag p95 (s)": highest("start_lag_seconds"),
        "duration p95 (s)": highest("duration_seconds"),
    }
    told = {name: _with_highest(values) for name, values in lines.items()}
    return {"success rate": sparkline(rates, top=1.0)} | told


def _with_highest(values: Sequence[float | None]) -> str:
    top = max((value for value in values if value is not None), default=0)
    return f"{sparkline(values, top=top)} {top:g}" if top else sparkline(values, top=top)


def sparkline(values: Sequence[float | None], *, top: float) -> str:
    """A bar for each value, as high as its share of ``top``; a blank where there is none."""
    return "".join(
        " " if value is None else _BARS[min(len(_BARS) - 1, int(value / top * len(_BARS))) if top else 0]
        for value in values
    )
