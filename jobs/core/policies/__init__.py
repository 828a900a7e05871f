"""The policies a job may choose, and every decision made by them; pure, and the one place that decides.

``firings``: decisions on a due trigger. ``failures``: decisions on a failed attempt, a dead worker, an unclaimed
message. ``words``: the values that a job chooses from.
"""

from jobs.core.policies.failures import (
    MAX_DOUBLINGS,
    POISON_CRASHES,
    Bury,
    Cancel,
    Retry,
    after_crash,
    after_failure,
    claim_deadline,
    is_charged,
)
from jobs.core.policies.firings import (
    Decision,
    Firing,
    JobFacts,
    JobLoad,
    decide,
    decide_unkeyed,
    end_of_missed,
    ignores_overlap,
    is_missed,
    key_is_full,
    may_skip,
    most_to_run,
    must_run,
    one_at_a_time,
    room_to_show,
    runs_late,
)
from jobs.core.policies.words import (
    LEAST_URGENT,
    CronDialect,
    Delivery,
    DstPolicy,
    MisfirePolicy,
    OverlapPolicy,
    Priority,
)

__all__ = (
    "LEAST_URGENT",
    "MAX_DOUBLINGS",
    "POISON_CRASHES",
    "Bury",
    "Cancel",
    "CronDialect",
    "Decision",
    "Delivery",
    "DstPolicy",
    "Firing",
    "JobFacts",
    "JobLoad",
    "MisfirePolicy",
    "OverlapPolicy",
    "Priority",
    "Retry",
    "after_crash",
    "after_failure",
    "claim_deadline",
    "decide",
    "decide_unkeyed",
    "end_of_missed",
    "ignores_overlap",
    "is_charged",
    "is_missed",
    "key_is_full",
    "may_skip",
    "most_to_run",
    "must_run",
    "one_at_a_time",
    "room_to_show",
    "runs_late",
)
