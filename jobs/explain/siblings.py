"""The gates that other triggers shut: misfire, overlap and the concurrency key (DESIGN §8, §9).

They follow ``verdicts`` of dispatch.sql and ``release`` of parking.sql. Some do not open again: where the policy says
that a trigger is not to run, its gate says so.
"""

from typing import Any

from jobs.core.policies import MisfirePolicy, OverlapPolicy
from jobs.core.states import TriggerState
from jobs.explain.gate import Gate, counted, moment, span
from jobs.models import Origin
from jobs.store.insight.explain import MOST_UNFINISHED


def misfire(fact: Any) -> Gate:
    if not fact.may_skip:
        return Gate("misfire", True, "It runs however late it is.")
    if not fact.missed:
        until = moment(fact.due_at + fact.misfire_grace)
        return Gate("misfire", True, f"Within its grace of {span(fact.misfire_grace)} until {until}.")
    fate = _fate_of_the_missed(fact)
    missed = f"Missed: it was not dispatched within {span(fact.misfire_grace)}"
    if fate is None:
        return Gate("misfire", True, f"{missed}, and runs late by misfire_policy {fact.misfire_policy}.")
    return Gate(
        "misfire", False, f"{missed}. By misfire_policy {fact.misfire_policy} it will be skipped: {fate}."
    )


def _fate_of_the_missed(fact: Any) -> str | None:
    """Why a missed trigger will not run; None when it will."""
    policy = fact.misfire_policy
    if policy == MisfirePolicy.SKIP:
        return "the next firing runs"
    if policy == MisfirePolicy.FIRE_ALL:
        return None
    if fact.too_old:
        return f"it is older than the catch-up window of {span(fact.catchup_window)}"
    if policy == MisfirePolicy.FIRE_ONCE and fact.later_missed:
        return "a later missed firing runs in its place"
    if policy == MisfirePolicy.BACKFILL and fact.later_missed >= fact.max_catchup:
        return f"only the newest {fact.max_catchup:,} missed firings run"
    return None


def overlap(fact: Any) -> Gate:
    limit = 1 if fact.serial else fact.max_concurrent
    counts_retrying = fact.serial and not fact.must_run
    used = fact.others_under_way if counts_retrying else fact.others_in_flight
    what = "unfinished" if counts_retrying else "in flight"
    rule = "one at a time" if fact.serial else f"at most {limit:,} at once (max_concurrent)"
    figures = (
        f"{counted(used, 'other trigger')} of its job {what}; overlap_policy {fact.overlap_policy}, {rule}"
    )
    obstacle = _obstacle(fact, limit, used)
    blockers = tuple(fact.other_ids or ()) if obstacle is not None else ()
    detail = f"{figures}{obstacle or ''}."
    return Gate("overlap", obstacle is None, detail, limit=limit, used=used, blockers=blockers)


def _obstacle(fact: Any, limit: int, used: int) -> str | None:
    """How others of its job stand in the way, to follow the figures; None when they do not."""
    policy = fact.overlap_policy
    if policy == OverlapPolicy.REPLACE and fact.state == TriggerState.RETRYING and _is_replaced(fact):
        return "; a newer one that is due replaces it"
    # Of those that are due together only so many go as may be in flight.
    crowded = fact.others_in_flight + _go_before(fact) >= limit
    if fact.must_run or not fact.serial or policy == OverlapPolicy.ALLOW:
        if used >= limit or crowded:
            return _first_in_line(fact)
    elif policy == OverlapPolicy.SKIP:
        if used or crowded:
            return f"; it is skipped if {'they are' if used > 1 else 'that is'} still so when dispatch comes to it"
    elif policy == OverlapPolicy.QUEUE:
        if used or crowded or fact.older_waits:
            return _first_in_line(fact, older=fact.older_waits)
    elif policy == OverlapPolicy.COLLAPSE:
        if used or crowded:
            return "; a newer one that is due runs in its place" if fact.newer_due else ""
    elif fact.newer_due:
        return "; a newer one that is due runs in its place"
    elif used or crowded:
        return "; it starts once the others have stopped, as they are asked to"
    return _not_released(fact)


def _go_before(fact: Any) -> int:
    """How many of its job's own, due before it, dispatch takes before it."""
    newest = {MisfirePolicy.FIRE_ONCE: 1, MisfirePolicy.BACKFILL: fact.max_catchup}.get(
        fact.misfire_policy, 0
    )
    is_missed = fact.missed and fact.state == TriggerState.PENDING and fact.origin == Origin.SCHEDULE
    late = max(0, min(fact.missed_before, newest - fact.later_missed - is_missed))
    must, may = fact.must_before, fact.on_time_before
    if fact.misfire_policy == MisfirePolicy.BACKFILL:
        must += late
    else:
        may += late
    # What is unfinished keeps those back that need not run; a trigger that is to be retried is unfinished.
    kept_back = fact.overlap_policy != OverlapPolicy.ALLOW and (
        fact.others_under_way or fact.state == TriggerState.RETRYING
    )
    return int(must + (0 if kept_back else may))


def _is_replaced(fact: Any) -> bool:
    """Whether one of its job is due that stops what is unfinished."""
    return bool(fact.newer_due or fact.on_time_before or fact.missed_before)


def _first_in_line(fact: Any, *, older: bool = False) -> str:
    if before := _go_before(fact):
        return f"; {counted(before, 'earlier one', most=MOST_UNFINISHED)} of the job due before it"
    return "; an earlier one of the job waits before it" if older else ""


def _not_released(fact: Any) -> str | None:
    """A parked trigger comes back into dispatch's sight when release finds room for it behind the older ones."""
    if not fact.parked or fact.parked_until is not None:
        return None
    allows = fact.overlap_policy == OverlapPolicy.ALLOW
    busy = fact.others_in_sight + (fact.others_in_flight if allows else fact.others_visible)
    if (fact.max_concurrent if allows else 1) - busy > fact.parked_before:
        return None
    return f"; {counted(fact.parked_before, 'earlier one', most=MOST_UNFINISHED)} of the job wait with it"


def concurrency_key(fact: Any) -> Gate:
    if not fact.key:
        return Gate("concurrency_key", True, "Its job has no concurrency key.")
    used, limit, before = fact.key_in_flight, fact.max_concurrent, _go_before(fact)
    figures = (
        f"Concurrency key {fact.key}: {used:,} in flight, its job starts below {limit:,} (max_concurrent)"
    )
    if used + before < limit:
        return Gate("concurrency_key", True, f"{figures}.", limit=limit, used=used)
    detail = f"{figures}{_first_in_line(fact) if used < limit else ''}."
    return Gate("concurrency_key", False, detail, limit=limit, used=used, blockers=tuple(fact.key_ids or ()))
