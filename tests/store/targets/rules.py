"""Rules for targets as operators make them, and triggers that call these targets."""

from typing import Any

from jobs.actions import targets
from jobs.models import Trigger
from jobs.store.trail import Actor, acting_as
from tests.factories import dispatch, make_job, make_triggers

BY = Actor("operator", "olga")
HOST = "api.example.com"


def change(pattern: str = HOST, **changes: Any) -> dict[str, Any]:
    with acting_as(BY):
        return targets.change_target(pattern=pattern, changes=changes)


def pause(pattern: str = HOST, reason: str = "It is down.") -> dict[str, Any]:
    return change(pattern, paused=True, reason=reason)


def put(pattern: str = HOST, **changes: Any) -> dict[str, Any]:
    with acting_as(BY):
        return targets.put_target(pattern=pattern, changes=changes)


def make_calling(number: int = 1, target: str = HOST, state: str = "pending", **job: Any) -> list[Trigger]:
    return make_triggers(make_job(target=target, **job), number, state)


def queued(**options: Any) -> set[Any]:
    return {item.id for item in dispatch(**options).queued}


def ids(triggers: list[Trigger]) -> set[Any]:
    return {trigger.id for trigger in triggers}
