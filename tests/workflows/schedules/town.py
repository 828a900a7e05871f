"""A tenant whose workflows have schedules, with one beat and one worker in this process, stepped by hand."""

from collections.abc import Callable
from datetime import timedelta
from itertools import groupby
from typing import Any

from jobs.core.workflows.states import SCHEDULE_TYPE
from jobs.models import Trigger, WorkflowRun
from tests import factories
from tests.engine.conftest import Beat, Broker
from tests.interfaces.api.caller import Caller

HOURLY = {"type": "interval", "every_seconds": 3600}


class Town:
    """A tenant with one beat and one worker, and a clock."""

    def __init__(self, beat: Beat, broker: Broker, perform: Callable[..., Any]) -> None:
        self.beat, self.broker, self._perform = beat, broker, perform
        self.owner = Caller(factories.make_tenant())
        self.after = timedelta()

    def create(self, **more: Any) -> dict[str, Any]:
        answer = self.owner.post("/workflows", workflow(**more))
        assert answer.status_code == 201, answer.content
        found: dict[str, Any] = answer.json()
        return found

    def wait(self, span: timedelta) -> None:
        self.after += span
        factories.set_clock(self.after)

    def fire(self) -> None:
        """Let the beat dispatch, and a worker begin the runs; their tasks stay queued."""
        for _ in range(3):
            for step in self.beat.cycle.steps.values():
                step.hurry()
            self.beat.step()
            self.work(only=SCHEDULE_TYPE)

    def work(self, only: str = "") -> None:
        """Carry out all queued triggers."""
        queued = Trigger.objects.filter(state="queued").order_by("job_type")
        for job_type, triggers in groupby(queued, key=lambda trigger: trigger.job_type):
            if not only or job_type == only:
                self._perform(*triggers)

    def finish(self) -> None:
        """Carry out all due triggers, and those that follow from them."""
        for _ in range(6):
            self.fire()
            self.work()

    def firings(self) -> list[tuple[str, str]]:
        found = Trigger.objects.filter(job_type=SCHEDULE_TYPE, due_at__lte=factories.now())
        return [(one.state, one.reason) for one in found.order_by("scheduled_for")]

    def runs(self) -> list[str]:
        return list(WorkflowRun.objects.order_by("scheduled_for").values_list("state", flat=True))


def workflow(**more: Any) -> dict[str, Any]:
    return {"name": "etl", "tasks": {"load": {"job_type": "noop"}}, "schedule": HOURLY} | more
