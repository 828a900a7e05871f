"""The state machine of triggers (DESIGN §4): the one table that all other places must match.

``TRANSITIONS`` lists each verb with the states it leaves and the states it may reach. The headers of
``store/sql/*.sql``, ``docs/state-machine.md`` and the store's functions are checked against it by tests, so a change
starts here.
"""

from dataclasses import dataclass
from enum import StrEnum


class JobStatus(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    CANCELLED = "cancelled"
    COMPLETED = "completed"


#: A job in these states has ended for good: it does not fire any more, and nothing brings it back.
ENDED_JOB = (JobStatus.CANCELLED, JobStatus.COMPLETED)


class TriggerState(StrEnum):
    PENDING = "pending"
    QUEUED = "queued"
    RUNNING = "running"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


class AttemptState(StrEnum):
    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    LOST = "lost"
    STALE = "stale"
    CANCELLED = "cancelled"


class Verb(StrEnum):
    MATERIALIZE = "materialize"
    DISPATCH = "dispatch"
    SKIP = "skip"
    CLAIM = "claim"
    RENEW = "renew"
    SUCCEED = "succeed"
    RETRY = "retry"
    BURY = "bury"
    REAP = "reap"
    CANCEL = "cancel"
    REPLAY = "replay"
    ANSWER = "answer"


#: States that still need work. A trigger in any other state has ended.
UNFINISHED = frozenset(
    {TriggerState.PENDING, TriggerState.QUEUED, TriggerState.RUNNING, TriggerState.RETRYING}
)
ENDED = frozenset(TriggerState) - UNFINISHED
#: States that occupy one of a tenant's ``max_in_flight`` slots.
IN_FLIGHT = frozenset({TriggerState.QUEUED, TriggerState.RUNNING})
#: States from which dispatch may take a trigger.
DISPATCHABLE = frozenset({TriggerState.PENDING, TriggerState.RETRYING})

#: Phases: the store's indexes know only the phase of a state. A claim moves no trigger from one phase to another, so
#: it touches no index. ``dead`` has a phase of its own, so that dead letters are indexed.
PHASES = {
    TriggerState.PENDING: "pending",
    TriggerState.RETRYING: "retrying",
    TriggerState.QUEUED: "in_flight",
    TriggerState.RUNNING: "in_flight",
    TriggerState.DEAD: "dead",
    TriggerState.SUCCEEDED: "ended",
    TriggerState.SKIPPED: "ended",
    TriggerState.CANCELLED: "ended",
}

SKIP_REASONS = ("misfire", "coalesced", "overlap", "collapsed", "paused", "frozen")
DEAD_REASONS = ("exhausted", "permanent", "poison", "lost")
CANCEL_REASONS = ("job_cancelled", "superseded", "requested", "preempted")

#: Reasons an ended trigger may carry, by state; ``succeeded`` carries none.
REASONS: dict[TriggerState, tuple[str, ...]] = {
    TriggerState.SKIPPED: SKIP_REASONS,
    TriggerState.DEAD: DEAD_REASONS,
    TriggerState.CANCELLED: CANCEL_REASONS,
}


@dataclass(frozen=True, slots=True)
class Transition:
    """One row of DESIGN §4: ``verb`` takes a trigger from any state of ``sources`` to one of ``targets``."""

    verb: Verb
    sources: frozenset[TriggerState]
    targets: frozenset[TriggerState]


def _row(verb: Verb, sources: set[TriggerState], targets: set[TriggerState]) -> Transition:
    return Transition(verb, frozenset(sources), frozenset(targets))


S = TriggerState
#: ``reap`` of a running trigger is the verb ``retry`` or ``bury`` done by the beat: it appears under ``reap`` with all
#: three targets. ``claim`` hands a trigger of a paused, cancelled or edited job back to ``pending``.
#: ``skip`` of a firing that was missed without a trigger makes a record that is skipped from the start.
#: ``renew`` moves no trigger: it keeps a running trigger where it is.
TRANSITIONS: dict[Verb, tuple[Transition, ...]] = {
    Verb.MATERIALIZE: (_row(Verb.MATERIALIZE, set(), {S.PENDING}),),
    Verb.DISPATCH: (_row(Verb.DISPATCH, {S.PENDING, S.RETRYING}, {S.QUEUED}),),
    Verb.SKIP: (_row(Verb.SKIP, {S.PENDING}, {S.SKIPPED}), _row(Verb.SKIP, set(), {S.SKIPPED})),
    Verb.CLAIM: (_row(Verb.CLAIM, {S.QUEUED}, {S.RUNNING, S.PENDING}),),
    Verb.RENEW: (_row(Verb.RENEW, {S.RUNNING}, {S.RUNNING}),),
    Verb.SUCCEED: (_row(Verb.SUCCEED, {S.RUNNING}, {S.SUCCEEDED}),),
    Verb.RETRY: (_row(Verb.RETRY, {S.RUNNING}, {S.RETRYING}),),
    Verb.BURY: (_row(Verb.BURY, {S.RUNNING}, {S.DEAD}),),
    Verb.REAP: (
        _row(Verb.REAP, {S.QUEUED}, {S.PENDING}),
        _row(Verb.REAP, {S.RUNNING}, {S.RETRYING, S.DEAD, S.CANCELLED}),
    ),
    Verb.CANCEL: (
        _row(Verb.CANCEL, {S.PENDING, S.RETRYING, S.QUEUED}, {S.CANCELLED}),
        _row(Verb.CANCEL, {S.RUNNING}, {S.CANCELLED}),
    ),
    Verb.REPLAY: (_row(Verb.REPLAY, {S.DEAD, S.SUCCEEDED, S.SKIPPED, S.CANCELLED}, {S.PENDING}),),
    Verb.ANSWER: (_row(Verb.ANSWER, {S.PENDING}, {S.SUCCEEDED, S.CANCELLED}),),
}
del S


def targets_of(verb: Verb, source: TriggerState) -> frozenset[TriggerState]:
    """States to which ``verb`` may move a trigger from ``source``; empty when the pair is forbidden."""
    return frozenset().union(*(row.targets for row in TRANSITIONS[verb] if source in row.sources))
