"""The ledger of runs, held against the receiver's log, the graph and the calls."""

from collections import Counter
from collections.abc import Iterator

from chaos.history import RunSeen
from chaos.judge.verdict import Breach
from chaos.judge.workflows import values
from chaos.judge.workflows.graphs import FAILURES, Fate
from chaos.judge.workflows.inner import ends
from chaos.judge.workflows.outcome import ENDS
from chaos.judge.workflows.runs import NEVER
from chaos.judge.workflows.steering import may_be_cancelled, wrong_wait
from chaos.judge.workflows.told import Told, state_of


def recorded(each: Told, seen: RunSeen, excused: Counter[str]) -> Iterator[Breach]:
    """The state of each task and item."""
    at = each.begins_at
    for task, fate in each.fates.items():
        if wrong := _wrong_state(each, seen, task, fate, excused):
            kind = "unfinished" if wrong.startswith("still ") else "task"
            if kind == "task" or each.is_due:
                yield each.breach(kind, at, task, wrong)
        if each.is_map(task) and fate != Fate.KEPT:
            yield from _items(each, task, excused)
    for unit, deliveries in each.deliveries.items():
        known = each.entry(unit).get("trigger_id")
        others = {d.request.trigger_id for d in deliveries} - {known}
        if others and unit in each.jobs:
            detail = f"trigger {known} in the ledger, and {', '.join(sorted(others))} at the receiver"
            yield each.breach("doubled firing", at, unit, detail)


def _wrong_state(each: Told, seen: RunSeen, task: str, fate: Fate, excused: Counter[str]) -> str:
    """Why a task cannot be in that state; empty: it can."""
    entry = seen.tasks[task]
    state, reason = entry["state"], entry["reason"]
    if fate == Fate.KEPT:
        return _changed(each, seen, task)
    if state not in ENDS:
        return f"still {state}"
    if each.is_inner(task) and (wrong := ends.unlike(each, task, state, excused)):
        return wrong
    if state == "cancelled" and may_be_cancelled(each, task):
        return ""
    if state == "skipped":
        return "" if _may_skip(fate, reason) else f"skipped: {reason}, though it {fate}"
    if fate in (Fate.UPSTREAM, Fate.HALTED, Fate.WAIT):
        return f"{state}, though it {fate}"
    if each.is_inner(task):
        return ""
    if each.wait(task):
        return wrong_wait(each, task, state, entry["finished_at"] or NEVER)
    if each.is_map(task):
        return _unlike_items(each, task, state, reason)
    return _unlike(each, task, state, excused)


def _changed(each: Told, seen: RunSeen, task: str) -> str:
    """How a task that a retry leaves alone is wrong; empty: it is not."""
    retry, earlier = each.generation.retry, each.earlier
    assert retry is not None
    assert earlier is not None
    was, now = earlier.tasks[task], seen.tasks[task]
    if task in retry.skip:
        passed = (now["state"], now["reason"]) == ("skipped", "requested")
        return "" if passed else f"{state_of(seen, task)}, though the retry passes it over"
    return "" if was == now else f"was {was} before the retry, which leaves it alone, and then {now}"


def _may_skip(fate: Fate, reason: str) -> bool:
    if fate == Fate.EITHER:
        return reason == Fate.HALTED.reason
    return fate in (Fate.UPSTREAM, Fate.HALTED) and reason == fate.reason


def _unlike(each: Told, unit: str, state: str, excused: Counter[str]) -> str:
    """How the state of a task or an item differs from the answers of its receiver; empty: it does not."""
    settled = each.settled(unit)
    if state == "succeeded":
        return (
            ""
            if any(delivery.is_good for delivery in settled)
            else "succeeded, and no execution was answered well"
        )
    if state == "failed" and any(not delivery.is_good for delivery in settled):
        return ""
    if state == "failed" and each.is_troubled:
        excused["a task that failed in a fault, and had not been refused"] += 1
        return ""
    return f"{state}, and its receiver said nothing of the kind"


def _unlike_items(each: Told, task: str, state: str, reason: str) -> str:
    """How the state of a map differs from those of its items."""
    if each.sizes[task] is None:
        return "" if (state, reason) == ("failed", "no_list") else f"{state} {reason}, and there is no list"
    states = {item["state"] for item in each.entry(task).get("items", [])}
    right = "succeeded" if states <= {"succeeded"} else "failed"
    return "" if state == right else f"{state}, and its items are {sorted(states)}"


def _items(each: Told, task: str, excused: Counter[str]) -> Iterator[Breach]:
    """One item for each place of the list, with the value at that place, and each in a state that follows."""
    entry, size = each.entry(task), each.sizes[task]
    if "items" not in entry:
        if entry["state"] == "succeeded":
            yield each.breach("task", each.begins_at, task, f"has no items, and its list has {size}")
        return
    places = [item["item"] for item in entry["items"]]
    if places != list(range(size or 0)):
        detail = f"items {places}, and the list has {size}"
        yield each.breach("task", each.begins_at, task, detail)
        return
    failed = any(end in FAILURES for end in each.ends.values())
    for nth, item in enumerate(entry["items"]):
        unit, state = f"{task}:{nth}", item["state"]
        wrong = ""
        if item["value"] not in values.items(each, unit):
            detail = f"stands for {item['value']}, not {sorted(values.items(each, unit))}"
            yield each.breach("value", each.begins_at, unit, detail)
        if nth in each.kept_items[task]:
            wrong = "" if state == "succeeded" else f"{state}, though it had succeeded before the retry"
        elif state not in ENDS:
            wrong = f"still {state}, and the map has ended" if entry["state"] in ENDS else ""
        elif state == "skipped":
            halts = each.workflow.on_failure == "halt" and failed and item["reason"] == "halted"
            wrong = "" if halts and not each.deliveries[unit] else f"skipped: {item['reason']}"
        elif state != "cancelled" or not may_be_cancelled(each, task):
            wrong = _unlike(each, unit, state, excused)
        if wrong:
            yield each.breach("task", each.begins_at, unit, wrong)
        if (entry["finished_at"] or NEVER) < (item["finished_at"] or 0.0):
            yield each.breach("second end", each.begins_at, unit, "ended after its map had")


def ended_once(each: Told, seen: RunSeen) -> Iterator[Breach]:
    """A run's end follows from its tasks' and from a cancel, comes after them, and stays as it is."""
    at = each.begins_at
    states = {task["state"] for task in seen.tasks.values()}
    right = {"failed" if states & set(FAILURES) else "succeeded"}
    if each.cancel:
        right = {"cancelled"} if each.cancel.acknowledged_at else right | {"cancelled"}
    if seen.state == "running":
        if each.is_due:
            yield each.breach("unfinished", at, "", "the run has not ended")
    elif seen.state not in right:
        yield each.breach("task", at, "", f"the run is {seen.state}, and its tasks are {sorted(states)}")
    elif seen.finished_at is not None and not _clock_was_set(each, at, seen.finished_at):
        late = [task for task, one in seen.tasks.items() if (one["finished_at"] or NEVER) > seen.finished_at]
        if late:
            yield each.breach(
                "second end", seen.finished_at, "", f"{', '.join(late)} ended after the run had"
            )
    for earlier in each.generation.seen:
        if earlier.state != "running" and (earlier.state, earlier.finished_at) != (
            seen.state,
            seen.finished_at,
        ):
            detail = f"ended as {earlier.state}, and later was {seen.state}, or ended at another time"
            yield each.breach("second end", at, "", detail)
        for task, was in earlier.tasks.items():
            if was["state"] in ENDS and was != seen.tasks[task]:
                yield each.breach("second end", at, task, f"was {was}, and later {seen.tasks[task]}")


def _clock_was_set(each: Told, at: float, finished_at: float) -> bool:
    """Whether the database's clock was set meanwhile. If it was put back, a run may have ended before it began."""
    put_back = finished_at < at and any(step.clock_seconds < 0 for step in each.case.steps)
    return put_back or each.case.stepped(at, finished_at)


def effects(each: Told, seen: RunSeen) -> Iterator[Breach]:
    """An exactly-once task that succeeded has one effect, and none ever has two."""
    for task, job in each.jobs.items():
        if job.target != "once" or not each.deliveries[task]:
            continue
        count = each.case.effects.get(each.deliveries[task][0].firing, 0)
        if count > 1 or (count == 0 and seen.tasks[task]["state"] == "succeeded"):
            detail = f"{count} effects; the ledger says {state_of(seen, task)}"
            yield each.breach("effect", each.begins_at, task, detail)
