"""Decisions about the triggers whose turn has come. SQL gathers facts, ``core.policies`` decides."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from jobs.core.levers.breaker import Pair
from jobs.core.policies import (
    LEAST_URGENT,
    Decision,
    Delivery,
    JobFacts,
    MisfirePolicy,
    decide,
    is_missed,
    may_skip,
)
from jobs.core.states import CANCEL_REASONS, SKIP_REASONS
from jobs.store import db
from jobs.store.dispatch import parking
from jobs.store.insight import activity

_SQL = db.queries("dispatch")
#: The most missed firings that dispatch ends at once, where more of the same jobs end as sets soon.
END_HERE = 100


class TargetGates(Protocol):
    """The gates between triggers and their targets (``targets.Gates``)."""

    def hold_back(self, wanted: Sequence[tuple[UUID, Pair]], own_payload: Set[UUID]) -> set[UUID]: ...


class Queued(NamedTuple):
    """A trigger that is committed as ``queued`` and now needs its message.

    ``suspect``: a process that had claimed it died. ``at_most_once``: its job's delivery.
    """

    id: UUID
    fence: int
    job_type: str
    suspect: bool = False
    at_most_once: bool = False
    tenant_id: int = 0
    priority: int = LEAST_URGENT + 1

    @property
    def urgent(self) -> bool:
        """Whether it is critical or high."""
        return self.priority <= LEAST_URGENT


@dataclass(slots=True)
class Outcome:
    """``found``: how many candidates there were. ``queued``: in order; ``lanes``: the ``nth`` of each queued one;
    ``ended``: by id, with the reason. ``missed``: jobs with more firings to end (``missed_of``).
    """

    found: int = 0
    queued: list[Queued] = field(default_factory=list)
    lanes: list[int] = field(default_factory=list)
    ended: dict[UUID, str] = field(default_factory=dict)
    missed: dict[UUID, datetime] = field(default_factory=dict)


class _Decided(NamedTuple):
    """A candidate and its job, as rows."""

    row: Any
    job: Any


_ByDecision = dict[Decision, list[_Decided]]


def carry_out(candidates: Sequence[Any], *, gates: TargetGates, left: set[UUID]) -> Outcome:
    """Decide about candidates in their order, and write the decisions. Call under the locks of tenants and queues.

    ``left``: jobs that have missed firings left to end as a set, by earlier looks of the turn. This one adds to it.
    """
    if not candidates:
        return Outcome()
    decided = decide_all(candidates)
    parking.hold([one.row for one in decided[Decision.HOLD]])
    if moved := decided[Decision.MOVE]:
        _SQL["move"](ids=[one.row.id for one in moved])
    outcome = Outcome(found=len(candidates), ended=_end(decided, left))
    outcome.missed = missed_of(decided)
    outcome.ended |= parking.make_way(decided[Decision.WAIT], decided[Decision.REPLACE])
    _queue(_admitted(_behind_no_set(decided[Decision.DISPATCH], left), gates), outcome)
    return outcome


def decide_all(candidates: Sequence[Any]) -> _ByDecision:
    """The candidates by decision (``one_by_one``). Only reads."""
    decided: _ByDecision = {decision: [] for decision in Decision}
    for decision, row, job, _ in one_by_one(candidates):
        decided[decision].append(_Decided(row, job))
    return decided


def one_by_one(
    candidates: Sequence[Any], *, counted: bool = False
) -> Iterator[tuple[Decision, Any, Any, JobFacts]]:
    """Decide about one after another: one that is dispatched counts for the next of its job and of its key.

    Gives the decision, the candidate, its job's row, and the facts behind the decision, which stay valid until the next
    candidate is asked for. Only reads, so explain asks it too; it wants each job's triggers in flight ``counted``, also
    where their tenant's cap holds them and dispatch need not know.
    """
    places, jobs = _jobs_of(candidates, counted=counted)
    facts_by_job = [_facts_of(job) for job in jobs]
    started_of_key: Counter[tuple[int, str]] = Counter()
    for row, place in zip(candidates, places, strict=True):
        job, facts = jobs[place], facts_by_job[place]
        if facts.keyed:
            key = (job.tenant_id, job.concurrency_key)
            facts.key_in_flight = job.key_in_flight + started_of_key[key]
        decision = decide(row, facts)
        yield decision, row, job, facts
        if decision == Decision.DISPATCH:
            facts.started += 1
            facts.in_flight += 1
            facts.unfinished += row.state != "retrying"
            if facts.keyed:
                started_of_key[key] += 1


def _jobs_of(candidates: Iterable[Any], *, counted: bool) -> tuple[list[int], list[Any]]:
    """For each candidate the place of its job, and the jobs: rows of ``facts``.

    That statement gets, for each job, the due_at and jitter of its first candidate that may be skipped, and whether its
    triggers in flight must be counted: one of a backfill starts beside none.
    """
    known: dict[UUID, int] = {}
    firsts: list[Any] = []
    places, backfilled = [], set[int]()
    for row in candidates:
        place = known.setdefault(row.job_id, len(firsts))
        if place == len(firsts):
            firsts.append(None)
        if firsts[place] is None and may_skip(row):
            firsts[place] = row
        if row.origin == "backfill":
            backfilled.add(place)
        places.append(place)
    rows = _SQL["facts"](
        job_ids=list(known),
        due_ats=[row and row.due_at for row in firsts],
        jitters=[row and row.due_at - row.scheduled_for for row in firsts],
        counts=[counted or place in backfilled for place in range(len(firsts))],
    )
    return places, sorted(rows, key=attrgetter("nth"))


def _facts_of(job: Any) -> JobFacts:
    return JobFacts(
        job_type=job.job_type,
        active=job.active,
        ended=job.ended,
        overlap_policy=job.overlap_policy,
        misfire_policy=job.misfire_policy,
        misfire_grace=job.misfire_grace,
        catchup_window=job.catchup_window,
        max_concurrent=job.max_concurrent,
        now=job.now,
        unfinished=job.unfinished,
        in_flight=job.in_flight,
        keyed=job.concurrency_key != "",
        key_in_flight=job.key_in_flight,
        keep_from=job.keep_from,
        newest_due=job.newest_due,
        oldest_due=job.oldest_due,
    )


def _end(decided: _ByDecision, left: set[UUID]) -> dict[UUID, str]:
    """End triggers that must not run. Returns them with their reasons; ``left`` gets the jobs that have some left, to
    end as a set.
    """
    ended: dict[UUID, str] = {}
    for statement, reasons in (("skip", SKIP_REASONS), ("cancel", CANCEL_REASONS)):
        chosen = {
            one.row.id: str(decision)
            for decision, those in decided.items()
            if decision in reasons
            for one in _not_left(those, left)
        }
        if chosen:
            rows = _SQL[statement](ids=list(chosen), reasons=list(chosen.values()))
            activity.count_ended(rows)
            ended |= chosen
    return ended


def _not_left(those: Sequence[_Decided], left: set[UUID]) -> Iterable[_Decided]:
    """All but those that may be left to end with the set of their job."""
    met = 0
    for one in those:
        keep_from = _keep_from(one.job)
        if keep_from is not None and one.row.scheduled_for < keep_from:
            met += 1
            if met > END_HERE:
                left.add(one.row.job_id)
                continue
        yield one


def _behind_no_set(chosen: list[_Decided], left: set[UUID]) -> list[_Decided]:
    """All but the missed firings whose job has older ones left. Once queued they would not be missed any more. Then the
    newest of the older ones would run in their place, before their set has ended.
    """
    if not left:
        return chosen
    return [one for one in chosen if one.row.job_id not in left or not is_missed(one.row, one.job)]


def missed_of(decided: _ByDecision) -> dict[UUID, datetime]:
    """Jobs with a firing that ends as missed: their other firings scheduled before this instant end as a set."""
    ends = (*decided[Decision.MISFIRE], *decided[Decision.COALESCED])
    return {job.job_id: keep_from for _, job in ends if (keep_from := _keep_from(job)) is not None}


def _keep_from(job: Any) -> datetime | None:
    keep_from: datetime | None = job.now if job.misfire_policy == MisfirePolicy.SKIP else job.keep_from
    return keep_from


def _admitted(chosen: list[_Decided], gates: TargetGates) -> list[_Decided]:
    """The chosen triggers whose targets may be called now; the others are parked."""
    calling = [(row.id, (row.tenant_id, job.target)) for row, job in chosen if job.target]
    own_payload = {row.id for row, job in chosen if job.target and row.own_payload}
    held = gates.hold_back(calling, own_payload) if calling else set()
    return [one for one in chosen if one.row.id not in held] if held else chosen


def _queue(chosen: list[_Decided], outcome: Outcome) -> None:
    """Queue the chosen triggers, each under the next fence. Their rows are locked, but making way for one may have
    cancelled another: that one is left out."""
    if not chosen:
        return
    done = _SQL["dispatch"](ids=[one.row.id for one in chosen])
    if len(done) < len(chosen):
        queued = {row.id for row in done}
        chosen = [one for one in chosen if one.row.id in queued]
    rows = [one.row for one in chosen]
    activity.count(rows, "dispatched")
    activity.count_first(rows)
    for row, job in chosen:
        once = job.delivery == Delivery.AT_MOST_ONCE
        outcome.queued.append(
            Queued(row.id, row.fence + 1, row.job_type, row.suspect, once, row.tenant_id, row.priority)
        )
        outcome.lanes.append(row.nth)
