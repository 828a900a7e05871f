"""How inner runs end when the outer one is cancelled, or its deadline is over: they end soon after it.

A run that ends, but later than that, is late, as a busy machine may make it; one that goes on is an orphan.
"""

from collections.abc import Iterator

from chaos.judge.limits import EARLY_SECONDS, FINISH_SECONDS, LATE_SECONDS
from chaos.judge.verdict import Breach
from chaos.judge.workflows.runs import NEVER
from chaos.judge.workflows.told import Told


def stopped(each: Told) -> Iterator[Breach]:
    """Inner runs that went on, or began, after a cancel of the outer run was acknowledged."""
    call = each.cancel
    if each.outer or call is None or call.acknowledged_at is None:
        return
    since = call.acknowledged_at
    for task, inner in each.inner.items():
        for one in inner:
            if one.begins_at > since:
                detail = f"run {one.run.id} of it began {one.begins_at - since:.1f} s after a cancel was acknowledged"
                yield each.breach("stopped", one.begins_at, task, detail)
    yield from _outlived(each, since, "its outer run was cancelled")


def overdue(each: Told) -> Iterator[Breach]:
    """Runs that a deadline ended too soon, or that it did not end, with their inner ones."""
    seen, seconds = each.seen, each.workflow.deadline_seconds
    if seconds is None or seen is None or each.outer:
        return
    over_at = seen.finished_at or NEVER
    cancelled = seen.state == "cancelled" and not each.generation.asked("cancel")
    if cancelled and seen.cancel_reason != "deadline":
        detail = f"the run was cancelled ({seen.cancel_reason}), and nobody asked for it"
        yield each.breach("task", each.begins_at, "", detail)
    elif cancelled and over_at < each.deadline_at - EARLY_SECONDS:
        detail = f"was cancelled {each.deadline_at - over_at:.3f} s before its deadline of {seconds:g} s"
        yield each.breach("deadline", over_at, "", detail)
    elif each.cancel and not each.generation.asked("cancel"):
        # A retry begins the deadline again, from a moment between the call and its acknowledgement.
        retry = each.generation.retry
        begun = (retry.acknowledged_at if retry else seen.created_at) or each.begins_at
        since = max(begun, each.begins_at) + seconds
        most = _most(each, since, _depth(each) + 1) + max(_work(one) for one in (each, *each.within()))
        yield from _overtime(each, since, most, "its deadline", kind="deadline")
        yield from _outlived(each, since + LATE_SECONDS, "the deadline of its outer run")


def _outlived(each: Told, since: float, what: str, depth: int = 1) -> Iterator[Breach]:
    """Inner runs that go on after that moment for longer than the way to them and the work under way take."""
    for inner in each.inner.values():
        for one in inner:
            yield from _late_end(one, since, what, depth)
            yield from _late_starts(one, since, what, depth)
            yield from _outlived(one, since, what, depth + 1)


def _late_end(one: Told, since: float, what: str, depth: int) -> Iterator[Breach]:
    if one.seen is None:
        return
    most = _most(one, since, depth) + max([_work(one), *(_work(each) for each in one.within())])
    yield from _overtime(one, since, most, what, kind="orphan")
    if one.seen.state == "cancelled" and one.seen.cancel_reason != "outer":
        detail = f"the run was cancelled ({one.seen.cancel_reason}), and not with its outer run"
        yield one.breach("task", since, "", detail)


def _overtime(each: Told, since: float, most: float, what: str, *, kind: str) -> Iterator[Breach]:
    """A run that ended later than allowed, or had not ended when the ledger was read: a breach of that ``kind``."""
    assert each.seen
    at = each.seen.finished_at or each.seen.at
    if at > since + most and not each.case.stepped(since, at):
        how = "ended" if each.seen.finished_at else "goes on"
        detail = f"{how} {at - since:.1f} s after {what}, {most:.1f} s allowed"
        yield each.breach("late" if each.seen.finished_at else kind, since, "", detail)


def _late_starts(one: Told, since: float, what: str, depth: int) -> Iterator[Breach]:
    stops_at = since + _most(one, since, depth)
    for unit in one.jobs:
        if one.deliveries[unit] and stops_at < one.unit_ready_at(unit) <= (
            began := one.deliveries[unit][0].at
        ):
            yield one.breach("stopped", began, unit, f"began {began - since:.1f} s after {what}")


def _most(each: Told, since: float, steps: int) -> float:
    """The seconds within which it is cancelled, ``steps`` runs deep: in calm each step takes a beat's turn. A fault may
    strike each step, and also the work under way.
    """
    calm = steps * LATE_SECONDS
    late = [
        window.others_seconds if window.spares(each.workflow.tenant) else window.limits.late_seconds
        for window in each.case.windows
        if window.touches(since, since + calm, after=window.limits.late_seconds)
    ]
    return max([calm, *((steps + 1) * seconds for seconds in late)])


def _work(each: Told) -> float:
    """How long an attempt that had begun may go on."""
    return max((job.seconds + FINISH_SECONDS for job in each.jobs.values()), default=FINISH_SECONDS)


def _depth(each: Told) -> int:
    return max((1 + _depth(one) for inner in each.inner.values() for one in inner), default=0)
