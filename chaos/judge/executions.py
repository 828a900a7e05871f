"""Promises about executions: repeated only out of a fault, under rising fences, never side by side where forbidden."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from chaos.judge.arrivals import Arrival
from chaos.judge.case import Case
from chaos.judge.limits import FINISH_SECONDS
from chaos.judge.verdict import Breach
from chaos.judge.windows import Window
from chaos.judge.workflows.runs import NEVER, parts

#: Repeated executions by the fault that excuses them: trigger ids, one for each time.
Repeats = dict[str, list[str]]


def repeated(case: Case, excused: Counter[str], repeats: Repeats) -> Iterator[Breach]:
    """Repeated executions that no fault accounts for: the firing had been executed, or was being executed.

    A fault accounts for one more execution of each trigger that was in flight when it struck or while it lasted. Fills
    ``repeats``.
    """
    victims: set[tuple[str, int, str]] = set()
    for deliveries in case.rounds.values():
        job = case.job_of(deliveries[0])
        if job is None or job.target in ("poison", "sink"):
            continue
        seen: set[int] = set()
        uncharged = 0
        for before, delivery in pairwise(deliveries):
            seen.add(before.attempt)
            if job.delivery == "at_most_once":
                detail = f"at most once, and attempt {delivery.request.attempt} came"
                yield Breach(kind="executed twice", at=delivery.at, job=job.name, detail=detail)
                continue
            if _retry(
                before, delivery, job.max_attempts + uncharged + _unseen(case, job.tenant, before, seen)
            ):
                # It was answered, but its worker may have died with the answer, which costs the budget nothing either.
                uncharged += _cause(case, job.tenant, before, delivery) is not None
                continue
            cause = _cause(case, job.tenant, before, delivery) or _delay(case, job.tenant, before, delivery)
            if cause is None:
                detail = (
                    f"again {delivery.at - before.at:.1f} s after {_how(before)}, and no fault is to blame"
                )
                yield Breach(kind="executed twice", at=delivery.at, job=job.name, detail=detail)
                continue
            window, strike = cause
            victim = (window.id, strike, delivery.request.trigger_id)
            if victim in victims:
                detail = f"once more than one fault accounts for ({window.what})"
                yield Breach(kind="executed twice", at=delivery.at, job=job.name, detail=detail)
            else:
                victims.add(victim)
                repeats[window.id].append(delivery.request.trigger_id)
                excused["executed again after a fault"] += 1


def _retry(before: Arrival, delivery: Arrival, most: int) -> bool:
    """Whether the answer to the earlier one asked for another attempt, and fewer than ``most`` had been made."""
    failed = before.sent and before.status >= 500 and before.ended_at <= delivery.at
    return failed and before.attempt < most


def _unseen(case: Case, tenant: str, delivery: Arrival, seen: set[int]) -> int:
    """How many attempts before this one ended with their worker before a request left. Where the worker had claimed a
    batch, that costs its triggers nothing of their budgets (docs/handlers.md). 0 where no fault may have killed one.
    """
    due = case.reached(delivery.request.scheduled_for)
    killed = any(window.may_repeat(tenant) for window in case.faulty(tenant, due, delivery.at))
    return delivery.attempt - len(seen) if killed else 0


def _how(before: Arrival) -> str:
    if before.ended_at == NEVER:
        return "one that has no end"
    return f"one that was answered {before.status}" if before.sent else "one that was cut short"


def _cause(case: Case, tenant: str, before: Arrival, delivery: Arrival) -> tuple[Window, int] | None:
    """The fault that found the earlier one in flight, and which of its strikes: the last one before the repetition."""
    in_flight_until = min(before.ended_at, delivery.at) + FINISH_SECONDS
    candidates = [
        (window, strike)
        for window in case.windows
        if window.may_repeat(tenant) and window.struck_at <= delivery.at
        for strike, (begin, end) in enumerate(case.strikes(window))
        if begin <= min(delivery.at, in_flight_until) and before.at <= end
    ]
    return candidates[-1] if candidates else None


def _delay(case: Case, tenant: str, before: Arrival, delivery: Arrival) -> tuple[Window, int] | None:
    """The fault that found the later one in flight, where that one has the older fence: its worker had claimed it, was
    cut off before the request left, and sent the request once it was back.
    """
    if delivery.request.fence >= before.request.fence:
        return None
    candidates = [
        (window, strike)
        for window in case.windows
        if window.may_repeat(tenant) and window.limits.may_outlive
        for strike, (begin, end) in enumerate(case.strikes(window))
        if begin <= delivery.at and delivery.claimed_at <= end
    ]
    return candidates[-1] if candidates else None


def in_flight(case: Case, window: Window) -> int:
    """The number of triggers that were under way at the receiver, or not yet recorded as done, at each strike, in all.
    Where a worker may be cut off, triggers count from their claim.
    """
    return sum(
        len(
            {
                delivery.request.trigger_id
                for delivery in case.deliveries
                if (delivery.claimed_at if window.limits.may_outlive else delivery.at) <= end
                and delivery.ended_at + FINISH_SECONDS >= begin
            }
        )
        for begin, end in case.strikes(window)
    )


def fences(case: Case, excused: Counter[str]) -> Iterator[Breach]:
    """A fence that comes twice, or after a higher one, for the same trigger."""
    by_trigger: dict[str, list[Arrival]] = defaultdict(list)
    for delivery in case.deliveries:
        by_trigger[delivery.request.trigger_id].append(delivery)
    for deliveries in by_trigger.values():
        highest, seen = 0, set()
        for delivery in deliveries:
            request = delivery.request
            job = case.job_of(delivery)
            name = job.name if job else request.job_id
            if request.fence in seen:
                detail = f"fence {request.fence} came twice"
                yield Breach(kind="fence", at=delivery.at, job=name, detail=detail)
            elif request.fence < highest:
                if _outlived(case, job.tenant if job else "", deliveries[0].at, delivery.at):
                    excused["a fence after a higher one, from a worker that had been cut off"] += 1
                else:
                    detail = f"fence {request.fence} came after {highest}"
                    yield Breach(kind="fence", at=delivery.at, job=name, detail=detail)
            seen.add(request.fence)
            highest = max(highest, request.fence)


def _outlived(case: Case, tenant: str, start: float, end: float) -> bool:
    """Whether in that stretch a worker may have gone on with triggers of the tenant that had been taken from it."""
    return any(window.limits.may_outlive for window in case.faulty(tenant, start, end))


def overlaps(case: Case, excused: Counter[str]) -> Iterator[Breach]:
    """Executions side by side, beyond what the job's policy, its run, its map or the tenant's cap allows."""
    by_job: dict[str, list[Arrival]] = defaultdict(list)
    by_tenant: dict[str, list[Arrival]] = defaultdict(list)
    by_run: dict[tuple[str, str, int], list[Arrival]] = defaultdict(list)
    for delivery in case.deliveries:
        job = case.job_of(delivery)
        if job is None:
            continue
        by_job[job.job_id].append(delivery)
        by_tenant[job.tenant].append(delivery)
        run = case.runs.get(delivery.task_run[0]) if delivery.task_run else None
        if run and delivery.task_run:
            task, nth = parts(delivery.task_run[1])
            if run.workflow.max_parallel:
                by_run[run.id, "", run.workflow.max_parallel].append(delivery)
            if nth is not None:
                by_run[run.id, task, run.workflow.tasks[task]["parallel"]].append(delivery)
    for deliveries in by_job.values():
        job = case.job_of(deliveries[0])
        assert job is not None
        most = job.max_concurrent if job.overlap_policy == "allow" else 1
        yield from _side_by_side(case, excused, deliveries, most, kind="overlap", name=job.name)
    for (run_id, task, bound), deliveries in by_run.items():
        name = "/".join(filter(None, (case.runs[run_id].workflow.name, task)))
        yield from _side_by_side(case, excused, deliveries, bound, kind="overlap", name=name)
    for tenant in case.tenants:
        deliveries = by_tenant[tenant.slug]
        yield from _side_by_side(
            case, excused, deliveries, tenant.max_in_flight, kind="quota", name=tenant.slug
        )


def _side_by_side(
    case: Case, excused: Counter[str], deliveries: Iterable[Arrival], most: int, *, kind: str, name: str
) -> Iterator[Breach]:
    """Each moment at which one more trigger than ``most`` began; two executions of one trigger are one here."""
    steps = []
    for delivery in deliveries:
        # An end that is not in the log says nothing of how long it took.
        if delivery.ended_at < NEVER:
            steps += [(delivery.at, 1, delivery), (delivery.ended_at, -1, delivery)]
    running: Counter[str] = Counter()
    count = 0
    for at, step, delivery in sorted(steps, key=lambda each: (each[0], each[1])):
        trigger_id = delivery.request.trigger_id
        was = running[trigger_id] > 0
        running[trigger_id] += step
        count += (running[trigger_id] > 0) - was
        if step < 0 or count <= most:
            continue
        job = case.job_of(delivery)
        if _outlived(case, job.tenant if job else "", at, at):
            excused[f"{kind} with a worker that had been cut off"] += 1
        else:
            yield Breach(kind=kind, at=at, job=name, detail=f"{count} at once, {most} allowed")
