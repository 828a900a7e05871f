"""Which inner runs there must be: one for each start of a task that is an inner run, and no others."""

from collections import Counter
from collections.abc import Iterator

from chaos.judge.case import Case
from chaos.judge.verdict import Breach
from chaos.judge.workflows.graphs import Fate
from chaos.judge.workflows.started import is_lost, open_edges
from chaos.judge.workflows.told import Told, state_of


def begun(each: Told, excused: Counter[str]) -> Iterator[Breach]:
    """Starts without a run or with several, and runs that began without a start or before it."""
    for task, inner in each.inner.items():
        fate = each.fates[task]
        if len(inner) > 1:
            ids = ", ".join(one.run.id for one in inner)
            yield each.breach(
                "doubled run", inner[1].begins_at, task, f"one start began {len(inner)} runs: {ids}"
            )
        for one in inner[:1]:
            if fate in (Fate.UPSTREAM, Fate.HALTED, Fate.KEPT):
                yield each.breach(
                    "phantom", one.begins_at, task, f"run {one.run.id} of it began, though it {fate}"
                )
            elif edges := open_edges(each, task, one.begins_at):
                if each.is_troubled and all(is_lost(each, edge) for edge in edges):
                    excused["a task after one of which a fault cost the last attempt"] += 1
                else:
                    detail = f"run {one.run.id} of it began before the end of {', '.join(edges)}"
                    yield each.breach("early", one.begins_at, task, detail)
        if not inner and fate == Fate.START and each.is_due and not each.cancel:
            yield from _missing(each, task, excused)
    yield from _starts(each)


def _missing(each: Told, task: str, excused: Counter[str]) -> Iterator[Breach]:
    if each.is_troubled and each.entry(task).get("state") == "failed":
        excused["a task that failed in a fault, and had begun no run"] += 1
        return
    detail = f"no run of it began; the ledger says {state_of(each.seen, task)}"
    yield each.breach("lost", each.begins_at, task, detail)


def _starts(each: Told) -> Iterator[Breach]:
    """By the database each run is of a later start than the run of the generation before. Runs of one generation are
    counted already.
    """
    for task, inner in each.inner.items():
        earlier = each.before
        while earlier and not earlier.inner[task]:
            earlier = earlier.before
        if not inner or not earlier:
            continue
        was = each.case.starts.get(earlier.inner[task][-1].run.id)
        now = each.case.starts.get(inner[0].run.id)
        if was and now and (was[0] != now[0] or was[1] >= now[1]):
            detail = (
                f"start {now[1]} of trigger {now[0]} began a run after start {was[1]} of trigger {was[0]}"
            )
            yield each.breach("doubled run", inner[0].begins_at, task, detail)


def unasked(case: Case) -> Iterator[Breach]:
    """Runs of workflows that only tasks begin, where no task of a known run began them."""
    for run in case.runs.values():
        if run.outer or case.is_asked_for(run.workflow) or run.workflow.schedule:
            continue
        # A call whose outcome is unknown may have begun the outer run; the ledger will show it.
        if case.ledger_of_runs or all(asked.acknowledged_at for asked in case.asked):
            detail = f"run number {run.number}, which no task began (run {run.id})"
            at = run.scheduled_for.timestamp()
            yield Breach(kind="phantom", at=at, job=run.workflow.name, detail=detail)
