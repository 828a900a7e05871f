"""Scale: 10,000 to five million registered jobs, nearly all of them far from due; what does a leader notice?

The peer is Carillon itself with 10,000. Measured at each size: a leader's turn with nothing due, no-ops a second from
registered to succeeded, and the start lag at 200 firings a second. The registry grows from size to size and is analyzed
each time.
"""

from datetime import timedelta

from benchmarks import carillon
from benchmarks.load import COLUMNS, PER_SECOND, Figures, carry
from benchmarks.report import Report
from benchmarks.stage import Stage

SIZES = (10_000, 100_000, 1_000_000, 5_000_000)
#: Registered jobs fire yearly, the first of them only after any bench has ended.
EVERY, FIRST_IN = timedelta(days=365), timedelta(days=2)


def measure(stage: Stage, *, scale: float) -> Report:
    """Run the bench; ``scale`` shrinks the registry and the load."""
    sizes = [max(100, int(size * scale)) for size in SIZES]
    stage.empty()
    carillon.make_tenant(carillon.TENANT)
    found: dict[int, Figures] = {}
    registered = 0
    for size in sizes:
        carillon.add_fleet(stage, size - registered, every=EVERY, first_in=FIRST_IN)
        registered = size
        stage.say(f"{size:,} jobs: analyzing")
        stage.settle()
        found[size] = carry(stage, what=f"{size:,} jobs", scale=scale)
    least, most = found[sizes[0]], found[sizes[-1]]
    return Report(
        name="scale",
        title=f"The same load with few and with many jobs registered; lag at {PER_SECOND} firings a second",
        unit=f"triggers per second with {sizes[-1]:,} jobs; peer: with {sizes[0]:,}",
        ours=most.rate,
        peer=least.rate,
        ratio=most.rate / least.rate,
        columns=COLUMNS,
        rows=tuple(figures.row(f"{size:,} jobs") for size, figures in found.items()),
        more={
            "turn_ratio": round(most.turn_p50 / least.turn_p50, 2),
            "lag_p99_ratio": round(most.lag_p99 / least.lag_p99, 2),
            "by_size": {str(size): figures.json() for size, figures in found.items()},
        },
    )
