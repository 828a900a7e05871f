"""Which trigger of a job keeps its other firings from running: the one to look at first.

By ``overlap_policy: skip`` a firing is skipped while another of its job is unfinished. A firing that waits for its
retry is unfinished. So one failure with a long series of retries costs every firing until the series ends. The skipped
firings alone do not say why.
"""

from collections.abc import Sequence

from jobs.core.policies import OverlapPolicy
from jobs.core.states import TriggerState
from jobs.models import Job, Trigger

#: At most so many triggers are named, the oldest first.
MAX_NAMED = 5
#: Firings before a skipped one that are looked at.
MAX_LOOKED_AT = 1_000
_COLUMNS = ("id", "job_id", "scheduled_for", "due_at", "state", "attempt_count", "started_at", "finished_at")


def unfinished_starts(job: Job) -> list[Trigger]:
    """The job's triggers that are retrying, queued or running, the oldest first. They may keep others from going."""
    found: list[Trigger] = []
    for phase in ("retrying", "in_flight"):
        of_phase = Trigger.objects.filter(job_id=job.id, phase=phase).order_by("scheduled_for")
        found += of_phase.only(*_COLUMNS)[:MAX_NAMED]
    found.sort(key=lambda trigger: trigger.scheduled_for)
    return found[:MAX_NAMED]


def skipping(job: Job, latest: Sequence[Trigger]) -> tuple[Trigger, int] | None:
    """The unfinished trigger for which firings of the job are being skipped, and how many of ``latest`` were.

    ``latest``: triggers of the job. None while none is skipped for it.
    """
    if job.overlap_policy != OverlapPolicy.SKIP:
        return None
    overlapped = [
        trigger for trigger in latest if (trigger.state, trigger.reason) == (TriggerState.SKIPPED, "overlap")
    ]
    for culprit in unfinished_starts(job) if overlapped else ():
        count = sum(trigger.scheduled_for > culprit.scheduled_for for trigger in overlapped)
        if count:
            return culprit, count
    return None


def overlapped_by(trigger: Trigger) -> list[Trigger]:
    """The triggers for which ``trigger`` was skipped: those of its job that were then under way, the oldest first."""
    if (trigger.state, trigger.reason) != (TriggerState.SKIPPED, "overlap") or trigger.finished_at is None:
        return []
    at = trigger.finished_at
    before = Trigger.objects.filter(job_id=trigger.job_id, scheduled_for__lt=at).order_by("-scheduled_for")
    under_way = [
        other
        for other in before.only(*_COLUMNS)[:MAX_LOOKED_AT]
        if other.id != trigger.id
        and (other.started_at is not None or other.state == TriggerState.QUEUED)
        and (other.started_at is None or other.started_at <= at)
        and (other.finished_at is None or other.finished_at >= at)
    ]
    return under_way[::-1][:MAX_NAMED]
