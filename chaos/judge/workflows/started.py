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
    if each.is_inner(task):
        return "it is a run of another workflow"
    if nth in each.kept_items[task]:
        return "it had succeeded before the retry"
    return f"the list has {each.sizes[task]} items" if each.is_map(task) else "it is no map"


def order(each: Told, excused: Counter[str]) -> Iterator[Breach]:
    """Tasks and items that began before enough of the tasks before them had ended, and items that began before their
    turn.
    """
    for unit in each.jobs:
        deliveries, (task, nth) = each.deliveries[unit], parts(unit)
        if not deliveries:
            continue
        began = deliveries[0].at
        if edges := open_edges(each, task, began):
            if each.is_troubled and all(is_lost(each, one) for one in edges):
                excused["a task after one of which a fault cost the last attempt"] += 1
                continue
            detail = f"began before the end of {', '.join(edges)}"
            yield each.breach("early", began, unit, detail)
        elif nth is not None and each.item_ready_at(unit) > began and not each.is_troubled:
            parallel = each.workflow.tasks[task]["parallel"]
            detail = f"began before as many items before it had ended as lets {parallel} be under way"
            yield each.breach("early", began, unit, detail)


def open_edges(each: Told, task: str, began: float) -> list[str]:
    """The tasks before one whose ends had not come yet when it began, if it needed them."""
    edges = before(each.workflow, task)
    # The instant that a wait waits for comes from a schedule; all other times were measured.
    found = [one for one, on in edges if each.met_at(one, on) > began + EARLY_SECONDS * bool(each.wait(one))]
    return found if needs_all(each.workflow, task) or len(found) == len(edges) else []


def is_lost(each: Told, one: str) -> bool:
    """Whether an attempt of a task, of an item or of an inner run of it may have ended unseen."""
    if each.is_inner(one):
        inner = each.source(one)
        return inner is None or any(is_lost(inner, task) for task in inner.workflow.tasks if inner.must(task))
    return each.ends.get(one) == "failed" or any(not each.settled(unit) for unit in each.units[one])
