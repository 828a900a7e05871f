"""``python -m chaos sabotage``: each promise broken in a cluster of its own, and the judge's verdict on it."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from chaos import history
from chaos.faults import FAULTS, Fault
from chaos.history import (
    Audited,
    Brought,
    Called,
    Effect,
    Ended,
    JobMade,
    Ledger,
    Range,
    Record,
    RunAsked,
    RunSeen,
    Started,
    Steered,
    WorkflowMade,
)
from chaos.history.workflows import OF_RUN
from chaos.judge import Case, Verdict, judge
from chaos.judge.workflows.runs import Run
from chaos.runner import Profile, run
from chaos.sabotage.catalogue import Sabotage

AFTER_SECONDS = 12.0


def rehearse(sabotage: Sabotage, *, seed: int, directory: Path, say: Callable[[str], None]) -> Path:
    """Run a small load with the sabotage in it; returns the history's file. Raises ``StageError``."""
    profile = Profile(
        tenants=3,
        jobs=12 if sabotage.of_workflows else 36,
        periods=(1, 4),
        calm_seconds=8 if sabotage.fault else 15,
        quiet_seconds=15,
        environment={
            "CARILLON_HANDLER_MODULES": "chaos.load.handlers,chaos.sabotage.act",
            "CHAOS_SABOTAGE": sabotage.name,
            **sabotage.environment,
        },
        schema=sabotage.schema,
        run_seconds=1.0,
    )
    return run(
        profile=profile,
        name=f"sabotage {sabotage.name}",
        seed=seed,
        faults=[_fault(sabotage)] if sabotage.fault else [],
        directory=directory,
        say=say,
    )


def _fault(sabotage: Sabotage) -> type[Fault]:
    return FAULTS[sabotage.fault].cut(
        strikes=sabotage.strikes,
        first=sabotage.first,
        hold_seconds=sabotage.hold_seconds,
        after_seconds=AFTER_SECONDS,
    )


def caught(sabotage: Sabotage, verdict: Verdict) -> bool:
    """Whether the judge found the broken promise, or nothing in the control. Processes that died show nothing."""
    found = {breach.kind for breach in verdict.breaches}
    return bool(found & sabotage.caught_as) and "died" not in found if sabotage.caught_as else verdict.passed


def evidence(sabotage: Sabotage, records: list[Record]) -> Iterator[Record]:
    """The part of a history that convicts: one job or run with the breach in question, and all records of neither."""
    if sabotage.of_workflows:
        yield from _one_run(sabotage, records)
        return
    found = {breach.job for breach in judge(records).breaches if breach.kind in sabotage.caught_as}
    starts = Counter(record.job_id for record in records if isinstance(record, Started))
    case = Case(records)
    due = [job for job in case.jobs.values() if case.due(job)]
    guilty = [job for job in due if job.name in found] or due  # some breaches are of no job
    # One that fires seldom makes the shortest story.
    kept = min(guilty, key=lambda job: starts[job.job_id])
    deliveries = {
        record.delivery for record in records if isinstance(record, Started) and record.job_id == kept.job_id
    }
    last = max((record.reading for record in records if isinstance(record, Ledger)), default=0)
    for record in records:
        match record:
            case Ledger():
                wanted = record.job_id == kept.job_id and record.reading == last
            case JobMade() | Called() | Started() | Range() | Effect():
                wanted = record.job_id == kept.job_id
            case Ended():
                wanted = record.delivery in deliveries
            case WorkflowMade() | RunAsked() | Steered() | RunSeen() | Brought():
                wanted = False
            case _:
                wanted = not isinstance(record, Audited)  # it is of all jobs, and long
        if wanted:
            yield record


def _one_run(sabotage: Sabotage, records: list[Record]) -> Iterator[Record]:
    """The shortest story of a run that convicts; all records where no run does."""
    runs = Case(records).runs
    stories = [list(_of_run(run, records)) for run in runs.values()]
    convicting = [s for s in stories if {b.kind for b in judge(s).breaches} & sabotage.caught_as]
    yield from min(convicting, key=len, default=records)


def _of_run(run: Run, records: list[Record]) -> Iterator[Record]:
    deliveries = {
        record.delivery
        for record in records
        if isinstance(record, Started) and record.key.startswith(f"{OF_RUN}{run.id}:")
    }
    last = max((seen.reading for seen in run.seen), default=0)
    for record in records:
        match record:
            case Started() | Ended() | Brought():
                wanted = record.delivery in deliveries
            case WorkflowMade():
                wanted = record.workflow_id == run.workflow.workflow_id
            case RunAsked():
                wanted = (record.workflow_id, record.number) == (run.workflow.workflow_id, run.number)
            case Steered():
                wanted = record.run_id == run.id
            case RunSeen():
                # The state that a retry found is recorded as reading 0, before the readings of the end.
                wanted = record.run_id == run.id and record.reading in (0, last)
            case JobMade() | Called() | Ledger() | Range() | Effect() | Audited():
                wanted = False
            case _:
                wanted = True
        if wanted:
            yield record


def keep(sabotage: Sabotage, path: Path, directory: Path) -> Path:
    """Put the evidence of a run into a directory, under the sabotage's name."""
    kept = directory / f"{sabotage.name}.jsonl"
    history.write(kept, evidence(sabotage, list(history.read(path))))
    return kept
