"""``python -m benchmarks [NAME …] [--json]``: measure Carillon beside its peers, on servers of its own."""

import argparse
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from rich.console import Console
from rich.status import Status

from benchmarks import herd, lag, outage, schedules, throughput
from benchmarks.report import Report
from benchmarks.stage import BenchError, Stage

BENCHES: dict[str, Callable[..., Report]] = {
    "throughput": throughput.measure,
    "lag": lag.measure,
    "herd": herd.measure,
    "outage": outage.measure,
    "schedules": schedules.measure,
}


def main() -> int:
    """Run the benches named (all of them by default); 1 when one could not be carried out."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHES)}; all by default")
    parser.add_argument("--json", action="store_true", help="print one JSON line a bench instead of a table")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="shrink (below 1) or enlarge counts and times"
    )
    options = parser.parse_args()
    if unknown := sorted(set(options.names) - BENCHES.keys()):
        parser.error(f"no such bench: {', '.join(unknown)}; there are {', '.join(BENCHES)}")

    console, progress = Console(), Console(stderr=True)
    try:
        with _status(progress) as status, Stage(say=_say(status)) as stage:
            for name in options.names or BENCHES:
                report = BENCHES[name](stage, scale=options.scale)
                print(report.json(), flush=True) if options.json else console.print(report.table())
    except BenchError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _status(console: Console) -> AbstractContextManager[Status | None]:
    return console.status("starting") if console.is_terminal else nullcontext()


def _say(status: Status | None) -> Callable[[str], None]:
    return (lambda text: status.update(text)) if status else (lambda text: None)


if __name__ == "__main__":
    sys.exit(main())
