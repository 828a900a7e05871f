"""A run from start to end: load, calm, faults one after the other, heal, quiet, read once, then judge it all."""

import json
import os
import random
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path

from chaos import history
from chaos.faults import FAULTS, Fault
from chaos.faults.of_machines import DiskFull
from chaos.history import Audited, Began, Closed, Effect, Healed, Journal, Record, Struck, TenantMade
from chaos.judge import Case, judge
from chaos.judge.workflows.told import under_way
from chaos.load import effects
from chaos.load.caller import Caller
from chaos.load.definitions import plans, shared_plans, tenants
from chaos.load.workflows import INNER, Runs, workflow_plans
from chaos.stage import HURRIED
from chaos.stage.cluster import Cluster, StageError
from chaos.stage.names import may_hang

#: How much nicer the observing process is than the stage's own processes.
ASIDE = 10
ASIDE_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True)
class Profile:
    """How much of everything. ``periods`` are the shortest and longest period of a job, in seconds.

    ``warm_up_seconds``: until code paths and caches are warm; firings that fall due meanwhile are required, but not
    timed. ``quiet_seconds``: how long owed firings may take at the end; they are looked at every ``look_seconds``.
    ``shared``: the number of further jobs of a type that pull workers serve beside Celery's. With any, there are pull
    workers, and each fault strikes twice at least, because pull workers are the first to be struck.
    ``run_seconds``: a run of a workflow begins this often, on average.
    ``strikes``, ``hold_seconds``, ``first``: how often and for how long a fault strikes, and with which of its ways it
    begins, where that differs from the fault's own. ``concurrency``: the processes of each worker.
    ``environment`` is added to every process's own; ``schema`` is executed before the load is made.
    """

    tenants: int
    jobs: int
    periods: tuple[int, int]
    calm_seconds: float
    faults: tuple[type[Fault], ...] = ()
    long: bool = False
    warm_up_seconds: float = 8.0
    quiet_seconds: float = 90.0
    look_seconds: float = 4.0
    environment: Mapping[str, str] = field(default_factory=dict)
    schema: str = ""
    shared: int = 0
    run_seconds: float = 4.0
    strikes: int = 0
    hold_seconds: float | None = None
    first: int | None = None
    concurrency: int = 2


PROFILES = {
    "smoke": Profile(
        tenants=2,
        jobs=12,
        periods=(1, 3),
        calm_seconds=3,
        faults=(FAULTS[1].cut(strikes=1, hold_seconds=0, after_seconds=8),),
        warm_up_seconds=3,
        look_seconds=1,
        environment=HURRIED,
        run_seconds=1.5,
    ),
    "short": Profile(
        tenants=4, jobs=40, periods=(2, 15), calm_seconds=15, faults=tuple(FAULTS[n] for n in (1, 2, 5, 8))
    ),
    "long": Profile(
        tenants=10,
        jobs=300,
        periods=(5, 60),
        calm_seconds=75,
        faults=tuple(FAULTS[n] for n in sorted(FAULTS) if not FAULTS[n].hosts),
        long=True,
        concurrency=4,
    ),
    "hosts": Profile(
        tenants=4,
        jobs=40,
        periods=(2, 15),
        calm_seconds=15,
        faults=tuple(FAULTS[n] for n in sorted(FAULTS) if FAULTS[n].hosts),
    ),
}


def run(
    *,
    profile: Profile,
    name: str,
    seed: int,
    faults: Sequence[type[Fault]],
    directory: Path,
    say: Callable[[str], None],
    broker: str = "redis",
) -> Path:
    """Run a profile with these faults (none: a control run); returns the history's file. Raises ``StageError``.

    ``broker``: of ``chaos.stage.cluster.BROKERS``.

    A fault that this machine cannot show is left out, and ``say`` is told.
    """
    for kind in (missing := [kind for kind in faults if kind.lacks()]):
        say(f"fault {kind.number} is left out: this machine lacks {kind.lacks()}")
    if missing and len(missing) == len(faults):
        raise StageError("None of the faults can be shown on this machine.")
    faults = [kind for kind in faults if kind not in missing]
    rng = random.Random(seed)
    journal = Journal(directory / "journal.jsonl")
    with Cluster(
        journal=journal,
        rng=random.Random(rng.random()),
        say=say,
        environment=profile.environment,
        small_disk=DiskFull in faults,
        silent_names=any(kind.silent_names for kind in faults) and may_hang(),
        broker=broker,
        concurrency=profile.concurrency,
        hosts=any(kind.hosts for kind in faults),
    ) as cluster:
        caller = Caller(web=cluster.web, receiver_url=cluster.receiver_url, journal=journal)
        runs = Runs(caller=caller, journal=journal)
        began = Began(at=0, seed=seed, profile=name, faults=[kind.number for kind in faults])
        try:
            _load_and_strike(cluster, runs, profile, began, faults, rng=rng, say=say)
            return _read(cluster, runs, directory, look_seconds=profile.look_seconds, say=say)
        except Exception:
            # After any exception the history up to then can still be judged.
            history.write(directory / "history.jsonl", _so_far(cluster))
            _keep_logs(cluster, directory)
            raise


def _load_and_strike(
    cluster: Cluster,
    runs: Runs,
    profile: Profile,
    began: Began,
    faults: Sequence[type[Fault]],
    *,
    rng: random.Random,
    say: Callable[[str], None],
) -> None:
    caller = runs.caller
    _make_load(cluster, runs, profile, rng, say)
    cluster.wait(profile.warm_up_seconds)
    cluster.journal.note(replace(began, at=time.time()))
    with (
        caller.busy(random.Random(rng.random())),
        runs.busy(random.Random(rng.random()), every_seconds=profile.run_seconds),
    ):
        say("calm")
        cluster.wait(profile.calm_seconds)
        for kind in faults:
            _strike(kind(cluster, caller, rng), cluster, profile, say=say)
    _quiet(cluster, profile, say=say)
    if profile.shared:
        _say_who_shared(cluster, say=say)


def _make_load(
    cluster: Cluster, runs: Runs, profile: Profile, rng: random.Random, say: Callable[[str], None]
) -> None:
    say("making tenants, jobs and workflows")
    caller = runs.caller
    cluster.query(effects.CREATE)
    if profile.schema:
        cluster.query(profile.schema)
    caps = tenants(profile.tenants)
    for slug, cap in caps.items():
        caller.keys[slug] = cluster.make_tenant(slug, max_in_flight=cap)
        cluster.journal.note(TenantMade(slug=slug, max_in_flight=cap))
    for plan in plans(rng, tenants=caps, jobs=profile.jobs, periods=profile.periods):
        caller.make(plan)
    for workflow in workflow_plans():
        runs.make(workflow, tenant=next(iter(caps)))
    if profile.shared:
        cluster.start_pull_workers(caller.keys[next(iter(caps))])
        for plan in shared_plans(rng, tenants=caps, jobs=profile.shared):
            caller.make(plan)


def _say_who_shared(cluster: Cluster, *, say: Callable[[str], None]) -> None:
    """Say how many attempts came from which kind of workers. Raises ``StageError`` if all came from one kind."""
    of_them = "FROM jobs_attempt a JOIN jobs_job j ON j.id = a.job_id WHERE j.job_type = 'chaos.shared'"
    [(pulled, attempts)] = cluster.query(
        f"SELECT count(*) FILTER (WHERE celery_task_id = ''), count(*) {of_them}"
    )
    say(f"of {attempts} attempts at what both kinds of workers serve pull workers made {pulled}")
    if not 0 < pulled < attempts:
        raise StageError("Only one kind of workers had anything of what both serve: nothing is shown.")


def _strike(fault: Fault, cluster: Cluster, profile: Profile, *, say: Callable[[str], None]) -> None:
    strikes = profile.strikes or (fault.long_strikes if profile.long else fault.strikes)
    if profile.long and fault.long_hold_seconds is not None:
        fault.hold_seconds = fault.long_hold_seconds
    if profile.hold_seconds is not None:
        fault.hold_seconds = profile.hold_seconds
    first = fault.first if profile.first is None else profile.first
    for strike in range(first, first + (max(strikes, 2) if profile.shared else strikes)):
        if strike > first:
            cluster.wait(fault.gap_seconds)
        what = fault.aim(strike)
        say(f"fault {fault.number}: {what}")
        struck = Struck(
            at=time.time(),
            id=f"{fault.number}.{strike}",
            number=fault.number,
            what=what,
            affects=None if fault.affects is None else list(fault.affects),
            leader=fault.changes_leader,
            kills=fault.kills,
            clock_seconds=fault.clock_seconds,
            resets=fault.resets,
        )
        cluster.journal.note(struck)
        try:
            fault.inject()
            cluster.wait(fault.hold_seconds)
        finally:  # a run that is broken off must not leave behind anything that cannot be stopped
            fault.heal()
        cluster.journal.note(Healed(at=time.time(), id=struck.id))
    say(f"fault {fault.number}: healed, {fault.after_seconds:g} s to watch")
    cluster.wait(fault.after_seconds)


def _quiet(cluster: Cluster, profile: Profile, *, say: Callable[[str], None]) -> None:
    """Wait until nothing is owed any more, or for as long as that may reasonably take."""
    say("waiting until nothing is owed")
    deadline = time.monotonic() + profile.quiet_seconds
    # Every link of the stage runs through this process: seconds of judging in it would make firings late.
    with ProcessPoolExecutor(1, get_context("spawn"), os.nice, (ASIDE,)) as aside:
        while time.monotonic() < deadline:
            cluster.wait(profile.look_seconds)
            owing = aside.submit(_owing, cluster.journal.path, cluster.receiver_log, time.time())
            while not owing.done():
                cluster.wait(ASIDE_SECONDS)
            if not owing.result():
                return


def _owing(journal: Path, receiver_log: Path, at: float) -> bool:
    """Whether a firing that fell due long enough before ``at`` must still be executed, or a run goes on."""
    records = [*history.read(journal), *history.read(receiver_log), Closed(at=at)]
    verdict = judge(records)
    return any(breach.kind == "lost" for breach in verdict.breaches) or under_way(Case(records))


def _so_far(cluster: Cluster) -> list[Record]:
    return [*history.read(cluster.journal.path), *history.read(cluster.receiver_log)]


def _read(
    cluster: Cluster, runs: Runs, directory: Path, *, look_seconds: float, say: Callable[[str], None]
) -> Path:
    say("reading")
    # Pages of the ledger are work for the web process and for this one: firings due meanwhile are not timed.
    cluster.journal.note(Closed(at=time.time()))
    _read_ledgers(runs, reading=1)
    received = list(history.read(cluster.receiver_log))
    cluster.wait(look_seconds)
    _read_ledgers(runs, reading=2)
    for job_id, scheduled_for, count in cluster.query(effects.COUNT):
        cluster.journal.note(Effect(job_id=job_id, scheduled_for=scheduled_for, count=count))
    runs.note_inner(cluster.query(INNER))
    cluster.journal.note(_audited(cluster))
    cluster.journal.close()
    path = directory / "history.jsonl"
    history.write(path, [*history.read(cluster.journal.path), *received])
    cluster.journal.path.unlink()
    _keep_logs(cluster, directory)
    return path


def _read_ledgers(runs: Runs, *, reading: int) -> None:
    runs.caller.read_ledger(reading=reading)
    runs.read(reading=reading)


def _keep_logs(cluster: Cluster, directory: Path) -> None:
    """Keep all logs of the processes: they show the cause of the judge's findings."""
    shutil.make_archive(str(directory / "logs"), "gztar", root_dir=cluster.logs)


def _audited(cluster: Cluster) -> Audited:
    document = cluster.manage_json("audit_firings", "--json")
    return Audited(at=time.time(), passed=not document["differences"], says=json.dumps(document))
