"""Promises about firings: none lost, one trigger each, none early, none unasked for, none that was stopped."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime

from chaos.history import JobMade, Ledger
from chaos.judge.arrivals import Arrival, Firing
from chaos.judge.case import Case
from chaos.judge.limits import (
    CLAIMED_SECONDS,
    EARLY_SECONDS,
    FINISH_SECONDS,
    POISON_CRASHES,
    TOLERANCE_SECONDS,
)
from chaos.judge.verdict import Breach

#: Overlap policies under which a firing may come to nothing, and the ledger's words for it.
_DROPPING = {
    "skip": {("skipped", "overlap")},
    "collapse": {("skipped", "collapsed"), ("skipped", "overlap")},
    "replace": {("cancelled", "preempted"), ("cancelled", "superseded"), ("skipped", "overlap")},
}
_MISSED = {("skipped", "misfire"), ("skipped", "coalesced")}
#: Until this long after its instant a fault may have cost a firing its attempts.
_LIFE_SECONDS = 120.0
_ENDS = {"succeeded", "dead", "skipped", "cancelled"}


def lost(case: Case, excused: Counter[str]) -> Iterator[Breach]:
    """Required firings that were never executed to their end, and that no policy and no fault accounts for."""
    for job in case.jobs.values():
        if job.target in ("poison", "sink"):
            continue
        for at in case.due(job):
            deliveries = case.firings.get((job.job_id, at), [])
            if any(delivery.settles(job) for delivery in deliveries):
                continue
            excuse = _excuse(case, job, at, deliveries)
            if excuse:
                excused[excuse] += 1
                continue
            seen = (
                f"{len(deliveries)} deliveries, none of which settled it" if deliveries else "never delivered"
            )
            yield Breach(
                kind="lost", at=at.timestamp(), job=job.name, detail=f"{seen}; {_state(case, job, at)}"
            )


def _excuse(case: Case, job: JobMade, at: datetime, deliveries: list[Arrival]) -> str:
    """Why it may have come to nothing; empty when it may not."""
    instant, entry = case.reached(at), case.final.get((job.job_id, at))
    state = (entry.state, entry.reason) if entry else _ranged(case, job, at)
    until = max([instant + _LIFE_SECONDS, *(d.ended_at for d in deliveries if d.ended_at < case.closed_at)])
    troubled = bool(
        case.faulty(job.tenant, instant, until, after=0.0) or case.faulty(job.tenant, instant, instant)
    )
    if not deliveries and _in_line(case, job, instant):
        return "in line behind earlier ones when the log was read"
    dropping = _DROPPING.get(job.overlap_policy, set())
    if dropping and (state is None or state in dropping):
        others = [life for life in case.lives(job.job_id) if life[0] != instant]
        if any(start < instant <= end + FINISH_SECONDS for start, end in others):
            return "dropped by its overlap policy"
        longest = job.seconds + FINISH_SECONDS
        if job.overlap_policy == "replace" and any(
            instant < start <= instant + longest for start, _ in others
        ):
            return "dropped by its overlap policy"
        if troubled:
            return "dropped by its overlap policy, in a fault"
    if troubled and job.misfire_policy != "fire_all" and (state is None or state in _MISSED):
        return "missed in a fault, by its misfire policy"
    if troubled and job.delivery == "at_most_once" and (state is None or state[0] == "dead"):
        return "lost with its worker, at most once"
    if troubled and state is not None and state[0] == "dead" and deliveries:
        return "buried: a fault cost it its last attempt"
    return ""


def _in_line(case: Case, job: JobMade, instant: float) -> bool:
    """Whether a firing that waits for earlier ones of its job was still waiting: those ran, and no later one did."""
    if job.overlap_policy != "queue":
        return False
    lives = case.lives(job.job_id)
    moving = any(start < instant and end >= case.closed_at - TOLERANCE_SECONDS for start, end in lives)
    return moving and not any(start > instant for start, _ in lives)


def _ranged(case: Case, job: JobMade, at: datetime) -> tuple[str, str] | None:
    covering = [r for r in case.ranges if r.job_id == job.job_id and r.from_at <= at <= r.until_at]
    return ("skipped", covering[0].reason) if covering else None


def _state(case: Case, job: JobMade, at: datetime) -> str:
    entry = case.final.get((job.job_id, at))
    if entry is None:
        return "no trigger in the ledger" if case.ledger else "no ledger was read"
    return f"the ledger says {entry.state} {entry.reason} after {entry.attempts} attempts".replace("  ", " ")


def unrecorded(case: Case) -> Iterator[Breach]:
    """Required firings that the ledger does not have, or that have not ended, and ends that changed."""
    if not case.ledger:
        return
    for job in case.jobs.values():
        for at in case.due(job):
            entry = case.final.get((job.job_id, at))
            recorded = entry is not None or _ranged(case, job, at) is not None
            unfinished = (
                entry is not None and entry.state not in _ENDS and job.target not in ("poison", "sink")
            )
            if not recorded:
                detail = "neither a trigger nor a range of skipped firings"
                yield Breach(kind="unrecorded", at=at.timestamp(), job=job.name, detail=detail)
            elif entry and unfinished and not _may_wait(case, job, at):
                detail = f"still {entry.state}, fence {entry.fence}, {entry.attempts} attempts"
                yield Breach(kind="unfinished", at=at.timestamp(), job=job.name, detail=detail)
    yield from _changed_ends(case)


def _may_wait(case: Case, job: JobMade, at: datetime) -> bool:
    """Whether it had to wait in line so long that it need not be over yet: a firing in a long queue is not lost."""
    begun = bool(case.firings.get((job.job_id, at)))
    return job.overlap_policy == "queue" and (begun or _in_line(case, job, case.reached(at)))


def _changed_ends(case: Case) -> Iterator[Breach]:
    ended: dict[str, Ledger] = {}
    for entry in sorted(case.ledger, key=lambda entry: entry.reading):
        before = (
            ended.setdefault(entry.trigger_id, entry) if entry.state in _ENDS else ended.get(entry.trigger_id)
        )
        if before and (before.state, before.reason) != (entry.state, entry.reason):
            detail = f"ended as {before.state}, and later was {entry.state}"
            name = _name(case, entry.job_id)
            yield Breach(kind="second end", at=entry.scheduled_for.timestamp(), job=name, detail=detail)


def doubled(case: Case) -> Iterator[Breach]:
    """Firings with two triggers, by the receiver's log or by the ledger."""
    triggers: dict[Firing, set[str]] = defaultdict(set)
    for delivery in case.deliveries:
        triggers[delivery.firing].add(delivery.request.trigger_id)
    for entry in case.ledger:
        triggers[entry.job_id, entry.scheduled_for].add(entry.trigger_id)
    for (job_id, at), ids in triggers.items():
        if len(ids) > 1:
            detail = f"{len(ids)} triggers: {', '.join(sorted(ids))}"
            yield Breach(kind="doubled firing", at=at.timestamp(), job=_name(case, job_id), detail=detail)


def early(case: Case) -> Iterator[Breach]:
    """Requests before their instant, and retries before their back-off was over."""
    for ((job_id, _), _), deliveries in case.rounds.items():
        job = case.job_of(deliveries[0])
        for delivery in deliveries:
            lead = case.reached(delivery.request.scheduled_for) - delivery.at
            if lead > EARLY_SECONDS:
                detail = f"started {lead:.3f} s before its time"
                yield Breach(kind="early", at=delivery.at, job=job.name if job else job_id, detail=detail)
        answered = {d.request.attempt: d for d in deliveries if d.sent and d.status >= 500}
        for delivery in deliveries:
            before = answered.get(delivery.request.attempt - 1)
            if job is None or before is None or case.stepped(before.ended_at, delivery.at):
                continue
            waited = delivery.at - before.ended_at
            if waited < job.retry_seconds - EARLY_SECONDS:
                detail = f"attempt {delivery.request.attempt} came {waited:.3f} s after the failure before it"
                yield Breach(kind="early", at=delivery.at, job=job.name, detail=detail)


def phantom(case: Case) -> Iterator[Breach]:
    """Requests that were not asked for: no such job, no such instant, or stopped by an acknowledged call."""
    by_hand: Counter[str] = Counter()
    for (job_id, at), deliveries in case.firings.items():
        job, first = case.jobs.get(job_id), deliveries[0]
        if first.task_run:
            continue  # judge.workflows knows which runs were asked for
        if job is None:
            yield Breach(kind="phantom", at=first.at, job=job_id, detail="no such job was acknowledged")
        elif first.by_schedule:
            yield from _unscheduled(case, job, at, deliveries)
        else:
            by_hand[job_id] += 1
    for job_id, count in by_hand.items():
        wished = sum(call.verb == "run" for call in case.calls[job_id])
        if count > wished:
            detail = f"{count} runs by hand, {wished} asked for"
            yield Breach(kind="phantom", at=case.closed_at, job=_name(case, job_id), detail=detail)


def _unscheduled(case: Case, job: JobMade, at: datetime, deliveries: list[Arrival]) -> Iterator[Breach]:
    stops, first = case.stops(job), deliveries[0]
    forbidden = [after for after, before in stops.forbidden if after < at.timestamp() < before]
    if forbidden:
        # Where the database's clock was ahead, the request may have come before the call did.
        if first.at > min(forbidden):
            detail = f"due at {at:%H:%M:%S.%f}, after a pause or cancel was acknowledged"
            yield Breach(kind="stopped", at=first.at, job=job.name, detail=detail)
    elif at not in case.walk(job).allowed:
        detail = f"its schedule does not name {at.isoformat()}"
        yield Breach(kind="phantom", at=first.at, job=job.name, detail=detail)
    for after, before in stops.forbidden:
        for delivery in deliveries:
            # A trigger that a frozen or cut-off worker had claimed before starts when the worker is back.
            claimed = case.faulty(job.tenant, after, delivery.at, after=CLAIMED_SECONDS)
            if at.timestamp() <= after and after + CLAIMED_SECONDS < delivery.at < before and not claimed:
                detail = f"started {delivery.at - after:.1f} s after a pause or cancel was acknowledged"
                yield Breach(kind="stopped", at=delivery.at, job=job.name, detail=detail)


def poison(case: Case) -> Iterator[Breach]:
    """A job that kills its worker is started three times, and then buried as poison."""
    for job in case.jobs.values():
        if job.target != "poison":
            continue
        for at in case.due(job):
            starts = len(case.firings.get((job.job_id, at), []))
            entry = case.final.get((job.job_id, at))
            if starts > POISON_CRASHES:
                yield Breach(
                    kind="poison", at=at.timestamp(), job=job.name, detail=f"it was started {starts} times"
                )
            if case.ledger and (entry is None or (entry.state, entry.reason) != ("dead", "poison")):
                yield Breach(kind="poison", at=at.timestamp(), job=job.name, detail=_state(case, job, at))


def effects(case: Case) -> Iterator[Breach]:
    """Each firing of an exactly-once job has its effect once, however often it was executed."""
    for job in case.jobs.values():
        if job.target != "once":
            continue
        for at in case.due(job):
            count, entry = case.effects.get((job.job_id, at), 0), case.final.get((job.job_id, at))
            buried = entry is not None and entry.state != "succeeded"
            if count > 1 or (count == 0 and not buried):
                detail = f"{count} effects; {_state(case, job, at)}"
                yield Breach(kind="effect", at=at.timestamp(), job=job.name, detail=detail)


def _name(case: Case, job_id: str) -> str:
    job = case.jobs.get(job_id)
    return job.name if job else job_id
