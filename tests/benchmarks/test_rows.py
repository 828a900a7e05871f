"""The benches write rows in bulk as the engine would have written them: they pass every CHECK and can be served."""

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from psycopg import sql

from benchmarks import carillon, history, row_lock
from jobs.conf import engine_settings
from jobs.core.states import TriggerState
from jobs.engine.beat import served_types
from jobs.engine.cycle import Cycle
from jobs.engine.dispatcher import Message
from jobs.engine.firing.materializer import materialize
from jobs.engine.reaper import reap_leases
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
        assert materialize(leadership=factories.ANYONE, look_ahead=HOUR, limit=100) == 5
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
        materialize(leadership=factories.ANYONE, look_ahead=timedelta(seconds=69), limit=100)
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
        assert materialize(leadership=factories.ANYONE, look_ahead=HOUR, limit=100) == 0


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


class TestABacklog:
    def test_is_tenants_with_jobs_and_triggers_that_are_due_in_turn(self, desk: Desk) -> None:
        first = carillon.add_backlog(
            desk,
            "crowd",
            3,
            jobs_each=2,
            triggers_each=2,
            spread=timedelta(seconds=6),
            quotas={"weight": sql.SQL("1 + n")},
            priority=sql.SQL("n / 3"),
        )
        found = Trigger.objects.order_by("due_at").values_list(
            "tenant__slug", "tenant__weight", "priority", "due_at"
        )
        second, apart = timedelta(seconds=1), timedelta(milliseconds=1)
        assert list(found) == [
            (f"crowd-{n % 3}", 1 + n % 3, n // 3, first + n * second - earlier)
            for n in range(6)
            for earlier in (apart, timedelta())
        ]
        assert Job.objects.filter(next_fire_at__gt=first + timedelta(days=1)).count() == 6

    def test_is_served_by_a_leader_to_its_last_trigger(self, desk: Desk) -> None:
        carillon.add_backlog(desk, "crowd", 3, jobs_each=2, triggers_each=2, due_in=-HOUR, news=False)
        carillon.add_bursts(desk, "burst", 6, bursts=2, every=timedelta(seconds=1), due_in=-HOUR / 2)
        published: list[Message] = []
        settings = engine_settings().model_copy(update={"leader_election": False})
        Cycle(settings=settings, configs=served_types, publish=published.extend).tick()
        assert Counter(Trigger.objects.values_list("state", "tenant__slug")) == {
            (TriggerState.QUEUED, f"crowd-{n}"): 8 for n in range(3)
        }
        assert sum(len(message.tokens) for message in published) == 24


class TestStuckTriggers:
    def test_are_what_a_reaper_takes_back(self, desk: Desk) -> None:
        trigger_id = row_lock.add_stuck(desk, lease_left=-timedelta(seconds=1))
        assert reap_leases(leadership=factories.ANYONE, limit=10) == 1
        assert Trigger.objects.get(id=trigger_id).state == TriggerState.RETRYING
        assert Attempt.objects.get(trigger_id=trigger_id).state == "lost"
