"""The firings a run must, may and must not contain: a walk over acknowledged calls, without any code of the engine.

Intervals are counted by arithmetic. Cron schedules are walked second by second, so a load may only use the forms that
``_matches`` reads: lists and steps in seconds, minutes and hours, in UTC.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from chaos.history import Called, JobMade

SECOND = timedelta(seconds=1)
#: For a job: how many seconds a firing due at the first moment may take until it is over, as far as can be said at the
#: second moment.
Life = Callable[[float, float], float]


@dataclass(frozen=True)
class Walk:
    """``required`` must have been executed, unless the job's policies say otherwise; ``allowed`` may have been."""

    required: frozenset[datetime]
    allowed: frozenset[datetime]


def walk(job: JobMade, calls: list[Called], *, until: float, life: Life = lambda *_: 0.0) -> Walk:
    """The job's firings up to ``until``, seconds since 1970. ``calls`` are those about this job.

    A firing that a pause or a cancel may have found alive, by ``life``, may come to nothing, and is not required.
    """
    stops = stopped(calls)
    required, allowed = set(), set()
    for instant in named(job, until=until):
        at = instant.timestamp()
        if any(after < at < before for after, before in stops.forbidden):
            continue
        allowed.add(instant)
        if not any(at <= last and at + life(at, first) >= first for first, last in stops.uncertain):
            required.add(instant)
    for call in calls:
        if call.verb == "run" and call.scheduled_for is not None:
            allowed.add(call.scheduled_for)
            if call.scheduled_for.timestamp() <= until:
                required.add(call.scheduled_for)
    return Walk(frozenset(required), frozenset(allowed))


@dataclass(frozen=True)
class Stops:
    """When a job was stopped, in seconds since 1970.

    ``forbidden``: from the acknowledgement of a pause or cancel to the request that ended it, nothing that falls due
    may start. ``uncertain``: around it, from the first request to the last answer.
    """

    forbidden: list[tuple[float, float]]
    uncertain: list[tuple[float, float]]


def stopped(calls: list[Called]) -> Stops:
    """Read pause, resume and cancel in the order they were asked for."""
    forbidden: list[tuple[float, float]] = []
    uncertain: list[tuple[float, float]] = []
    first = acknowledged = None
    for call in sorted(calls, key=lambda call: call.requested_at):
        if call.verb in ("pause", "cancel") and first is None:
            first, acknowledged = call.requested_at, call.acknowledged_at
        elif call.verb == "resume" and first is not None:
            if acknowledged is not None:
                forbidden.append((acknowledged, call.requested_at))
            uncertain.append((first, float("inf") if call.acknowledged_at is None else call.acknowledged_at))
            first = acknowledged = None
    if first is not None:
        uncertain.append((first, float("inf")))
        if acknowledged is not None:
            forbidden.append((acknowledged, float("inf")))
    return Stops(forbidden, uncertain)


def named(job: JobMade, *, until: float) -> list[datetime]:
    """Every instant the job's schedule names up to ``until``, whether it was stopped or not."""
    schedule, created_at = job.schedule, job.created_at.astimezone(UTC)
    match schedule["type"]:
        case "interval":
            every = timedelta(seconds=schedule["every_seconds"])
            count = int((until - created_at.timestamp()) / every.total_seconds()) + 1
            instants = [created_at + every * k for k in range(1, count + 1)]
        case "cron":
            instants = _walked(schedule["cron"], after=created_at, until=until)
        case "once":
            instants = [datetime.fromisoformat(schedule["run_at"])]
        case "immediate":
            instants = [created_at]
        case other:
            raise ValueError(f"the judge knows no schedule {other!r}")
    return [instant for instant in instants if instant.timestamp() <= until]


def _walked(expression: str, *, after: datetime, until: float) -> list[datetime]:
    fields = expression.split()
    # Six fields are Quartz', seconds first.
    second, minute, hour, *dates = fields if len(fields) == 6 else ["0", *fields]
    if set(dates) - {"*", "?"}:
        raise ValueError(f"the judge walks no dates: {expression!r}")
    instant, found = after.replace(microsecond=0) + SECOND, []
    while instant.timestamp() <= until:
        if (
            _matches(second, instant.second)
            and _matches(minute, instant.minute)
            and _matches(hour, instant.hour)
        ):
            found.append(instant)
        instant += SECOND
    return found


def _matches(field: str, value: int) -> bool:
    """Whether ``*``, ``*/n`` or a list of numbers holds the value."""
    if field.startswith("*/"):
        return value % int(field[2:]) == 0
    return field == "*" or value in map(int, field.split(","))
