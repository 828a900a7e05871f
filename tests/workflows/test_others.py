"""A run whose row is locked, or whose next step takes long, does not hold up others."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction

from jobs.conf import engine_settings
from jobs.engine.reaper import reap_leases
from jobs.models import Trigger, WorkflowRun
from stage.waiting import wait_until
from tests import factories
from tests.engine.conftest import Perform, perform, queued
from tests.factories import make_running, state_of
from tests.races.conftest import Rival, rival
from tests.workflows.playing import begin, claim_due, make_workflow, states

__all__ = ("perform", "rival")
pytestmark = pytest.mark.django_db(transaction=True)


def lock(run: WorkflowRun) -> None:
    WorkflowRun.objects.select_for_update().get(id=run.id)


@pytest.fixture
def patience() -> Iterator[None]:
    """This connection waits for a lock as long as a beat does."""
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '50ms'")
        yield
        cursor.execute("RESET lock_timeout")


def test_an_outcome_beside_one_of_its_tasks_is_written(perform: Perform, rival: Rival, settings: Any) -> None:
    settings.CARILLON = engine_settings().model_copy(update={"finish_flush_ms": 3_000})
    run = begin(make_workflow(factories.make_tenant(), ("a", "b")))
    factories.dispatch()
    [task] = Trigger.objects.filter(state="queued")
    other = queued("noop")
    with transaction.atomic():
        lock(run)
        done = rival.start(partial(perform, task, other))
        wait_until(lambda: state_of(other)[0] == "succeeded", what="the other's outcome")
        rival.wait_until_blocked()
        assert state_of(task)[0] == "running"
    assert done() == {"succeeded": 2}
    assert states(run) == {"a": "succeeded", "b": "started"}


def test_another_trigger_whose_worker_died_is_taken_back(
    rival: Rival, patience: None, lines: Callable[[], list[dict[str, Any]]]
) -> None:
    """The task is lost for good, so its run must go on."""
    run = begin(make_workflow(factories.make_tenant(), ("a", "b", "on_failure")))
    [row] = claim_due()
    other, _ = make_running()
    over = factories.now() - factories.SECOND
    Trigger.objects.filter(id=row.id).update(lease_expires_at=over, crash_count=100, suspect=True)
    Trigger.objects.filter(id=other.id).update(lease_expires_at=over)
    reap = partial(reap_leases, leadership=factories.ANYONE, limit=10)
    rival.do(partial(_hold, run))
    assert reap() == 1
    assert (state_of(other)[0], factories.row(row)["state"]) == ("retrying", "running")
    assert [line for line in lines() if line["event"] == "reap waits for a workflow run"]
    rival.do(connection_rollback)
    assert reap() == 1
    assert states(run) == {"a": "failed", "b": "started"}


def _hold(run: WorkflowRun) -> None:
    """Lock the run in a transaction that stays open."""
    connection.set_autocommit(False)
    lock(run)


def connection_rollback() -> None:
    connection.rollback()
    connection.set_autocommit(True)
