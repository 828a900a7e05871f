"""How a task that is an inner run ends: as the run does, after it."""

from collections import Counter
from collections.abc import Iterator

from chaos.judge.verdict import Breach
from chaos.judge.workflows.runs import NEVER
from chaos.judge.workflows.told import Told


def unlike(each: Told, task: str, state: str, excused: Counter[str]) -> str:
    """How a task that has ended differs from its run; empty: it does not."""
    inner = each.inner[task]
    if inner and (seen := inner[-1].seen):
        how = "goes on" if seen.state == "running" else f"ended as {seen.state}"
        return "" if state == seen.state else f"{state}, and its run {seen.run_id} {how}"
    if inner or state in ("skipped", "cancelled"):
        return ""
    if state == "failed" and each.is_troubled:
        excused["a task that failed in a fault, and had begun no run"] += 1
        return ""
    return f"{state}, and no run of it began"


def ended(each: Told) -> Iterator[Breach]:
    """Runs that their tasks do not show, or that ended after their tasks."""
    for task, inner in each.inner.items():
        entry = each.entry(task)
        for one in inner[-1:]:
            if not one.seen or not entry:
                continue
            at = one.begins_at
            if entry.get("inner_run_id") != one.run.id:
                detail = f"began run {one.run.id}, and shows run {entry.get('inner_run_id')}"
                yield each.breach("task", at, task, detail)
            if entry["trigger_id"] != one.seen.trigger_id:
                detail = f"is trigger {entry['trigger_id']}, and trigger {one.seen.trigger_id} began run {one.run.id}"
                yield each.breach("task", at, task, detail)
            over_at, run_over_at = entry["finished_at"] or NEVER, one.seen.finished_at or 0.0
            if over_at < run_over_at and not each.case.stepped(over_at, run_over_at):
                detail = f"ended {run_over_at - over_at:.3f} s before its run {one.run.id}"
                yield each.breach("second end", over_at, task, detail)


def unrecorded(each: Told) -> Iterator[Breach]:
    """Inner runs that were executed but that the ledger does not have."""
    if each.outer and not each.seen and each.case.ledger_of_runs:
        yield each.breach("unrecorded", each.begins_at, "", "the ledger has no such run")
