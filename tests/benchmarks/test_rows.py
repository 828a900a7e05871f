"""What the benches write in bulk is what the engine would have written: it passes every CHECK and can be served."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from benchmarks import carillon
from benchmarks.growth import history
from jobs.core.states import TriggerState
from jobs.engine.firing.materializer import materialize
from jobs.models import Attempt, Job, Trigger
from tests import factories

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


class Desk:
    """The part of the stage that bulk rows need, on the test's own connection and within its transaction."""

    @property
    def db(self) -> Any:
        return connection.connection

    def say(self, text: str) -> None:
        pass

    def value(self, query: Any, **parameters: Any) -> Any:
        return self.db.execute(query, parameters).fetchone()[0]


@pytest.fixture
def desk(db: None) -> Desk:
    connection.ensure_connection()
    desk = Desk()
    carillon.make_tenant(carillon.TENANT)
    return desk


class TestOneTimeJobs:
    def test_are_materialized_each_at_its_instant(self, desk: Desk) -> None:
        batch = carillon.add_one_time_jobs(desk, 5, due_in=timedelta(), spread=timedelta(seconds=10))
        assert materialize(reign=factories.ANYONE, look_ahead=HOUR, limit=100) == 5
        instants = sorted(Trigger.objects.values_list("scheduled_for", flat=True))
        assert instants == [batch.first_due_at + timedelta(seconds=2) * n for n in range(5)]

    def test_take_what_they_are_told(self, desk: Desk) -> None:
        carillon.add_one_time_jobs(
            desk, 2, due_in=HOUR, job_type="webhook", payload='{"url": "http://localhost/"}'
        )
        assert (
            list(Job.objects.values_list("job_type", "payload"))
            == [("webhook", {"url": "http://localhost/"})] * 2
        )


class TestAFleet:
    def test_fires_evenly_within_its_interval_and_then_again(self, desk: Desk) -> None:
        first = carillon.add_fleet(desk, 4, every=timedelta(seconds=20), first_in=timedelta(seconds=30))
        materialize(reign=factories.ANYONE, look_ahead=timedelta(seconds=69), limit=100)
        instants = sorted(Trigger.objects.values_list("scheduled_for", flat=True))
        assert instants == [first + timedelta(seconds=5) * n for n in range(8)]


class TestDueTriggers:
    def test_are_pending_and_belong_to_jobs_of_their_own(self, desk: Desk) -> None:
        carillon.add_due_triggers(desk, 3, tenant=carillon.TENANT, priority=0)
        carillon.add_due_triggers(desk, 4, tenant=carillon.TENANT, priority=3)
        triggers = list(Trigger.objects.select_related("job"))
        assert len({trigger.job_id for trigger in triggers}) == 7
        assert sorted(trigger.priority for trigger in triggers) == [0] * 3 + [3] * 4
        assert {(t.state, t.priority == t.job.priority) for t in triggers} == {(TriggerState.PENDING, True)}
        assert materialize(reign=factories.ANYONE, look_ahead=HOUR, limit=100) == 0


class TestHistory:
    def test_has_an_attempt_for_each_ended_trigger_in_the_partition_of_its_week(self, desk: Desk) -> None:
        carillon.add_fleet(desk, 10, every=history.EVERY, first_in=history.FIRST_IN)
        history.write_history(desk, 50, skip=0)
        history.write_history(desk, 30, skip=50)
        pairs = {(attempt.trigger_id, attempt.job_id) for attempt in Attempt.objects.all()}
        ended = Trigger.objects.filter(state=TriggerState.SUCCEEDED)
        assert pairs == set(ended.values_list("id", "job_id"))
        assert len(pairs) == 80
        assert desk.value("SELECT count(*) FROM jobs_attempt_default") == 0
