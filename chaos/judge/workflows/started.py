"""Which tasks and items were executed: those that had to be, no others, and none before it could begin."""

from collections import Counter
from collections.abc import Iterator

from chaos.judge.limits import EARLY_SECONDS
from chaos.judge.verdict import Breach
from chaos.judge.workflows.graphs import Fate, before, needs_all
from chaos.judge.workflows.runs import parts
from chaos.judge.workflows.told import Told, state_of


def started(each: Told, excused: Counter[str]) -> Iterator[Breach]:
    """Tasks and items that should have been executed and were not, and those that should not and were."""
    for unit, deliveries in each.deliveries.items():
        if deliveries and (why := _why_not(each, unit)):
            yield each.breach("phantom", deliveries[0].at, unit, f"was executed, though {why}")
    if not each.is_due or each.cancel:
        return
    for task in each.fates:
        for unit in each.must(task):
            if each.settled(unit):
                continue
            if each.is_troubled and each.entry(unit).get("state") == "failed":
                excused["a task buried: a fault cost it its last attempt"] += 1
                continue
            count = len(each.deliveries[unit])
            seen = f"{count} deliveries, none of which settled it" if count else "never executed"
            at = each.begins_at
            yield each.breach("lost", at, unit, f"{seen}; the ledger says {state_of(each.seen, unit)}")


def _why_not(each: Told, unit: str) -> str:
    """Why a unit must not be executed; empty: it may."""
    task, nth = parts(unit)
    if task not in each.fates:
        return "the workflow has no such task"
    fate = each.fates[task]
    if fate in (Fate.UPSTREAM, Fate.HALTED, Fate.KEPT):
        return f"it {fate}"
    if unit in each.jobs:
        return ""
    if each.wait(task):
        return "it waits"
    if nth in each.kept_items[task]:
        return "it had succeeded before the retry"
    return f"the list has {each.sizes[task]} items" if each.is_map(task) else "it is no map"


def order(each: Told, excused: Counter[str]) -> Iterator[Breach]:
    """What began before as many of those before it had ended as it needs, or before it was an item's turn."""
    for unit in each.jobs:
        deliveries, (task, nth) = each.deliveries[unit], parts(unit)
        if not deliveries:
            continue
        began = deliveries[0].at
        # The instant for which a wait waits is a schedule's, all else was measured.
        open_edges = [
            one
            for one, on in before(each.workflow, task)
            if each.met_at(one, on) > began + EARLY_SECONDS * bool(each.wait(one))
        ]
        if len(open_edges) == len(before(each.workflow, task)) > 0 or (
            open_edges and needs_all(each.workflow, task)
        ):
            if each.is_troubled and all(_is_lost(each, one) for one in open_edges):
                excused["a task after one of which a fault cost the last attempt"] += 1
                continue
            detail = f"began before the end of {', '.join(open_edges)}"
            yield each.breach("early", began, unit, detail)
        elif nth is not None and each.item_ready_at(unit) > began and not each.is_troubled:
            parallel = each.workflow.tasks[task]["parallel"]
            detail = f"began before as many items before it had ended as lets {parallel} be under way"
            yield each.breach("early", began, unit, detail)


def _is_lost(each: Told, one: str) -> bool:
    """Whether of a task or an item of it an attempt may have ended unseen."""
    return each.ends.get(one) == "failed" or any(not each.settled(unit) for unit in each.units[one])
