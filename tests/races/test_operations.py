"""A beat dies by ``kill -9`` in the middle of a slice: the slice is undone, and another beat does each item once."""

import os
import signal
from typing import Any

import pytest
from django.db import connection

from jobs.actions.bulk import operations
from jobs.actions.bulk.runner import Runner
from jobs.models import Change, Job, Operation, Trigger
from jobs.selection.walks import select
from tests.factories import make_job, make_tenant, make_triggers
from tests.interfaces.api.caller import Caller

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("job_types")]
EDIT: dict[str, Any] = {"verb": "edit", "filter": {}, "changes": {"priority": "critical"}}
#: An operation, the statement at which its beat dies, and the number of items done until then.
KILLED = {
    "an edit": (EDIT, "note", 2),
    "an edit that checks": ({**EDIT, "all_or_nothing": True}, "note_checked", 0),
    "an edit that has checked": ({**EDIT, "all_or_nothing": True}, "note", 2),
    "a replay at a pace": ({"verb": "replay", "filter": {}, "per_second": 1000}, "note", 2),
    "a cancel of triggers": ({"verb": "cancel_triggers", "filter": {}}, "note", 2),
}


@pytest.fixture
def owner() -> Caller:
    return Caller(make_tenant())


def done(verb: str) -> int:
    """Items done, by the rows themselves. None may have been done twice."""
    if verb == "edit":
        versions = list(Job.objects.values_list("version", flat=True))
        assert set(versions) <= {1, 2}
        return versions.count(2)
    if verb == "replay":
        assert set(Trigger.objects.values_list("replay_count", flat=True)) <= {0, 1}
        return Trigger.objects.filter(replay_count=1).count()
    return Trigger.objects.filter(state="cancelled").count()


def carry_on(*, until_done: int | None = None) -> None:
    runner = Runner(select)
    for _ in range(2_000):
        operation = Operation.objects.get()
        if operation.finished_at or (until_done is not None and operation.done >= until_done):
            return
        runner.turn()
    raise AssertionError("it goes on and on")


@pytest.mark.parametrize(("asked", "point", "before"), KILLED.values(), ids=KILLED)
def test_an_operation_is_carried_on_by_another_beat(
    owner: Caller, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], point: str, before: int
) -> None:
    monkeypatch.setattr(operations, "SLICE", 2)
    monkeypatch.setattr(operations, "EDIT_SLICE", 2)
    verb = asked["verb"]
    if verb == "edit":
        for _ in range(6):
            make_job(owner.tenant)
    else:
        make_triggers(make_job(owner.tenant), 6, state="dead" if verb == "replay" else "pending")
    begun = owner.post("/operations", asked)
    assert begun.status_code == 202, begun.content
    if before:
        carry_on(until_done=1)
    so_far = done(verb)
    assert so_far >= min(before, 1)
    connection.close()
    child = os.fork()
    if child == 0:
        with monkeypatch.context() as patched:
            patched.setattr(
                operations.operations_store, point, lambda **_: os.kill(os.getpid(), signal.SIGKILL)
            )
            try:
                carry_on()
            finally:
                os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert (done(verb), Operation.objects.get().done) == (so_far, so_far)
    carry_on()
    assert done(verb) == 6
    shown = owner.get(f"/operations/{begun.json()['id']}").json()
    assert (shown["done"], shown["refused"], shown["status"]) == (6, 0, "finished")
    assert Change.objects.filter(kind="operation").count() == 2
