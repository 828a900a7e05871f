"""The verdict as a table: one line for the calm and one for each fault."""

from rich.console import Group
from rich.table import Table
from rich.text import Text

from chaos.judge import Figures, Verdict

BREACHES_SHOWN = 30
COLUMNS = (
    "firings", "lost", "doubled", "executed again", "in flight", "late", "latest s", "p50 ms", "p99 ms", "resumed s",
    "reclaimed s", "api p99 ms",
)  # fmt: skip


def table(verdict: Verdict, *, title: str) -> Group:
    """The figures, the deviations that faults excused, and every breach (only the first ones, when there are many)."""
    shown = Table(title=title, title_justify="left")
    shown.add_column("fault")
    for name in COLUMNS:
        shown.add_column(name, justify="right")
    for figures in verdict.figures:
        shown.add_row(*_cells(figures))
    excused = [f"within limits: {count} {what}" for what, count in verdict.excused.most_common()]
    breaches = [str(breach) for breach in verdict.breaches[:BREACHES_SHOWN]]
    if len(verdict.breaches) > BREACHES_SHOWN:
        breaches.append(f"… and {len(verdict.breaches) - BREACHES_SHOWN} more")
    summary = Text(verdict.summary, style="green" if verdict.passed else "bold red")
    return Group(shown, Text("\n".join(excused)), Text("\n".join(breaches), style="red"), summary)


def _cells(each: Figures) -> list[str]:
    name = f"{each.number} {each.name} x {each.strikes}" if each.number else each.name
    return [
        name,
        *map(str, (each.firings, each.lost, each.doubled, each.repeated, each.in_flight, each.late)),
        f"{each.latest_seconds:.1f}",
        f"{each.p50_seconds * 1000:.0f}",
        f"{each.p99_seconds * 1000:.0f}",
        f"{each.resumed_seconds:.1f}" if each.number else "",
        f"{each.reclaimed_seconds:.1f}" if each.number else "",
        f"{each.api_p99_seconds * 1000:.0f}" if each.api_p99_seconds else "",
    ]
