"""The layout of the inputs of a job's form, and which of them are shown for the chosen values."""

from typing import Any

from jobs.core.backoff import Backoff
from jobs.models import Job
from jobs.shapes.schedule import COMMON, OWN

_STEADY = f"retry_backoff == '{Backoff.FIXED}' || retry_backoff == '{Backoff.EXPONENTIAL}'"
#: Alpine's expressions, by input.
CONDITIONAL = {
    f"schedule_{name}": f"schedule_type == '{kind}'" for kind, names in OWN.items() for name in names
} | {
    "retry_delays_seconds": f"!({_STEADY})",
    "retry_initial_delay_seconds": _STEADY,
    "retry_max_delay_seconds": _STEADY,
    "retry_factor": f"retry_backoff == '{Backoff.EXPONENTIAL}'",
}
_SCHEDULE = (
    "schedule_type",
    *(tuple(f"schedule_{name}" for name in names) for names in OWN.values() if names),
    tuple(f"schedule_{name}" for name in COMMON),
    "schedule_preview",
)
_POLICIES = (
    ("priority", "timeout_seconds", "delivery"),
    ("overlap_policy", "max_concurrent", "concurrency_key"),
    ("misfire_policy", "misfire_grace_seconds", "catchup_window_seconds", "max_catchup"),
    ("pause_after_failures", "delete_after_seconds"),
)
_RETRIES = (
    ("retry_max_attempts", "retry_backoff", "retry_jitter", "retry_max_elapsed_seconds"),
    "retry_delays_seconds",
    ("retry_initial_delay_seconds", "retry_factor", "retry_max_delay_seconds"),
)


def fieldsets(job: Job | None) -> Any:
    """The fieldsets of the form that creates a job, or edits ``job``."""
    which = (("name", "job_type"), "version", "opened") if job else ("tenant", ("name", "job_type"))
    return (
        (None, {"fields": (*which, "labels", "payload", "payload_fields")}),
        ("When", {"fields": _SCHEDULE}),
        ("Policies", {"fields": _POLICIES}),
        ("Retries", {"fields": _RETRIES}),
        ("Notices", {"fields": ("notice_on", ("notice_url", "notice_email"))}),
        ("Retries and notices as JSON", {"fields": ("retry_policy", "notify"), "classes": ("collapse",)}),
    )
