"""The shares of equally backlogged tenants with weights 1 : 2 : 3, and of the four priorities within each.

All backlogs are equally deep, so the heaviest tenant's critical triggers run out first. The bench counts the starts
until four fifths of these have started: until then every tenant has triggers of every priority waiting.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from benchmarks import carillon
from benchmarks.report import Row
from benchmarks.stage import Stage

WEIGHTS = {"light": 100, "middle": 200, "heavy": 300}
PRIORITIES = {"critical": (0, 8), "high": (1, 4), "medium": (2, 2), "low": (3, 1)}
DEPTH = 6_000
COUNTED = 0.8
_UNTIL = """
    SELECT t.started_at FROM jobs_trigger t JOIN tenants_tenant owner ON owner.id = t.tenant_id
    WHERE owner.slug = 'heavy' AND t.priority = 0 AND t.started_at IS NOT NULL
    ORDER BY t.started_at OFFSET %(counted)s LIMIT 1
"""
_COUNTS = """
    SELECT owner.slug, t.priority, count(*) FROM jobs_trigger t JOIN tenants_tenant owner ON owner.id = t.tenant_id
    WHERE t.started_at <= %(until)s GROUP BY 1, 2
"""
_LONGEST_WAIT = """
    SELECT max(extract(epoch FROM gap))::float * 1000 FROM (
        SELECT started_at - lag(started_at) OVER (PARTITION BY tenant_id ORDER BY started_at) AS gap
        FROM jobs_trigger WHERE priority = 3 AND started_at <= %(until)s) gaps
"""


@dataclass(frozen=True)
class Shares:
    """Shares (0 to 1) by tenant and by priority, and the longest time without a start at the lowest priority."""

    tenants: dict[str, float]
    priorities: dict[str, float]
    low_longest_ms: float
    counted: int

    def worst(self) -> float:
        """The largest distance of a tenant's share from its due, relative to that due."""
        whole = sum(WEIGHTS.values())
        return max(abs(self.tenants[slug] * whole / weight - 1) for slug, weight in WEIGHTS.items())

    def rows(self) -> list[Row]:
        shown = [f"{slug} {share:.1%}" for slug, share in self.tenants.items()]
        levels = [f"{level} {share:.1%}" for level, share in self.priorities.items()]
        return [
            Row(f"weights 1 : 2 : 3 got {', '.join(shown)}", ("", "", f"{self.counted:,}")),
            Row(f"priorities 8 : 4 : 2 : 1 got {', '.join(levels)}", ("", "", f"{self.counted:,}")),
            Row("longest without a start at low priority", (f"{self.low_longest_ms:,.0f}", "", "")),
        ]

    def json(self) -> dict[str, Any]:
        return {
            "shares": {slug: round(share, 4) for slug, share in self.tenants.items()},
            "shares_off_by": round(self.worst(), 4),
            "priority_shares": {level: round(share, 4) for level, share in self.priorities.items()},
            "low_longest_wait_ms": round(self.low_longest_ms, 1),
        }


def measure(stage: Stage, *, scale: float) -> Shares:
    """Let the backlog drain until it can be judged; ``scale`` shrinks its depth."""
    depth = max(600, int(DEPTH * scale))
    stage.empty()
    for slug, weight in WEIGHTS.items():
        carillon.make_tenant(slug, weight=weight)
        for priority, _ in PRIORITIES.values():
            carillon.add_due_triggers(stage, depth, tenant=slug, priority=priority)
    stage.settle()
    counted = int(depth * COUNTED)
    with carillon.processes(stage):
        stage.must(
            "Carillon: three tenants with equal backlogs",
            lambda: stage.value(_UNTIL, counted=counted) is not None,
            timeout_seconds=300,
            poll_seconds=0.5,
        )
        until = stage.value(_UNTIL, counted=counted)
    return _judge(stage, until)


def _judge(stage: Stage, until: datetime) -> Shares:
    counts = {(slug, level): n for slug, level, n in stage.db.execute(_COUNTS, {"until": until})}
    whole = sum(counts.values())
    return Shares(
        {slug: sum(n for (owner, _), n in counts.items() if owner == slug) / whole for slug in WEIGHTS},
        {
            level: sum(n for (_, found), n in counts.items() if found == priority) / whole
            for level, (priority, _) in PRIORITIES.items()
        },
        float(stage.value(_LONGEST_WAIT, until=until) or 0),
        whole,
    )
