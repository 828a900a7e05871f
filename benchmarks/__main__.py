"""``python -m benchmarks [NAME …] [--json]``: measure Carillon beside its peers, on servers of its own."""

import argparse
import sys
from collections.abc import Callable

from rich.console import Console

from benchmarks import (
    console,
    creation,
    fairness,
    herd,
    history,
    idle_lanes,
    lag,
    missed,
    outage,
    overhead,
    row_lock,
    runs,
    schedules,
    shares,
    slow_redis,
    snapshot,
    soak,
    tenants,
    throughput,
    webhook,
    workflows,
)
from benchmarks import scale as registry
from benchmarks.progress import Progress
from benchmarks.report import Report
from benchmarks.stage import BenchError, Stage

BENCHES: dict[str, Callable[..., Report]] = {
    "throughput": throughput.measure,
    "lag": lag.measure,
    "soak": soak.measure,
    "overhead": overhead.measure,
    "herd": herd.measure,
    "webhook": webhook.measure,
    "fairness": fairness.measure,
    "outage": outage.measure,
    "schedules": schedules.measure,
    "creation": creation.measure,
    "scale": registry.measure,
    "history": history.measure,
    "console": console.measure,
    "tenants": tenants.measure,
    "idle_lanes": idle_lanes.measure,
    "snapshot": snapshot.measure,
    "shares": shares.measure,
    "missed": missed.measure,
    "slow_redis": slow_redis.measure,
    "row_lock": row_lock.measure,
    "workflows": workflows.measure,
    "runs": runs.measure,
}


def main() -> int:
    """Run the benches named (all of them by default); 1 when one could not be carried out."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHES)}; all by default")
    parser.add_argument("--json", action="store_true", help="print the JSON lines alone, without tables")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="shrink (below 1) or enlarge counts and times"
    )
    options = parser.parse_args()
    if unknown := sorted(set(options.names) - BENCHES.keys()):
        parser.error(f"no such bench: {', '.join(unknown)}; there are {', '.join(BENCHES)}")
    if options.scale <= 0:
        parser.error("--scale must be above 0")

    failed = False
    try:
        with Progress() as say, Stage(say=say) as stage:
            for name in options.names or BENCHES:
                failed = not _run(stage, name, scale=options.scale, tables=not options.json) or failed
    except BenchError as error:  # the stage itself
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return int(failed)


def _run(stage: Stage, name: str, *, scale: float, tables: bool) -> bool:
    """Run one bench and print its result. A bench that fails says why, and the other benches still get their turn."""
    try:
        report = BENCHES[name](stage, scale=scale)
    except BenchError as error:
        print(f"{name}: {error}", file=sys.stderr, flush=True)
        return False
    if tables:
        Console().print(report.table())
    print(report.json(), flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
