"""The gates after dispatch: the broker, the workers, the handler itself and its back-off; and how a trigger ended."""

from typing import Any

from jobs.conf import engine_settings
from jobs.core.policies import LEAST_URGENT, claim_deadline
from jobs.core.pull import shown_name
from jobs.core.states import AttemptState, TriggerState
from jobs.explain.gate import Gate, counted, moment, span
from jobs.store.execution import retry_policy_of

_ENDS = {
    ("skipped", "misfire"): "it could not be dispatched within its grace, and its misfire policy skips it",
    ("skipped", "coalesced"): "a later missed firing ran in its place",
    ("skipped", "overlap"): "another trigger of its job was unfinished when it was due to start",
    ("skipped", "collapsed"): "a newer one waited in its place",
    ("skipped", "paused"): "it fell due while its job was paused",
    ("skipped", "frozen"): "it fell due while its tenant was frozen",
    ("dead", "exhausted"): "its retry budget is spent",
    ("dead", "permanent"): "its handler or its target said that a retry cannot help",
    ("dead", "poison"): "too many workers died while they ran it",
    ("dead", "lost"): "its worker was lost, and at_most_once forbids a second start",
    ("cancelled", "job_cancelled"): "its job was cancelled or deleted",
    ("cancelled", "superseded"): "a newer one of its job took its place",
    ("cancelled", "requested"): "it was cancelled on request",
    ("cancelled", "preempted"): "a newer one of its job replaced it while it ran",
}


def broker(fact: Any) -> Gate:
    if fact.state != TriggerState.QUEUED:
        return Gate("broker", True, "It is not in the broker.")
    waited, before = span(fact.now - fact.queued_at), counted(fact.queued_before, "trigger")
    queue = f"jobs.{shown_name(fact.job_type)}"
    first = engine_settings().dispatch_deadline
    deadline = claim_deadline(first, fence=fact.fence, attempt_count=fact.attempt_count)
    detail = (
        f"In the queue {queue} since {moment(fact.queued_at)}, for {waited}, {before} of yours queued before it. "
        f"Not claimed by {moment(fact.queued_at + deadline)}, it is dispatched again."
    )
    return Gate("broker", False, detail, used=fact.queued_before)


def worker(fact: Any) -> Gate:
    queue = f"jobs.{shown_name(fact.job_type)}"
    if fact.workers_present:
        workers, room = counted(fact.workers_present, "worker"), counted(fact.workers_processes, "message")
        kept = _kept(fact)
        return Gate("worker", True, f"{queue} is served by {workers} with room for {room} at once.{kept}")
    if fact.workers_seen_at is None:
        return Gate("worker", False, f"No worker takes from {queue}, and none has recently.")
    since = f"the last was heard of at {moment(fact.workers_seen_at)}, {span(fact.now - fact.workers_seen_at)} ago"
    return Gate("worker", False, f"No worker takes from {queue}: {since}.")


def _kept(fact: Any) -> str:
    """A sentence on the slots that workers keep from a trigger that is not urgent."""
    kept = engine_settings().reserved_slots
    if not kept or fact.priority <= LEAST_URGENT:
        return ""
    return f" Each worker keeps {kept:,} of its slots for critical and high, but never its last slot."


def running(fact: Any) -> Gate:
    if fact.state != TriggerState.RUNNING:
        return Gate("running", True, "It is not running.")
    started_at = fact.attempt_started_at or fact.started_at
    asked = " It was asked to stop." if fact.cancel_requested else ""
    detail = (
        f"Running on {fact.worker} since {moment(started_at)}, for {span(fact.now - started_at)}: {_which(fact)}. "
        f"Its lease ends at {moment(fact.lease_expires_at)} unless renewed.{asked}"
    )
    # It is stopped at its time-out, if it has not ended before.
    return Gate("running", False, detail, opens_at=started_at + fact.timeout)


def back_off(fact: Any) -> Gate:
    if fact.state != TriggerState.RETRYING:
        return Gate("back_off", True, "It is not backing off.")
    how = f" ({fact.error_code})" if fact.error_code else ""
    end = "timed out" if fact.attempt_state == AttemptState.TIMED_OUT else "failed"
    failed = (
        f"{_which(fact).capitalize()} {'was lost' if fact.attempt_state == AttemptState.LOST else end}{how}"
    )
    if fact.due_at <= fact.now:
        return Gate("back_off", True, f"{failed}; the next has been due since {moment(fact.due_at)}.")
    ahead = span(fact.due_at - fact.now)
    detail = f"{failed}; the next may start at {moment(fact.due_at)}, in {ahead}."
    return Gate("back_off", False, detail, opens_at=fact.due_at)


def ending(fact: Any) -> str:
    """How an ended trigger ended, and why."""
    at = f" at {moment(fact.finished_at)}" if fact.finished_at else ""
    if fact.state == TriggerState.SUCCEEDED:
        return f"Succeeded{at} with {_which(fact)}."
    why = _ENDS.get((fact.state, fact.reason), fact.reason)
    attempts = f" {_which(fact).capitalize()} was its last" if fact.attempt_count else ""
    how = f" ({fact.error_code})" if attempts and fact.error_code else ""
    verb = "Given up" if fact.state == TriggerState.DEAD else fact.state.capitalize()
    told = f"{verb}{at}: {why} ({fact.reason}).{attempts}{how}{'.' if attempts else ''}"
    if fact.dismissed_at is None:
        return told
    return f"{told} {fact.dismissed_by} dismissed it at {moment(fact.dismissed_at)}: {fact.dismissed_note}"


def _which(fact: Any) -> str:
    """``attempt 2 of 5``, by the present retry policy and within the present budget."""
    number = fact.attempt_count - fact.budget_start
    most = 1 if fact.delivery == "at_most_once" else retry_policy_of(fact).max_attempts
    return f"attempt {number} of {max(number, most)}"
