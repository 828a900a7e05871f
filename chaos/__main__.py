"""``python -m chaos [run]`` injects faults and judges; ``judge FILE`` judges again; ``sabotage`` tests the judge;
``drill`` tries the playbooks.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from chaos import drill, history
from chaos.faults import FAULTS
from chaos.judge import Case, Verdict, judge
from chaos.report.chart import chart
from chaos.report.table import table
from chaos.runner import PROFILES, run
from chaos.sabotage.catalogue import SABOTAGES
from chaos.sabotage.rehearsal import caught, keep, rehearse
from chaos.stage.cluster import BROKERS, StageError
from scheduler_project.embedded.server import EmbeddedError

REPORTS = Path("chaos-reports")
#: Jobs of the type that pull workers and Celery's share, with ``--pull``.
SHARED_JOBS = 12
#: Faults that strike, or look at, Redis itself, or are of hosts: one of those has Redis.
OF_REDIS = {28, 29, 30, 31, 32}


def main() -> int:
    """0 when every promise was kept (or every sabotage caught), 1 when not, 2 when it could not be carried out."""
    options = _options()
    if options.what == "judge":
        return int(not _report(options.file, title=f"{options.file}").passed)
    try:
        if options.what == "drill":
            return _drill(options)
        seed = random.randrange(2**32) if options.seed is None else options.seed
        return _sabotage(options, seed) if options.what == "sabotage" else _run(options, seed)
    except (StageError, EmbeddedError) as error:
        print(error, file=sys.stderr)
        return 2


def _run(options: argparse.Namespace, seed: int) -> int:
    profile = PROFILES[options.profile]
    if options.calm is not None:
        profile = replace(profile, calm_seconds=options.calm)
    if options.pull:
        profile = replace(profile, shared=SHARED_JOBS)
    profile = replace(profile, strikes=options.strikes, hold_seconds=options.hold, first=options.first)
    faults = (
        profile.faults if options.fault is None else [FAULTS[number] for number in options.fault if number]
    )
    numbers = [fault.number for fault in faults]
    of_hosts = {fault.hosts for fault in faults}
    if len(of_hosts) > 1:
        raise StageError("Faults of hosts (PROFILE=hosts) and others need a stage each: run them one by one.")
    if options.pull and True in of_hosts:
        raise StageError("No pull worker is on a host of its own: leave out --pull.")
    if options.broker != "redis" and (needed := OF_REDIS & set(numbers)):
        raise StageError(
            f"Faults {sorted(needed)} are of Redis: leave them out with --broker {options.broker}."
        )
    begun, say = time.monotonic(), _teller()
    say(
        f"PROFILE={options.profile} BROKER={options.broker} SEED={seed} faults {numbers or 'none: a control run'}"
    )
    path = run(
        profile=profile,
        name=options.profile,
        seed=seed,
        faults=faults,
        directory=_directory(options.reports, options.profile, seed),
        say=say,
        broker=options.broker,
    )
    title = f"PROFILE={options.profile} BROKER={options.broker} SEED={seed}"
    verdict = _report(path, title=f"{title}, {time.monotonic() - begun:.0f} s")
    return int(not verdict.passed)


def _drill(options: argparse.Namespace) -> int:
    directory = _directory(REPORTS, "drill", 0)
    directory.mkdir(parents=True)
    drills = [drill.DRILLS[name] for name in options.name or drill.DRILLS]
    exercised = drill.exercise(drills, journal=history.Journal(directory / "journal.jsonl"), say=_teller())
    Console().print(drill.table(exercised))
    return int(not all(one.passed for one in exercised))


def _sabotage(options: argparse.Namespace, seed: int) -> int:
    missed = []
    for name in options.name or SABOTAGES:
        sabotage, say = SABOTAGES[name], _teller()
        say(f"sabotage {name}: {sabotage.breaks}. SEED={seed}")
        path = rehearse(sabotage, seed=seed, directory=_directory(REPORTS, f"sabotage-{name}", seed), say=say)
        verdict = _report(path, title=f"sabotage {name}: {sabotage.breaks}")
        if not caught(sabotage, verdict):
            missed.append(name)
        elif options.keep:
            print(f"evidence {keep(sabotage, path, options.keep)}")
    print(f"judged wrongly: {', '.join(missed)}" if missed else "each was judged as it ought to be")
    return int(bool(missed))


def _teller() -> Callable[[str], None]:
    begun = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - begun:6.1f} s  {text}", file=sys.stderr, flush=True)

    return say


def _directory(reports: Path, name: str, seed: int) -> Path:
    return reports / f"{time.strftime('%Y%m%d-%H%M%S')}-{name}-{seed}"


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
    commands = parser.add_subparsers(dest="what")
    running = commands.add_parser("run", help="run a profile and judge it")
    running.add_argument("--profile", choices=PROFILES, default="short")
    running.add_argument("--seed", type=int)
    running.add_argument("--reports", type=Path, default=REPORTS, help="where the run's directory is to be")
    running.add_argument(
        "--fault",
        type=int,
        action="append",
        choices=[0, *FAULTS],
        help="only this one; 0: none, a control run",
    )
    running.add_argument(
        "--pull", action="store_true", help="with pull workers beside Celery's on one job type, struck first"
    )
    running.add_argument("--broker", choices=BROKERS, default="redis", help="with RabbitMQ there is no Redis")
    running.add_argument("--calm", type=float, metavar="SECONDS", help="before the first fault")
    running.add_argument("--strikes", type=int, default=0, help="of each fault, instead of its own number")
    running.add_argument(
        "--first", type=int, help="the strike to begin with, from 0: some faults know several ways"
    )
    running.add_argument(
        "--hold", type=float, metavar="SECONDS", help="each strike, instead of the fault's own time"
    )
    judging = commands.add_parser("judge", help="judge a recorded history again")
    judging.add_argument("file", type=Path)
    breaking = commands.add_parser("sabotage", help="break promises on purpose: the judge must catch each")
    breaking.add_argument("name", nargs="*", help=f"of {', '.join(SABOTAGES)}; all by default")
    breaking.add_argument("--seed", type=int)
    breaking.add_argument("--keep", type=Path, metavar="DIRECTORY", help="put what convicts each there")
    drilling = commands.add_parser(
        "drill", help="try each playbook on its fault, with Prometheus and its rules"
    )
    drilling.add_argument("name", nargs="*", help=f"of {', '.join(drill.DRILLS)}; all by default")
    options = parser.parse_args(sys.argv[1:] or ["run"])
    if options.what == "sabotage" and (unknown := set(options.name) - SABOTAGES.keys()):
        breaking.error(f"no sabotage {', '.join(sorted(unknown))}; there are {', '.join(SABOTAGES)}")
    if options.what == "drill" and (unknown := set(options.name) - drill.DRILLS.keys()):
        drilling.error(f"no drill {', '.join(sorted(unknown))}; there are {', '.join(drill.DRILLS)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
