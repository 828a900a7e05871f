"""Chores wait while on-time work fills whole batches, but not for ever; and no chore waits for another."""

from datetime import timedelta
from types import SimpleNamespace

import pytest

from jobs.engine import housekeeper
from jobs.engine.housekeeper import COMPLETE_AT_LAST_SECONDS, Housekeeper
from jobs.models import Job
from tests.factories import make_job

pytestmark = pytest.mark.django_db


def test_finished_jobs_wait_for_a_busy_beat_to_have_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=1000.0, busy=False)
    monkeypatch.setattr(housekeeper.time, "monotonic", lambda: clock.now)
    keeper = Housekeeper(
        retention=timedelta(days=90), trail_retention=timedelta(days=90), busy=lambda: clock.busy
    )
    [complete] = [step for step in keeper.steps if step.name == "complete"]
    complete.turn(None)
    job = make_job()

    def completed() -> bool:
        complete.hurry()
        complete.turn(None)
        return Job.objects.get(id=job.id).status == "completed"

    clock.busy = True
    assert not completed()
    clock.now += COMPLETE_AT_LAST_SECONDS
    assert completed()
    clock.busy, job = False, make_job()
    assert completed()


def test_a_chore_that_fails_keeps_none_of_the_others_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = Housekeeper(retention=timedelta(days=90), trail_retention=timedelta(days=90))
    done = []
    for step in keeper.steps:
        if step.name == "purge triggers":
            step._work = lambda _: 1 / 0 > 1
        else:
            step._work = lambda _, name=step.name: bool(done.append(name))
    keeper.keep()
    assert len(done) == len(keeper.steps) - 1
