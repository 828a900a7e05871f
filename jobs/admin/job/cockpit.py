"""The part of a job's page above its form: how its firings went at a glance, what is wrong, and its next firings.

Every read is bounded: the latest ``MAX_FIRINGS`` of a job however many it has, and the first few that are unfinished.
"""

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any

from django.urls import reverse
from django.utils.safestring import SafeString

from jobs.admin.job.backfills import backfills
from jobs.admin.job.times import next_instants, schedule_text
from jobs.admin.shared.cells import (
    duration_cell,
    instant_cell,
    moment_cell,
    state_label,
    text_cell,
    trigger_link,
)
from jobs.admin.shared.marks import range_mark, strip, trigger_mark
from jobs.core.states import AttemptState, JobStatus, TriggerState
from jobs.core.timezones import load_zone
from jobs.explain import explain_job
from jobs.explain.blockers import skipping
from jobs.explain.changes import paused_by
from jobs.explain.gate import counted
from jobs.explain.job import JobExplanation
from jobs.models import Attempt, Job, SkippedRange, Trigger
from jobs.store.lifecycle import paused_since
from tenants.clock import database_now

MAX_FIRINGS = 90
MAX_SHOWN = 10
#: So much of a target's answer is shown.
MAX_ANSWER = 2048
#: Columns of a trigger that say how it went: none that may be large.
_TOLD = (
    "id",
    "job_id",
    "scheduled_for",
    "due_at",
    "state",
    "reason",
    "attempt_count",
    "started_at",
    "finished_at",
)
_FAILED = (TriggerState.DEAD, TriggerState.RETRYING)


def cockpit(job: Job) -> dict[str, Any]:
    """The context of ``templates/admin/jobs/job/overview.html``."""
    now = database_now()
    of_job = Trigger.objects.filter(job_id=job.id, scheduled_for__lte=now).order_by("-scheduled_for")
    latest = list(of_job.only(*_TOLD)[:MAX_FIRINGS])
    ranges = list(SkippedRange.objects.filter(job_id=job.id).order_by("-until_at")[:MAX_FIRINGS])
    instants, problem = next_instants(job, now=now, limit=MAX_SHOWN)
    zone = UTC if problem else load_zone(job.timezone)
    explanation = None if job.deleted_at else explain_job(tenant=job.tenant, job_id=job.id)
    return {
        "status": state_label("deleted" if job.deleted_at else job.status, job.status_reason),
        "name": job.name,
        "version": job.version,
        "tenant": job.tenant.slug,
        "pause": _pause(job, now=now) if job.status == JobStatus.PAUSED and not job.deleted_at else None,
        "why": explanation.summary if explanation else "",
        "blockers": _blockers(job, explanation, latest, now=now),
        "failure": _failure(latest, now=now),
        "schedule": schedule_text(job),
        "zone": job.timezone,
        "firings": [
            {
                "away": moment_cell(at, now=now),
                "utc": instant_cell(at),
                "local": instant_cell(at, zone=zone),
            }
            for at in instants
        ],
        "problem": problem,
        "jitter": duration_cell(job.jitter) if job.jitter else "",
        "strip": _strip(latest, ranges),
        "figures": figures(latest),
        "recent": _recent(latest, ranges, now=now),
        "backfills": backfills(job, now=now),
        "job_id": job.id,
        "all_triggers_url": f"{reverse('admin:jobs_trigger_changelist')}?q={job.id}",
    }


def _pause(job: Job, *, now: datetime) -> dict[str, Any]:
    """Since when, by which actor, why and until when it is paused."""
    since = paused_since(job_ids=[job.id])[job.id]
    return {
        "since": moment_cell(since, now=now),
        "since_exactly": instant_cell(since),
        "by": paused_by(job),
        "reason": job.status_reason,
        "until": moment_cell(job.paused_until, now=now) if job.paused_until else "",
        "until_exactly": instant_cell(job.paused_until, zone=load_zone(job.timezone)),
    }


def figures(latest: Sequence[Trigger]) -> dict[str, Any]:
    """How ``latest`` went, in words: the success rate and durations as ``GET /jobs/{id}/stats`` defines them."""
    states = [trigger.state for trigger in latest]
    succeeded, dead = states.count(TriggerState.SUCCEEDED), states.count(TriggerState.DEAD)
    # The time of a trigger that was tried twice includes back-off.
    durations = sorted(
        trigger.finished_at - trigger.started_at
        for trigger in latest
        if trigger.attempt_count == 1 and trigger.started_at and trigger.finished_at
    )
    return {
        "count": len(latest),
        "success_rate": f"{succeeded / (succeeded + dead):.1%}" if succeeded + dead else "",
        "p50": duration_cell(_within(durations, 0.5)),
        "p95": duration_cell(_within(durations, 0.95)),
        "measured": len(durations),
    }


def _within(ordered: Sequence[timedelta], share: float) -> timedelta | None:
    """The duration that ``share`` of ``ordered``, in ascending order, take at most."""
    return ordered[math.ceil(len(ordered) * share) - 1] if ordered else None


def _failure(latest: Sequence[Trigger], *, now: datetime) -> dict[str, Any] | None:
    """How the last firing that was tried failed, if it did: its last attempt that has ended, and the answer to it."""
    tried = [trigger for trigger in latest if trigger.attempt_count and trigger.state != TriggerState.RUNNING]
    if not tried or tried[0].state not in _FAILED:
        return None
    trigger = tried[0]
    ended = Attempt.objects.filter(trigger_id=trigger.id).exclude(state=AttemptState.STARTED)
    attempt = ended.defer("output", "traceback").order_by("-number", "-started_at").first()
    if attempt is None:
        return None
    in_a_row = next(
        (nth for nth, each in enumerate(tried) if each.state not in _FAILED),
        len(tried),
    )
    excerpt = attempt.response_excerpt
    return {
        "title": "The last firing died" if trigger.state == TriggerState.DEAD else "The last firing failed",
        "retrying": moment_cell(trigger.due_at, now=now) if trigger.state == TriggerState.RETRYING else "",
        "at": trigger_link(trigger.id, instant_cell(trigger.scheduled_for)),
        "in_a_row": in_a_row,
        "attempt": attempt,
        "ended": moment_cell(attempt.finished_at, now=now),
        "message": text_cell(attempt.error_message) if attempt.error_message else "",
        "answer": text_cell(excerpt[:MAX_ANSWER], scrolls=True) if excerpt else "",
        "cut": len(excerpt) > MAX_ANSWER,
    }


def _blockers(
    job: Job, explanation: JobExplanation | None, latest: Sequence[Trigger], *, now: datetime
) -> list[dict[str, Any]]:
    """Triggers that keep the job's firings from running, each with its effect on them."""
    found = []
    skipped_for = skipping(job, latest)
    if skipped_for is not None:
        culprit, count = skipped_for
        due = ""
        if culprit.state == TriggerState.RETRYING:
            due = moment_cell(culprit.due_at, now=now)
        found.append(
            {
                "link": trigger_link(culprit.id, instant_cell(culprit.scheduled_for)),
                "state": state_label(culprit.state),
                "attempts": culprit.attempt_count,
                "due": due,
                "effect": f"{counted(count, 'firing')} after it {'was' if count == 1 else 'were'} skipped",
            }
        )
    oldest = explanation.oldest if explanation else None
    for gate in oldest.blocking if oldest else ():
        for blocker in gate.blockers:
            found.append(
                {
                    "link": trigger_link(blocker, str(blocker)),
                    "effect": f"{gate.name.replace('_', ' ')}: it blocks the firing that waits",
                }
            )
    return found


def _strip(latest: Sequence[Trigger], ranges: Sequence[SkippedRange]) -> SafeString:
    """Triggers and ranges together by time, the latest last."""
    marks = [(trigger.scheduled_for, trigger_mark(trigger)) for trigger in latest]
    marks += [(skipped.until_at, range_mark(skipped)) for skipped in ranges]
    marks.sort(key=itemgetter(0))
    shown = [mark for _, mark in marks[-MAX_FIRINGS:]]
    return strip(shown, label=f"The last {counted(len(shown), 'firing')}, the latest last")


def _recent(
    latest: Sequence[Trigger], ranges: Sequence[SkippedRange], *, now: datetime
) -> list[dict[str, Any]]:
    """The latest triggers and ranges of skipped firings, together by time."""
    rows = [(trigger.scheduled_for, _fired(trigger, now)) for trigger in latest[:MAX_SHOWN]]
    rows += [(skipped.until_at, _skipped(skipped, now)) for skipped in ranges[:MAX_SHOWN]]
    rows.sort(key=itemgetter(0), reverse=True)
    return [shown for _, shown in rows[:MAX_SHOWN]]


def _fired(trigger: Trigger, now: datetime) -> dict[str, Any]:
    started, finished = trigger.started_at, trigger.finished_at
    return {
        "at": trigger_link(trigger.id, instant_cell(trigger.scheduled_for)),
        "away": moment_cell(trigger.scheduled_for, now=now),
        "state": state_label(trigger.state, trigger.reason),
        "attempts": trigger.attempt_count,
        "duration": duration_cell(finished - started if started and finished else None),
    }


def _skipped(skipped: SkippedRange, now: datetime) -> dict[str, Any]:
    return {
        "at": instant_cell(skipped.until_at),
        "away": moment_cell(skipped.until_at, now=now),
        "state": state_label("skipped", skipped.reason),
        "count": f"{skipped.count:,}",
        "since": instant_cell(skipped.from_at),
    }
