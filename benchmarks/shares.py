"""Shares: 1,000 tenants of weights 1 to 8 have backlogs, and 256 slots are free at a time; how many does each get?

The triggers that fall due first belong to some tenants, the last ones to others: a share must go by weight, not by age.
Workers take no time, so every turn of the leader has 256 slots, and the leader does not sleep. The bench judges the ten
seconds from the first start on. A share may be off by one whole trigger without counting as off, since a tenant cannot
be given a part of one. A tenant's fair turn is the number of starts of all tenants that contains, by its weight, one
start of its own. Starts are counted, not seconds, because the machine may stand still for seconds. The peer is the
weights.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise

from benchmarks import carillon
from benchmarks.carillon.leader import EAGER, leading, rate
from benchmarks.report import Report, Row
from benchmarks.stage import BenchError, Stage

WEIGHTS = range(1, 9)
TENANTS, MIN_TENANTS = 1_000, 80
SLOTS = 256
SECONDS = 10.0
#: Triggers of a tenant for each unit of its weight: more than a machine dispatches in the time.
DEPTH = 60
JOBS = 5
AGE, AGES = timedelta(hours=2), timedelta(hours=1)
WINDOW = {f"CARILLON_QUEUE_WINDOW_{name}": str(SLOTS) for name in ("INITIAL", "MIN", "MAX")}
_STARTS = """
    SELECT tenant_id, extract(epoch FROM started_at)::float FROM jobs_trigger WHERE started_at IS NOT NULL
    ORDER BY started_at
"""
_OWNERS = """
    SELECT id, weight, EXISTS (SELECT 1 FROM jobs_trigger t WHERE t.tenant_id = owner.id AND t.phase = 'pending')
    FROM tenants_tenant owner
"""


@dataclass(frozen=True)
class Tenant:
    """One tenant's weight, whether work was left, and for each of its starts how many of all tenants came before."""

    weight: int
    left: bool
    places: list[int]


def measure(stage: Stage, *, scale: float) -> Report:
    """Run the bench; ``scale`` shrinks the number of tenants."""
    each = max(MIN_TENANTS, int(TENANTS * min(1.0, scale))) // len(WEIGHTS)
    deepest = int(DEPTH * TENANTS / (each * len(WEIGHTS)))
    stage.empty()
    for weight in WEIGHTS:
        carillon.add_backlog(
            stage,
            f"weight-{weight}",
            each,
            jobs_each=JOBS,
            triggers_each=deepest * weight // JOBS,
            due_in=-AGE,
            news=False,
            spread=AGES,
            quotas={"weight": weight},
        )
    stage.settle()
    with leading(stage, environment=WINDOW | EAGER) as leader:
        stage.pause(f"{each * len(WEIGHTS):,} tenants share {SLOTS} slots", SECONDS + 2)
    return judge(_tenants(stage), rate(leader.turns()))


def _tenants(stage: Stage) -> list[Tenant]:
    starts = list(stage.db.execute(_STARTS))
    if not starts:
        raise BenchError("nothing started")
    began, place, last = starts[0][1], 0, None
    places: defaultdict[int, list[int]] = defaultdict(list)
    for count, (tenant_id, at) in enumerate(starts):
        if at > began + SECONDS:
            break
        # Triggers that started together have no order.
        place, last = (place if at == last else count), at
        places[tenant_id].append(place)
    return [Tenant(weight, left, places[id]) for id, weight, left in stage.db.execute(_OWNERS)]


def judge(tenants: Sequence[Tenant], per_second: float) -> Report:
    """Compute the shares that the tenants received; ``per_second`` is the leader's own rate."""
    counts = [len(tenant.places) for tenant in tenants]
    dues = [sum(counts) * tenant.weight / sum(other.weight for other in tenants) for tenant in tenants]
    pairs = list(zip(counts, dues, strict=True))
    tenant_off = max(max(0.0, abs(count - due) - 1) / due for count, due in pairs)
    waits = [
        _longest(tenant.places, sum(counts)) * due / sum(counts)
        for tenant, due in zip(tenants, dues, strict=True)
    ]
    weights: defaultdict[int, list[tuple[int, float]]] = defaultdict(list)
    for tenant, pair in zip(tenants, pairs, strict=True):
        weights[tenant.weight].append(pair)
    received = {weight: sum(n for n, _ in of) / sum(due for _, due in of) for weight, of in weights.items()}
    weight_off = max(abs(share - 1) for share in received.values())
    return Report(
        name="shares",
        title=f"{len(tenants):,} backlogged tenants of weights 1 to 8, {SLOTS} slots, {SECONDS:g} s",
        unit="longest wait of a tenant in its fair turns; peer: 1, by weight",
        ours=max(waits),
        peer=1.0,
        ratio=1 / max(waits),
        columns=("received of share due",),
        rows=(
            *(Row(f"weight {weight}", (f"{share:.1%}",)) for weight, share in sorted(received.items())),
            Row("the weight furthest off", (f"{weight_off:.1%}",)),
            Row("the tenant furthest off", (f"{tenant_off:.1%}",)),
            Row("tenants that got nothing", (f"{counts.count(0):,}",)),
            Row("longest wait, in fair turns", (f"{max(waits):.2f}",)),
        ),
        more={
            "dispatched": sum(counts),
            "leader_per_second": round(per_second, 1),
            "weights_off_by": round(weight_off, 4),
            "tenants_off_by": round(tenant_off, 4),
            "tenants_without": counts.count(0),
            "tenants_run_dry": sum(not tenant.left for tenant in tenants),
            "longest_wait_in_turns": round(max(waits), 3),
        },
    )


def _longest(places: list[int], count: int) -> int:
    """The most starts of others in a row, from the first of all ``count`` to the last."""
    return max(after - before for before, after in pairwise([0, *places, count]))
