"""The gates that depend on other triggers: misfire, overlap and the concurrency key (DESIGN §8, §9).

Dispatch's own rules decide whether a gate blocks (``dispatch_decision``); this module words the decision, with
the figures of ``trigger_facts``. Some gates do not open again: if the policy says that a trigger will not run, its gate
says so. For a parked trigger ``room_to_show`` decides first, as in release.
"""

from typing import Any

from jobs.core.policies import (
    Decision,
    MisfirePolicy,
    ignores_overlap,
    is_missed,
    key_is_full,
    may_skip,
    must_run,
    one_at_a_time,
    room_to_show,
    runs_late,
)
from jobs.core.workflows.states import SCHEDULE_TYPE
from jobs.explain.gate import Gate, counted, moment, span
from jobs.store.insight import explain as explain_store
from jobs.store.insight.explain import DispatchDecision

#: Decisions that depend on no other trigger and no policy.
_UNASKED = {
    Decision.HOLD: "It is decided once its job is active.",
    Decision.JOB_CANCELLED: "It is not decided, because its job has ended.",
    Decision.MOVE: "It is decided once it has its job's new type.",
}


def misfire(fact: Any, dispatch: DispatchDecision) -> Gate:
    if dispatch.decision in _UNASKED:
        return Gate("misfire", True, _UNASKED[dispatch.decision])
    if not may_skip(dispatch.row):
        return Gate("misfire", True, "It runs however late it is.")
    if not is_missed(dispatch.row, dispatch.facts):
        until = moment(fact.due_at + fact.misfire_grace)
        return Gate("misfire", True, f"Within its grace of {span(fact.misfire_grace)} until {until}.")
    missed = f"Missed: it was not dispatched within {span(fact.misfire_grace)}"
    if dispatch.decision not in (Decision.MISFIRE, Decision.COALESCED):
        return Gate("misfire", True, f"{missed}, and runs late by misfire_policy {fact.misfire_policy}.")
    fate = _fate_of_the_missed(fact, dispatch.decision)
    return Gate(
        "misfire", False, f"{missed}. By misfire_policy {fact.misfire_policy} it will be skipped: {fate}."
    )


def _fate_of_the_missed(fact: Any, decision: Decision) -> str:
    """Why a missed trigger will not run."""
    if decision == Decision.COALESCED:
        return "a later missed firing runs in its place"
    if fact.misfire_policy == MisfirePolicy.SKIP:
        return "the next firing runs"
    window = f"older than the catch-up window of {span(fact.catchup_window)}"
    if fact.misfire_policy == MisfirePolicy.BACKFILL:
        return f"only the newest {fact.max_catchup:,} missed firings run, and none {window}"
    return f"it is {window}"


def overlap(fact: Any, dispatch: DispatchDecision) -> Gate:
    if dispatch.decision in _UNASKED:
        return Gate("overlap", True, _UNASKED[dispatch.decision])
    row, facts = dispatch.row, dispatch.facts
    if ignores_overlap(row):
        return _ignored_overlap(fact)
    late = runs_late(row, facts, missed=is_missed(row, facts))
    serial = one_at_a_time(row, facts, late=late)
    counts_retrying = serial and not must_run(row, late=late)
    limit = 1 if serial else fact.max_concurrent
    used = fact.running_runs + (fact.others_under_way if counts_retrying else fact.others_in_flight)
    what = "unfinished" if counts_retrying else "in flight"
    rule = "one at a time" if serial else f"at most {limit:,} at once (max_concurrent)"
    others = f"{counted(used, 'other trigger')} of its job {what}"
    if fact.job_type == SCHEDULE_TYPE:
        others = f"{counted(used, 'run')} of its workflow under way"
    figures = f"{others}; overlap_policy {fact.overlap_policy}, {rule}"
    obstacle = _obstacle(fact, dispatch, is_full=used >= limit, used=used)
    blockers = tuple(fact.other_ids or ()) if obstacle is not None else ()
    detail = f"{figures}{obstacle or ''}."
    return Gate("overlap", obstacle is None, detail, limit=limit, used=used, blockers=blockers)


def _ignored_overlap(fact: Any) -> Gate:
    """The gate of a trigger that starts beside the others. Only its concurrency key parks it; it returns as all do."""
    under_way = counted(fact.others_in_flight, "other trigger")
    unseen = _not_released(fact)
    waits = f"; it waited for its concurrency key{unseen}" if unseen else ""
    detail = f"It was asked to ignore overlap: it starts beside {under_way} of its job in flight{waits}."
    return Gate("overlap", unseen is None, detail, used=fact.others_in_flight)


def _obstacle(fact: Any, dispatch: DispatchDecision, *, is_full: bool, used: int) -> str | None:
    """How others of its job stand in the way, to follow the figures; None when they do not."""
    match dispatch.unkeyed:
        case Decision.SUPERSEDED | Decision.COLLAPSED:
            return "; a newer one that is due runs in its place"
        case Decision.REPLACE:
            return "; it starts once the others, which are asked to stop, have stopped"
        case Decision.OVERLAP if dispatch.before:
            return f"{_first_in_line(dispatch)}, and it is skipped"
        case Decision.OVERLAP:
            return f"; it is skipped if {'they are' if used > 1 else 'that is'} unfinished at its dispatch"
        case Decision.WAIT if not (is_full or dispatch.before):
            return "; an earlier one of the job waits before it"
        case Decision.WAIT:
            return _first_in_line(dispatch)
    if dispatch.stopped:
        return "; a newer one that is due replaces it"
    return _first_in_line(dispatch) if dispatch.crowded else _not_released(fact)


def _first_in_line(dispatch: DispatchDecision) -> str:
    if not dispatch.before:
        return ""
    earlier = counted(dispatch.before, "earlier one", most=explain_store.MAX_AHEAD)
    verb = "are due" if dispatch.crowded else "goes" if dispatch.before == 1 else "go"
    return f"; {earlier} of the job {verb} before it"


def _not_released(fact: Any) -> str | None:
    """A parked trigger comes back into dispatch's sight when release finds room for it behind the older ones."""
    if not fact.parked or fact.parked_until is not None:
        return None
    if room_to_show(_Others(fact)) > fact.parked_before:
        return None
    return f"; {counted(fact.parked_before, 'earlier one', most=explain_store.MAX_UNFINISHED)} of the job wait with it"


class _Others:
    """The other triggers of a trigger's job, as release counts them."""

    def __init__(self, fact: Any) -> None:
        self.overlap_policy: str = fact.overlap_policy
        self.max_concurrent: int = fact.max_concurrent
        self.in_flight: int = fact.others_unparked_in_flight + fact.running_runs
        self.retrying: int = fact.others_unparked_retrying
        self.in_sight: int = fact.others_in_sight


def concurrency_key(fact: Any, dispatch: DispatchDecision) -> Gate:
    if not fact.key:
        return Gate("concurrency_key", True, "Its job has no concurrency key.")
    if dispatch.decision in _UNASKED:
        return Gate("concurrency_key", True, _UNASKED[dispatch.decision])
    used, limit = fact.key_in_flight, fact.max_concurrent
    figures = (
        f"Concurrency key {fact.key}: {used:,} in flight, its job starts below {limit:,} (max_concurrent)"
    )
    if not key_is_full(dispatch.facts):
        return Gate("concurrency_key", True, f"{figures}.", limit=limit, used=used)
    detail = f"{figures}{_first_in_line(dispatch) if used < limit else ''}."
    return Gate("concurrency_key", False, detail, limit=limit, used=used, blockers=tuple(fact.key_ids or ()))
