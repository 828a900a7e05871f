"""Edits of all jobs that match, asked for over the API and carried out in this process."""

from typing import Any

from jobs.actions.bulk.runner import IDLE_SECONDS, Runner
from jobs.models import Job
from jobs.selection.walks import select
from tests.interfaces.api.caller import Caller, noop_job

CRON = {"type": "cron", "cron": "0 2 * * *", "timezone": "Europe/Berlin"}
HOOK = {"url": "https://a.example/x", "headers": {"X-One": "1"}}


def begin(caller: Caller, changes: Any, wanted: Any = None, **how: Any) -> dict[str, Any]:
    answer = caller.post("/operations", {"verb": "edit", "filter": wanted or {}, "changes": changes, **how})
    assert answer.status_code == 202, answer.content
    shown: dict[str, Any] = answer.json()
    return shown


def carry_on(turns: int = 200) -> None:
    runner = Runner(select)
    for _ in range(turns):
        if runner.turn() == IDLE_SECONDS:
            return
    raise AssertionError("it goes on and on")


def run(caller: Caller, changes: Any, wanted: Any = None, **how: Any) -> dict[str, Any]:
    begun = begin(caller, changes, wanted, **how)
    carry_on()
    shown: dict[str, Any] = caller.get(f"/operations/{begun['id']}").json()
    return shown


def preview(caller: Caller, changes: Any, wanted: Any = None) -> dict[str, Any]:
    asked = {"verb": "edit", "filter": wanted or {}, "changes": changes, "dry_run": True}
    answer = caller.post("/operations", asked)
    assert answer.status_code == 200, answer.content
    shown: dict[str, Any] = answer.json()
    return shown


def made(caller: Caller, **fields: Any) -> Job:
    """A job as the API writes it, every field in its usual form."""
    answer = caller.post("/jobs", noop_job(**fields))
    assert answer.status_code == 201, answer.content
    return Job.objects.get(id=answer.json()["id"])
