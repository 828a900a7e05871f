"""The calls that steer runs: stopped tasks do not begin, and waits end as they were answered."""

from collections.abc import Iterator

from chaos.history import Steered
from chaos.judge.limits import EARLY_SECONDS
from chaos.judge.verdict import Breach
from chaos.judge.workflows.runs import NEVER, parts
from chaos.judge.workflows.told import Told


def stopped(each: Told) -> Iterator[Breach]:
    """Tasks and items that began after a pause or a cancel was acknowledged, though they could not have started before.

    Those that could have may come later: they had started, and waited for a worker.
    """
    stops = [(call, _resumed_at(each, call)) for call in each.generation.asked("pause")]
    stops += [(call, NEVER) for call in each.generation.asked("cancel")]
    for unit in each.jobs:
        for call, until in stops:
            since = call.acknowledged_at
            if not each.deliveries[unit] or since is None:
                continue
            began, ready_at = each.deliveries[unit][0].at, each.unit_ready_at(unit)
            if since < ready_at <= began < until:
                detail = f"began {began - since:.1f} s after a {call.verb} was acknowledged"
                yield each.breach("stopped", began, unit, detail)


def _resumed_at(each: Told, pause: Steered) -> float:
    later = [
        call.requested_at
        for call in each.generation.asked("resume")
        if call.requested_at > pause.requested_at
    ]
    return min(later, default=NEVER)


def wrong_wait(each: Told, task: str, state: str, finished_at: float) -> str:
    """Why a wait cannot have ended so; empty: it can."""
    wait, said = each.wait(task), [] if each.wait(task)["type"] == "time" else each.answers(task)
    refused = each.generation.asked("refuse", task)
    if state == "cancelled":
        return "" if refused else "was cancelled, and no call refused it"
    if wait["type"] == "time" and state != "succeeded":
        return f"{state}, though it waited for an instant"
    if state == "failed" and any(call.acknowledged_at for call in [*said, *refused]):
        return "failed, though it was answered"
    if state == "succeeded" and wait["type"] != "time" and not said:
        return "succeeded, and no call answered it"
    # The receiver shows when a task before it ended; that outcome may take a second to reach the database.
    due_at = each.wait_over_at(task)
    if due_at < NEVER and finished_at < due_at - EARLY_SECONDS and not each.case.stepped(finished_at, due_at):
        return f"was over {due_at - finished_at:.3f} s before its time"
    return ""


def may_be_cancelled(each: Told, task: str) -> bool:
    """Whether the call that cancelled its run may have cancelled it, or an item of it."""
    return each.cancel is not None and parts(task)[0] not in each.kept
