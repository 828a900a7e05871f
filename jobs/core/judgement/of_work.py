"""Rules about the work: queued and not started, due and not dispatched, skipped, lost, or held back on purpose."""

from collections.abc import Iterator, Mapping

from jobs.core.judgement.figures import Figures, TypeFigures
from jobs.core.judgement.of_engine import lasting, named, some
from jobs.core.judgement.reason import Level, Page, Playbook, Reason

#: A queue holds about a second of work. Its oldest trigger waits this long only if no worker takes it.
UNSERVED_SECONDS, STUCK_SECONDS = 2.0, 5.0
#: A flood is reported before the triggers that it holds up are late.
FLOOD_SECONDS = 2.0
MAX_NAMED = 5


def queues_are_unserved(figures: Figures) -> Iterator[Reason]:
    """Something is queued or due, and no worker takes from that queue."""
    served = {name for worker in figures.workers for name in worker.takes}
    waiting = _waiting(figures, UNSERVED_SECONDS)
    late = [one for one in _by_lateness(figures) if _is_late(one, figures)]
    for one in dict.fromkeys(one.name for one in (*waiting, *late)):
        if figures.workers and one not in served:
            found = figures.types[one]
            what = (
                _queue(found) if found.queued else f"the oldest has been due for {lasting(found.due_seconds)}"
            )
            yield Reason(
                Level.RED, f"no worker serves `{one}`: {what}", Page.WORKERS, Playbook.NOT_RUNNING, one
            )


def workers_start_nothing(figures: Figures) -> Iterator[Reason]:
    """Workers are there with slots free, yet the head of the queue stays where it is: they are frozen or cut off."""
    for one in _waiting(figures, STUCK_SECONDS):
        serving = [worker for worker in figures.workers if one.name in worker.takes]
        if not serving:
            continue
        slots, free = sum(worker.slots for worker in serving), sum(worker.free for worker in serving)
        workers = (
            named(serving[0].name, "its worker") if len(serving) == 1 else f"its {len(serving):,} workers"
        )
        if free:
            text = (
                f"{workers} {'starts' if len(serving) == 1 else 'start'} nothing of `{one.name}` though "
                f"{free:,} of {some(slots, 'slot')} are free: {_queue(one)}"
            )
            yield Reason(Level.RED, text, Page.WORKERS, Playbook.NOT_RUNNING, one.name)
        elif one.queued_seconds > max(figures.lag_warn_seconds, STUCK_SECONDS):
            text = (
                f"all {some(slots, 'slot')} of `{one.name}` are taken, so it needs more workers or theirs "
                f"hang: {_queue(one)}"
            )
            yield Reason(Level.AMBER, text, Page.WORKERS, Playbook.NOT_RUNNING, one.name)


def dispatch_does_not_turn(figures: Figures) -> Iterator[Reason]:
    """Triggers that are due have room everywhere, and are not dispatched."""
    if figures.stopped or not figures.broker or (figures.leader and figures.leader.seconds_left <= 0):
        return
    longest = max(STUCK_SECONDS, figures.lag_warn_seconds)
    late = [one for one in figures.types.values() if not one.paused and one.late_seconds > longest]
    if late:
        worst = max(late, key=lambda one: (not one.turns, one.late_seconds))
        due = f"`{worst.name}` has been due for {lasting(worst.late_seconds)} with room for it"
        level, fault = (Level.AMBER, "is slow") if worst.turns else (Level.RED, "does not turn")
        yield Reason(level, f"dispatch {fault}: {due}", Page.LEASES, Playbook.NOT_RUNNING, worst.name)


def types_are_late(figures: Figures) -> Iterator[Reason]:
    """Triggers have been due for longer than the objective, behind a full queue or a full cap."""
    for one in _by_lateness(figures):
        full = one.window is not None and one.queued >= one.window
        capped = one.cap is not None and one.queued + one.running >= one.cap
        if _is_late(one, figures) and (full or capped):
            why = (
                f"its cap of {one.cap:,} in flight is full"
                if capped
                else f"its workers are too slow for it, {one.queued:,} are queued"
            )
            text = f"`{one.name}` is late: the oldest has been due for {lasting(one.due_seconds)}, {why}"
            yield Reason(Level.AMBER, text, Page.TYPE, Playbook.NOT_RUNNING, one.name)


def tenants_are_at_their_limits(figures: Figures) -> Iterator[Reason]:
    """Triggers are late for a reason of their tenant's own: its cap or its rate."""
    late = [
        tenant
        for tenant in figures.tenants
        if figures.stopped is None
        and tenant.is_active
        and tenant.due_seconds > (FLOOD_SECONDS if tenant.floods else figures.lag_warn_seconds)
        and (tenant.is_full or tenant.is_rated)
    ]
    for tenant in sorted(late, key=lambda one: -one.due_seconds)[:MAX_NAMED]:
        limit = (
            f"its cap of {tenant.cap:,} in flight is full"
            if tenant.is_full
            else "its rate lets no more through"
        )
        due = f"{tenant.due:,} due, " if tenant.due else ""
        oldest = f"{due}the oldest for {lasting(tenant.due_seconds)}"
        text = f"tenant `{tenant.slug}` waits for its own limit, {limit}: {oldest}"
        yield Reason(Level.AMBER, text, Page.TENANT, Playbook.FLOOD, str(tenant.id))


def leases_are_over(figures: Figures) -> Iterator[Reason]:
    expired = [one for one in figures.types.values() if one.expired]
    if expired:
        count = sum(one.expired for one in expired)
        names = ", ".join(f"`{one.name}`" for one in expired[:MAX_NAMED])
        text = f"{some(count, 'running trigger')} of {names} lost {'its' if count == 1 else 'their'} worker"
        yield Reason(Level.AMBER, text, Page.LOST, Playbook.TWICE)


def firings_were_missed(figures: Figures) -> Iterator[Reason]:
    """Firings were skipped within the hour because they could not be dispatched in time."""
    if figures.missed:
        yield Reason(
            Level.AMBER,
            f"{_were(figures.missed, 'firing')} skipped in the last hour, as {_they(figures.missed)} could not be "
            "dispatched in time",
            Page.SKIPPED,
            Playbook.NOT_RUNNING,
        )


def attempts_were_lost(figures: Figures) -> Iterator[Reason]:
    if figures.lost:
        yield Reason(
            Level.AMBER,
            f"{_were(figures.lost, 'attempt')} lost in the last hour with a worker that died or was cut off",
            Page.LOST,
            Playbook.TWICE,
        )


def types_are_paused(figures: Figures) -> Iterator[Reason]:
    for one in figures.types.values():
        if one.paused:
            text = (
                f"`{one.name}` is paused for {lasting(one.paused.seconds)} by `{one.paused.by}`: "
                f"{one.paused.reason.rstrip('.')}"
            )
            yield Reason(Level.AMBER, text, Page.TYPE, Playbook.NOT_RUNNING, one.name)


def targets_are_held_back(figures: Figures) -> Iterator[Reason]:
    if figures.paused_targets:
        text = f"operators paused targets by {some(figures.paused_targets, 'rule')}"
        yield Reason(Level.AMBER, text, Page.TARGETS, Playbook.TARGET)
    if figures.open_breakers:
        yield Reason(Level.AMBER, _failing(figures), Page.BREAKERS, Playbook.TARGET)


def _failing(figures: Figures) -> str:
    """Which targets fail, as circuit breakers found."""
    count, named = figures.open_breakers, figures.open_targets
    if not named:
        verb = "is" if count == 1 else "are"
        return f"{some(count, 'circuit breaker')} {verb} open: calls of their targets fail"
    first, more = named[0], count - 1
    others = f", and so {'is' if more == 1 else 'are'} {more:,} more" if more else ""
    return (
        f"calls of `{first.target}` by tenant `{first.tenant}` fail, so its circuit breaker is open{others}"
    )


def _waiting(figures: Figures, seconds: float) -> list[TypeFigures]:
    """Types whose oldest queued trigger waits for longer, the longest first; without types that operators hold."""
    if figures.stopped:
        return []
    found = [
        one
        for one in figures.types.values()
        if one.queued and one.queued_seconds > seconds and one.paused is None
    ]
    return sorted(found, key=lambda one: -one.queued_seconds)


def _by_lateness(figures: Figures) -> list[TypeFigures]:
    return sorted(figures.types.values(), key=lambda one: -one.due_seconds)


def _is_late(one: TypeFigures, figures: Figures) -> bool:
    return figures.stopped is None and one.paused is None and one.due_seconds > figures.lag_warn_seconds


def _queue(one: TypeFigures) -> str:
    return f"{one.queued:,} queued, the oldest for {lasting(one.queued_seconds)}"


def _were(counts: Mapping[str, int], noun: str) -> str:
    number = sum(counts.values())
    return f"{some(number, noun)} {'was' if number == 1 else 'were'}"


def _they(counts: Mapping[str, int]) -> str:
    return "it" if sum(counts.values()) == 1 else "they"


RULES = (
    queues_are_unserved,
    workers_start_nothing,
    dispatch_does_not_turn,
    types_are_late,
    tenants_are_at_their_limits,
    leases_are_over,
    types_are_paused,
    targets_are_held_back,
    # Faults of the last hour come after present faults.
    firings_were_missed,
    attempts_were_lost,
)
