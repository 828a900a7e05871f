"""Explain: the figures that decide whether a trigger may start, each read as dispatch reads it."""

from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from jobs.core.policies import LEAST_URGENT, Decision, JobFacts, decide_unkeyed
from jobs.core.states import TriggerState
from jobs.store import db
from jobs.store.dispatch.decisions import one_by_one
from jobs.store.insight.workers import GONE_AFTER

_SQL = db.queries("explain")
#: Counts of triggers that go first end here.
MAX_AHEAD = 1_000
#: At most this many of a job's unfinished triggers are looked at.
MAX_UNFINISHED = 10_000
#: At most this many blocking triggers are named.
MAX_NAMED = 10


def trigger_facts(*, trigger_id: UUID, tenant_id: int) -> Any | None:
    """The one row of ``trigger_facts``; None when the tenant has no such trigger. One statement."""
    rows = _SQL["trigger_facts"](
        id=trigger_id,
        tenant_id=tenant_id,
        most=MAX_UNFINISHED,
        most_ahead=MAX_AHEAD,
        named=MAX_NAMED,
        silence=GONE_AFTER,
        least_urgent=LEAST_URGENT,
    )
    return rows[0] if rows else None


@dataclass(frozen=True, slots=True)
class DispatchDecision:
    """The decision of dispatch now about a trigger that waits, if it were due and in dispatch's sight.

    ``row``, ``facts``: the decision's input. ``decision``: as dispatch gives it; ``unkeyed``: by its own job alone.
    ``before``: how many triggers of its job go before it; ``crowded``: too many are due before it to ask about each.
    ``stopped``: a trigger of its job that is decided before it stops it.
    """

    row: Any
    facts: JobFacts
    decision: Decision
    unkeyed: Decision
    before: int
    crowded: bool
    stopped: bool


def dispatch_decision(*, trigger_id: UUID, tenant_id: int) -> DispatchDecision | None:
    """Ask dispatch's own rules about a trigger, after those of its job that are decided before it. Two statements.

    None when the tenant has no such trigger. Only reads.
    """
    rows = _SQL["line"](id=trigger_id, tenant_id=tenant_id, most=MAX_UNFINISHED, limit=MAX_AHEAD)
    crowded = len(rows) > MAX_AHEAD
    started, stops = MAX_AHEAD if crowded else 0, False
    for decision, row, _, facts in one_by_one(rows[-1:] if crowded else rows, counted=True):
        if row.id == trigger_id:
            return DispatchDecision(
                row=row,
                facts=replace(facts),
                decision=decision,
                unkeyed=decide_unkeyed(row, facts),
                before=started,
                crowded=crowded,
                # ``replace`` of parking.sql: beside triggers in flight it stops those that wait for a retry.
                stopped=stops and row.state == TriggerState.RETRYING,
            )
        started += decision == Decision.DISPATCH
        stops = stops or decision == Decision.REPLACE
    return None


def job_facts(*, job_id: UUID, tenant_id: int) -> Any:
    """The one row of ``job_facts``. One statement."""
    return _SQL["job_facts"](job_id=job_id, tenant_id=tenant_id, limit=MAX_UNFINISHED)[0]


def pace(*, tenant_id: int, job_type: str) -> Any:
    """The one row of ``pace``. One statement."""
    return _SQL["pace"](tenant_id=tenant_id, job_type=job_type)[0]
