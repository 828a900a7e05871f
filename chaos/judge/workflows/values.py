"""The values that tasks' requests carried, compared with the runs' inputs and the answers to the tasks before."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from chaos.judge.arrivals import Arrival
from chaos.judge.verdict import Breach
from chaos.judge.workflows.runs import parts
from chaos.judge.workflows.told import Told


def carried(each: Told) -> Iterator[Breach]:
    """Values that are not the results of the tasks before it, or two different results of one task."""
    taken: dict[str, set[str]] = defaultdict(set)
    for unit, job in each.jobs.items():
        task, nth = parts(unit)
        for delivery in each.deliveries[unit]:
            values = each.case.brought.get(delivery.request.delivery)
            if values is None:
                if delivery.settles(job) and job.target != "once":
                    yield each.breach("value", delivery.at, unit, "its request carried nothing")
                continue
            if values.get("number") != each.run.number:
                detail = f"carried input {values.get('number')}, not {each.run.number}"
                yield each.breach("value", delivery.at, unit, detail)
            if nth is not None:
                yield from _item(each, unit, delivery, values)
                if (over := each.workflow.tasks[task]["over"]) != "input":
                    taken[over].add(str(values.get("item")).partition(".")[0])
            for one in each.workflow.tasks[task].get("brings", ()):
                if why := wrong(each, one, values.get(one), delivery.at):
                    yield each.breach(
                        "value", delivery.at, unit, f"carried {values.get(one)} of {one}, {why}"
                    )
                taken[one].add(str(values.get(one)))
    for one, found in taken.items():
        if len(found) > 1:
            detail = f"tasks after it carried {len(found)} results of it: {found}"
            yield each.breach("value", each.begins_at, one, detail)


def wrong(each: Told, one: str, value: Any, at: float) -> str:
    """Why it cannot be the value of that name at that moment (``history.WorkflowMade``); empty: it can."""
    task, _, within = one.partition(".")
    if task == "input":
        return wrong(each.outer[0], within, value, at) if each.outer else ""
    if within:
        inner = each.source(task)
        return wrong(inner, within, value, at) if inner else "of which no run began"
    if wait := each.wait(one):
        right = each.run.number if wait["type"] == "signal" else True
        return "" if value == right else f"not {right}"
    if not each.is_map(one):
        answers = _answers(each, one, at)
        return "" if value in answers else f"which had been answered {sorted(answers)}"
    size = each.sizes[one]
    if not isinstance(value, list) or len(value) != size:
        return f"which has {size} items"
    for nth, result in enumerate(value):
        answers, state = _answers(each, f"{one}:{nth}", at), each.entry(f"{one}:{nth}").get("state")
        # An answer may have been lost with its worker.
        missing = result is None and (not answers or state not in (None, "succeeded"))
        if not missing and (result or {}).get("delivery") not in answers:
            return f"whose item {nth} had been answered {sorted(answers)}"
    return ""


def _answers(each: Told, unit: str, at: float) -> set[int]:
    """The numbers of the executions whose result could be taken by then."""
    return {good.request.delivery for good in each.good(unit) if good.ended_at <= at}


def _item(each: Told, unit: str, delivery: Arrival, values: Mapping[str, Any]) -> Iterator[Breach]:
    """The place of an item, and the value at that place in the list."""
    nth = parts(unit)[1]
    if values.get("nth") != nth:
        yield each.breach("value", delivery.at, unit, f"carried place {values.get('nth')}")
    right = items(each, unit)
    if values.get("item") not in right:
        yield each.breach(
            "value", delivery.at, unit, f"carried item {values.get('item')}, not {sorted(right)}"
        )


def items(each: Told, unit: str) -> set[str]:
    """The values that may stand at the place of an item: one, or one for each answer to the task that lists them."""
    task, nth = parts(unit)
    over = each.workflow.tasks[task]["over"]
    if over == "input":
        return {each.run.input["items"][nth]}
    return {f"{good.request.delivery}.{nth}" for good in each.good(over)}
