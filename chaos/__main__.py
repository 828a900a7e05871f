"""``python -m chaos [run]`` injects faults and judges; ``python -m chaos judge FILE`` judges a history again."""

import argparse
import random
import sys
import time
from pathlib import Path

from rich.console import Console

from chaos import history
from chaos.course import PROFILES, run
from chaos.faults import FAULTS
from chaos.judge import Case, Verdict, judge
from chaos.report.chart import chart
from chaos.report.table import table
from chaos.stage.cluster import StageError
from scheduler_project.embedded.server import EmbeddedError

REPORTS = Path("chaos-reports")


def main() -> int:
    """0 when every promise was kept, 1 when one was broken, 2 when the run could not be carried out."""
    options = _options()
    if options.what == "judge":
        return int(not _report(options.file, title=f"{options.file}").passed)
    seed = random.randrange(2**32) if options.seed is None else options.seed
    faults = (
        list(PROFILES[options.profile].faults) if options.fault is None else [f for f in options.fault if f]
    )
    directory = REPORTS / f"{time.strftime('%Y%m%d-%H%M%S')}-{options.profile}-{seed}"
    begun = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - begun:6.1f} s  {text}", file=sys.stderr, flush=True)

    say(f"PROFILE={options.profile} SEED={seed} faults {faults or 'none: a control run'}")
    try:
        path = run(
            name=options.profile,
            seed=seed,
            faults=faults,
            directory=directory,
            say=say,
            calm_seconds=options.calm,
        )
    except (StageError, EmbeddedError) as error:
        print(error, file=sys.stderr)
        return 2
    verdict = _report(path, title=f"PROFILE={options.profile} SEED={seed}, {time.monotonic() - begun:.0f} s")
    return int(not verdict.passed)


def _report(path: Path, *, title: str) -> Verdict:
    """Judge a history, print the table and put the chart beside the file."""
    records = list(history.read(path))
    verdict = judge(records)
    picture = path.with_suffix(".svg")
    picture.write_text(chart(Case(records)))
    Console().print(table(verdict, title=title))
    print(f"history {path}, chart {picture}")
    return verdict


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.set_defaults(what="run")
    commands = parser.add_subparsers(dest="what")
    running = commands.add_parser("run", help="run a profile and judge it")
    running.add_argument("--profile", choices=PROFILES, default="short")
    running.add_argument("--seed", type=int)
    running.add_argument(
        "--fault",
        type=int,
        action="append",
        choices=[0, *FAULTS],
        help="only this one; 0: none, a control run",
    )
    running.add_argument("--calm", type=float, metavar="SECONDS", help="before the first fault")
    judging = commands.add_parser("judge", help="judge a recorded history again")
    judging.add_argument("file", type=Path)
    return parser.parse_args(sys.argv[1:] or ["run"])


if __name__ == "__main__":
    sys.exit(main())
