"""One pass of the notifier: bounded, with one transaction per page. It reads each event once, so runs of workflows are
counted here, too.
"""

from collections.abc import Sequence
from typing import Any

from jobs.core.workflows.states import SCHEDULE_TYPE
from jobs.engine.notices.wording import email_payload, webhook_body
from jobs.handlers.registry import SYSTEM_PREFIX
from jobs.store import db
from jobs.store.events import Place, notices
from jobs.store.events.notices import RUN_WORDS, SCHEDULE_WORDS, TENANT_RUN_WORDS, WORDS, Notice
from jobs.store.insight import activity
from jobs.telemetry import get_logger
from jobs.wakeups import wake_beats

log = get_logger()
PAGE = 1000
MAX_PAGES = 5


def notify() -> int:
    """Make notices of new events in the feed. Returns how many were made. May be repeated, and by several beats."""
    made = 0
    for _ in range(MAX_PAGES):
        with db.atomic():
            place = notices.take()
            events = notices.read(after=place, limit=PAGE) if place else []
            if not events:
                return made
            activity.count_runs(events)
            made += _notices_of(events)
            notices.keep(Place(int(events[-1].xid), events[-1].id))
        if events[-1].on_page < PAGE:
            break
    return made


def _notices_of(events: Sequence[Any]) -> int:
    ours = [
        event
        for event in events
        if not event.data.get("job_type", "").startswith(SYSTEM_PREFIX) or _is_of_a_schedule(event)
    ]
    deaths = {
        event.job_id: event.pause_after_failures
        for event in ours
        if event.kind == "trigger.dead" and event.pause_after_failures
    }
    for job_id in notices.pause_dying(deaths):
        log.warning("pause", job_id=str(job_id), reason="its firings keep dying")
    made = notices.send(_notices(ours))
    if made:
        wake_beats()
    return made


def _is_of_a_schedule(event: Any) -> bool:
    """Whether a firing of a workflow's schedule began no run."""
    return event.kind in SCHEDULE_WORDS and event.data.get("job_type") == SCHEDULE_TYPE


def _notices(events: Sequence[Any]) -> list[Notice]:
    """A notice for each job or workflow and kind of event on this page, over each channel it asked for."""
    groups: dict[tuple[Any, str], list[Any]] = {}
    for event in events:
        groups.setdefault((event.job_id, event.kind), []).append(event)
    return [notice for group in groups.values() for notice in _of(group[-1], count=len(group))]


def _of(event: Any, *, count: int) -> list[Notice]:
    words = WORDS | TENANT_RUN_WORDS
    if event.own_notify:
        words = SCHEDULE_WORDS if _is_of_a_schedule(event) else WORDS | RUN_WORDS
    word, wanted = words.get(event.kind), event.own_notify or event.tenant_notify
    if word is None or not wanted or word not in wanted["on"]:
        return []
    if word == "paused" and (event.data.get("requested") or not event.data.get("reason")):
        return []  # a caller or an operator paused it, and knows
    key = f"notice:{event.xid}-{event.id}"
    found = []
    if url := wanted.get("url"):
        payload = {"url": url, "method": "POST", "body": webhook_body(event, count=count)}
        found.append(Notice(event.tenant_id, "carillon.notice", key, payload))
    if address := wanted.get("email"):
        payload = email_payload(event, count=count, to=address)
        found.append(Notice(event.tenant_id, "carillon.email", f"{key}:email", payload))
    return found
