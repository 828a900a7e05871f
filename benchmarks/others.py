"""The others: twenty tenants with a hundred firings a second in all, which another tenant's trouble must not delay."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from benchmarks import carillon
from benchmarks.report import percentile
from benchmarks.stage import Stage

TENANTS = 20
PER_SECOND = 100
LEAD = timedelta(seconds=1)
COLUMNS = "others p50 ms", "others p99 ms", "latest ms", "firings", "failed turns"


@dataclass(frozen=True)
class Others:
    """Firings that fall due evenly from ``since`` on, until ``until``; ``name`` tells one call from another."""

    stage: Stage
    name: str
    since: datetime
    until: datetime

    def lags(self, *, until: datetime | None = None) -> list[float]:
        """How late (ms) each firing due by ``until`` (default: the end) started, or is by then if it has not."""
        slugs = [f"{self.name}-{n}" for n in range(TENANTS)]
        end = min(self.until, self.stage.value("SELECT clock_timestamp()"), until or self.until)
        return carillon.lags(self.stage, *slugs, since=self.since, until=end)


def add(stage: Stage, name: str, *, seconds: float) -> Others:
    """Make them fire for ``seconds``, beginning a second from now."""
    jobs = max(1, int(seconds * PER_SECOND / TENANTS))
    spread = timedelta(seconds=seconds)
    since = carillon.add_backlog(
        stage, name, TENANTS, jobs_each=jobs, triggers_each=1, due_in=LEAD, spread=spread
    )
    return Others(stage, name, since, since + spread)


def figures(lags: list[float], failed: int) -> tuple[str, ...]:
    """A row's figures under ``COLUMNS``."""
    values = (percentile(lags, 0.5), percentile(lags, 0.99), max(lags))
    return (*(f"{value:,.0f}" for value in values), f"{len(lags):,}", f"{failed}")


def json(lags: list[float], failed: int) -> dict[str, float]:
    """The same figures under keys."""
    return {
        "p50_ms": round(percentile(lags, 0.5), 1),
        "p99_ms": round(percentile(lags, 0.99), 1),
        "latest_ms": round(max(lags), 1),
        "firings": len(lags),
        "turns_failed": failed,
    }
