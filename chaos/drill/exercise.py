"""Carry drills out, one after the other on one cluster, and tell how long each alert took."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.table import Table

from chaos.drill.drills import Drill, Operator
from chaos.drill.prometheus import PROGRAM, Prometheus, waits_seconds
from chaos.history import Journal
from chaos.stage.cluster import Cluster, StageError
from stage.processes import PROJECT_DIR

#: Beyond the rule's own ``for`` and the time until its condition is true: two scrapes and an evaluation.
PATIENCE_SECONDS = 60.0
CLEARS_SECONDS, OVER_SECONDS = 150.0, 180.0


@dataclass(frozen=True)
class Exercised:
    """The measurements of one drill; seconds. ``over``: from the first of the page's steps; None: it was not over."""

    drill: type[Drill]
    fired: float | None = None
    summary: str = ""
    over: float | None = None
    cleared: float | None = None
    error: str = ""

    @property
    def passed(self) -> bool:
        return not self.error


def exercise(
    drills: Sequence[type[Drill]], *, journal: Journal, say: Callable[[str], None]
) -> list[Exercised]:
    """Raises ``StageError`` if no drill can be tried."""
    if PROGRAM is None:
        raise StageError("There is no prometheus here: install Debian's package.")
    settings = {
        "CARILLON_NOOP_ENABLED": "1",
        "CARILLON_HANDLER_MODULES": "chaos.load.handlers,chaos.drill.handlers",
    }
    with (
        Cluster(journal=journal, rng=random.Random(0), say=say, environment=settings) as cluster,
        Prometheus(cluster.home, web=cluster.web) as prometheus,
    ):
        operator = Operator(cluster)
        return [_exercise(drill, cluster, prometheus, operator, say) for drill in drills]


def _exercise(
    kind: type[Drill],
    cluster: Cluster,
    prometheus: Prometheus,
    operator: Operator,
    say: Callable[[str], None],
) -> Exercised:
    drill = kind(cluster, operator)
    say(f"{kind.page}: {kind.fault}")
    fired = over = cleared = None
    summary = ""
    firing = partial(prometheus.firing, kind.alert, kind.job_type)
    try:
        began = time.monotonic()
        drill.strike()
        waits = kind.due_seconds + waits_seconds(kind.alert) + PATIENCE_SECONDS
        told: dict[str, str] = cluster.must(f"{kind.alert} to fire", firing, seconds=waits)
        fired = time.monotonic() - began
        summary = told["summary"]
        say(f"{kind.alert} after {fired:.0f} s: {summary}")
        if not leads_to(told["playbook"], kind.page):
            raise StageError(f"{kind.alert} names {told['playbook']}, which does not lead to {kind.page}")
        began = time.monotonic()
        drill.steps()
        cluster.must("the page's end", drill.is_over, seconds=OVER_SECONDS)
        over = time.monotonic() - began
        say(f"over after {over:.0f} s")
        if kind.clears:
            cluster.must(f"{kind.alert} to clear", lambda: firing() is None, seconds=CLEARS_SECONDS)
            cleared = time.monotonic() - began
    except StageError as error:
        drill.rescue()
        return Exercised(kind, fired, summary, over, cleared, str(error).splitlines()[0])
    return Exercised(kind, fired, summary, over, cleared)


def leads_to(playbook: str, page: str) -> bool:
    """Whether the alert's page is the one wanted, or links to it."""
    return Path(playbook).stem == page or f"({page}.md)" in (PROJECT_DIR / playbook).read_text()


def table(exercised: Sequence[Exercised]) -> Table:
    """The measurements, one row for each drill."""
    shown = Table("page", "fault", "alert", "for", "fired", "over", "cleared", "")
    for one in exercised:
        kind = one.drill
        times = (
            f"{seconds:.0f} s" if seconds is not None else "-"
            for seconds in (one.fired, one.over, one.cleared)
        )
        shown.add_row(
            kind.page, kind.fault, kind.alert, f"{waits_seconds(kind.alert)} s", *times, one.error or "passed"
        )
    return shown
