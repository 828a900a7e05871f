"""Chores wait while on-time work fills whole batches, but not for ever."""

from datetime import timedelta
from types import SimpleNamespace

import pytest

from jobs.engine import housekeeper
from jobs.engine.housekeeper import COMPLETE_AT_LAST_SECONDS, COMPLETE_EVERY_SECONDS, Housekeeper
from jobs.models import Job
from tests.factories import make_job

pytestmark = pytest.mark.django_db


def test_finished_jobs_wait_for_a_busy_beat_to_have_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(housekeeper.time, "monotonic", lambda: clock.now)
    keeper = Housekeeper(retention=timedelta(days=90), trail_retention=timedelta(days=90))
    keeper.keep()
    job = make_job()

    def completed() -> bool:
        return Job.objects.get(id=job.id).status == "completed"

    clock.now += COMPLETE_EVERY_SECONDS
    keeper.keep(busy=True)
    assert not completed()
    clock.now += COMPLETE_AT_LAST_SECONDS
    keeper.keep(busy=True)
    assert completed()
    job = make_job()
    clock.now += COMPLETE_EVERY_SECONDS
    keeper.keep()
    assert completed()
