"""Runs that take longer than their workflow allows."""

import pytest

from jobs.models import Workflow
from tests.factories import MINUTE, SECOND
from tests.workflows.playing import begin
from tests.workflows.schedules.town import Town

pytestmark = pytest.mark.django_db(transaction=True)


class TestADeadline:
    def test_cancels_a_run_that_takes_too_long(self, town: Town) -> None:
        town.create(schedule=None, deadline_seconds=60)
        run = begin(Workflow.objects.get())
        town.beat.step()
        town.wait(MINUTE + SECOND)
        town.fire()
        run.refresh_from_db()
        assert (run.state, run.cancel_reason) == ("cancelled", "deadline")

    def test_leaves_a_run_alone_that_has_ended_and_gives_a_retry_its_time(self, town: Town) -> None:
        town.create(schedule=None, deadline_seconds=60, tasks={"load": {"job_type": "noop"}})
        run = begin(Workflow.objects.get())
        town.finish()
        town.wait(MINUTE + SECOND)
        path = f"/workflow-runs/{run.id}"
        assert town.owner.post(f"{path}/retry", {"tasks": ["load"]}).json()["state"] == "running"
        town.fire()
        assert town.owner.get(path).json()["state"] == "running"
        town.wait(MINUTE + SECOND)
        town.fire()
        ended = town.owner.get(path).json()
        assert (ended["state"], ended["cancel_reason"]) == ("cancelled", "deadline")
