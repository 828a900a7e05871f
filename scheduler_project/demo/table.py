"""The demo's output: the live table, a plain line where there is no terminal, and the verdict. Pure.

Everything is drawn from the receiver's log each time; only the next firings come from the API.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from scheduler_project.demo.receiver import Arrival
from scheduler_project.demo.scenario import CreatedJob
from scheduler_project.demo.verdict import LATEST_ARRIVAL, DemoVerdict, lag_figures

OUTCOMES_SHOWN = 8
#: Narrow enough for 80 columns.
LAYOUT: dict[str, Any] = {"box": None, "padding": (0, 1, 0, 0), "header_style": "bold underline"}
MARKS = {200: ("●", "green"), 503: ("↻", "yellow"), 400: ("✗", "red")}


@dataclass(kw_only=True)
class Board:
    """The data to show while the demo plays. ``deliveries`` is the receiver's own list and grows by itself.

    ``upcoming`` holds, by job id, instants that the API has announced. ``lasts`` None: until it is stopped.
    """

    jobs: Sequence[CreatedJob]
    deliveries: Sequence[Arrival]
    started_at: datetime
    lasts: timedelta | None
    access: Mapping[str, str]
    upcoming: dict[str, Sequence[datetime]] = field(default_factory=dict)


def live_view(board: Board, *, now: datetime) -> RenderableType:
    """The whole screen: where to look, how it goes, and a row for each job."""
    access = Table.grid(padding=(0, 2))
    for what, where in board.access.items():
        access.add_row(Text(what, style="bold"), escape(where))
    return Group(access, "", Text(plain_line(board, now=now), style="bold cyan"), _jobs_table(board, now=now))


def plain_line(board: Board, *, now: datetime) -> str:
    """How it goes, in one line."""
    elapsed = (now - board.started_at).total_seconds()
    first = [delivery for delivery in board.deliveries if delivery.attempt == 1]
    late = sum(delivery.lag_seconds > LATEST_ARRIVAL.total_seconds() for delivery in first)
    return " · ".join(
        [
            f"{elapsed:.0f} s of {board.lasts.total_seconds():.0f} s" if board.lasts else f"{elapsed:.0f} s",
            f"{len(first)} firings",
            f"{len(board.deliveries) - len(first)} retries",
            f"lag p50/max {_lag_text([delivery.lag_seconds for delivery in first])} ms",
            f"{late} late",
        ]
    )


def verdict_table(verdict: DemoVerdict) -> RenderableType:
    """The figures of each job, and below them the faults."""
    table = Table(**LAYOUT, title="Verdict by the receiver's log (lag: p50/max)", title_justify="left")
    table.add_column("job", no_wrap=True)
    for name in ("expected", "delivered", "lost", "doubled", "late", "retries", "lag ms"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    faults = []
    for row in verdict.jobs:
        figures = (row.expected, row.delivered, row.lost, row.doubled, row.late, row.retries)
        mark = Text("✗", style="red") if row.faults else Text("✓", style="green")
        table.add_row(row.job.sample.name, *map(str, figures), _lag_text(row.lags_seconds), mark)
        faults += [f"{row.job.sample.name}: {count} {what}" for what, count in row.faults.items()]
    return Group("", table, Text("\n".join(faults), style="red"))


def _jobs_table(board: Board, *, now: datetime) -> Table:
    by_job = _by_job(board.deliveries)
    table = Table(**LAYOUT)
    for name in ("tenant", "job", "schedule", "priority"):
        table.add_column(name, no_wrap=True)
    table.add_column("next", justify="right", no_wrap=True)
    table.add_column("outcomes", min_width=OUTCOMES_SHOWN, no_wrap=True)
    for name in ("fired", "retried", "lag ms"):
        table.add_column(name, justify="right", no_wrap=True)
    for job in board.jobs:
        deliveries, sample = by_job[job.id], job.sample
        first = [delivery.lag_seconds for delivery in deliveries if delivery.attempt == 1]
        table.add_row(
            sample.tenant,
            sample.name,
            sample.says,
            sample.priority,
            _next_text(board.upcoming.get(job.id, ()), now=now),
            outcomes(deliveries),
            str(len(first)),
            str(len(deliveries) - len(first)),
            _lag_text(first),
        )
    return table


def outcomes(deliveries: Sequence[Arrival]) -> Text:
    """A coloured mark for each of the last answers, the latest rightmost."""
    text = Text()
    for delivery in deliveries[-OUTCOMES_SHOWN:]:
        text.append(*MARKS.get(delivery.status, ("?", "magenta")))
    return text


def _by_job(deliveries: Iterable[Arrival]) -> dict[str, list[Arrival]]:
    by_job: dict[str, list[Arrival]] = defaultdict(list)
    for delivery in deliveries:
        by_job[delivery.job_id].append(delivery)
    return by_job


def _next_text(upcoming: Iterable[datetime], *, now: datetime) -> str:
    following = min((instant for instant in upcoming if instant > now), default=None)
    return "-" if following is None else f"{(following - now).total_seconds():.0f} s"


def _lag_text(lags_seconds: Sequence[float]) -> str:
    figures = lag_figures(lags_seconds)
    return "-" if figures is None else "{:.0f}/{:.0f}".format(*(seconds * 1000 for seconds in figures))
