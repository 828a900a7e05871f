"""All checks of runs, and of which runs there may be."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from chaos.judge.case import Case
from chaos.judge.verdict import Breach
from chaos.judge.workflows import ledger, schedules, started, steering, values
from chaos.judge.workflows.inner import begun, ends, given, stops
from chaos.judge.workflows.told import Told


def judged(case: Case, runs: list[Told], excused: Counter[str]) -> Iterator[Breach]:
    """Everything that is wrong with the runs."""
    yield from _asked(case)
    yield from begun.unasked(case)
    yield from schedules.kept(case, excused)
    if uncertain := sum(run.is_uncertain for run in case.runs.values()):
        excused["a run whose retry may have begun or not"] += uncertain
    for each in runs:
        yield from started.started(each, excused)
        yield from started.order(each, excused)
        yield from values.carried(each)
        yield from steering.stopped(each)
        yield from begun.begun(each, excused)
        yield from given.given(each)
        yield from ends.ended(each)
        yield from ends.unrecorded(each)
        yield from stops.stopped(each)
        yield from stops.overdue(each)
        if each.seen:
            yield from ledger.recorded(each, each.seen, excused)
            yield from ledger.ended_once(each, each.seen)
            yield from ledger.effects(each, each.seen)
        elif case.ledger_of_runs and each.run.acknowledged and each.is_due:
            yield each.breach("unrecorded", each.run.requested_at, "", "the ledger has no such run")


def _asked(case: Case) -> Iterator[Breach]:
    """Runs that no call asked for, or two for one call; executions of tasks of no known run."""
    numbers: dict[tuple[str, int], set[str]] = defaultdict(set)
    for run in case.runs.values():
        if not case.is_asked_for(run.workflow):
            continue
        numbers[run.workflow.workflow_id, run.number].add(run.id)
        if not run.requested_at:
            detail = f"run number {run.number}, which was never asked for (run {run.id})"
            at = run.scheduled_for.timestamp()
            yield Breach(kind="phantom", at=at, job=run.workflow.name, detail=detail)
    for (workflow_id, number), ids in numbers.items():
        if len(ids) > 1:
            detail = f"one call began {len(ids)} runs: {', '.join(sorted(ids))}"
            name = case.workflows[workflow_id].name
            at = min(case.runs[each].scheduled_for.timestamp() for each in ids)
            yield Breach(kind="doubled firing", at=at, job=name, detail=f"number {number}: {detail}")
    # A call whose outcome is unknown may have begun a run; the ledger will show it.
    unknown = 0 if case.ledger_of_runs else sum(asked.acknowledged_at is None for asked in case.asked)
    strays = {d.task_run[0]: d for d in case.deliveries if d.task_run and d.task_run[0] not in case.runs}
    if len(strays) > unknown:
        for run_id, delivery in strays.items():
            detail = "a task of a run that was never acknowledged"
            yield Breach(kind="phantom", at=delivery.at, job=run_id, detail=detail)
