"""Two beats over the same past, and an edit that meets a step half-way: no firing lost, none doubled."""

from datetime import timedelta
from functools import partial
from itertools import count
from uuid import UUID

import pytest
from django.db import transaction

from jobs.actions import jobs as actions
from jobs.engine.firing import materializer
from jobs.engine.firing.catchup import CatchUps
from jobs.engine.firing.pace import Pace
from jobs.models import CatchUp, Job, SkippedRange, Trigger
from jobs.store import jobs as jobs_store
from jobs.store.catchup import walk
from tests import factories
from tests.factories import ANYONE, HOUR, MINUTE, make_job, make_tenant
from tests.races.conftest import Rival, at_once

pytestmark = pytest.mark.django_db(transaction=True)
AWAY = 48 * HOUR
BUDGET = timedelta(seconds=10)


def make_missed(number: int, policy: str) -> list[Job]:
    """Minutely jobs that no beat looked at for two days."""
    tenant, since = make_tenant(), factories.now().replace(microsecond=0) - AWAY
    return [
        make_job(tenant, misfire_policy=policy, created_at=since, next_fire_at=since + MINUTE, max_catchup=30)
        for _ in range(number)
    ]


def counted(job: Job) -> int:
    """Records of the firings due by the time the outage ended."""
    ranges = sum(SkippedRange.objects.filter(job=job).values_list("count", flat=True))
    return ranges + Trigger.objects.filter(job=job, scheduled_for__lte=job.created_at + AWAY).count()


class TestTwoBeats:
    @pytest.mark.parametrize("policy", ["fire_once", "skip", "backfill"])
    def test_split_and_decide_each_outage_once(self, policy: str) -> None:
        jobs = make_missed(12, policy)

        def work() -> None:
            pace = Pace(monotonic=partial(next, count(step=0.5)))  # each look at the clock moves it on
            pace.note(jobs[0].tenant_id, 60_000)
            catch_ups = CatchUps(pace=pace)
            while materializer.materialize(leadership=ANYONE, look_ahead=MINUTE, limit=5):
                catch_ups.step(leadership=ANYONE, budget=BUDGET)
            for _ in range(200):
                catch_ups.step(leadership=ANYONE, budget=BUDGET)
                due = Trigger.objects.filter(state="pending", due_at__lte=factories.now())
                due.update(state="succeeded")

        at_once(work, work)
        work()
        assert CatchUp.objects.filter(finished_at__isnull=False).count() == 12
        for job in jobs:
            fired = Trigger.objects.filter(job=job, origin="catchup").count()
            assert fired == {"fire_once": 1, "skip": 0, "backfill": 30}[policy]
            assert counted(job) == AWAY // MINUTE

    def test_pass_over_each_others_catch_up_without_waiting(self, rival: Rival) -> None:
        make_missed(2, "skip")
        materializer.materialize(leadership=ANYONE, look_ahead=MINUTE, limit=5)
        with transaction.atomic():
            mine = walk.take_undecided(leadership=ANYONE, after=UUID(int=0), limit=1)
            rival.do(lambda: CatchUps(pace=Pace()).step(leadership=ANYONE, budget=BUDGET))
        assert len(mine) == 1
        assert CatchUp.objects.filter(finished_at=None).values_list("id", flat=True)[0] == mine[0].id


class TestAnAction:
    def test_that_ends_a_job_waits_for_a_step_and_leaves_the_rest_to_the_leader(self, rival: Rival) -> None:
        [job] = make_missed(1, "fire_all")
        materializer.materialize(leadership=ANYONE, look_ahead=MINUTE, limit=5)
        catch_ups = CatchUps(pace=Pace(monotonic=partial(next, count(step=0.5))))
        with transaction.atomic():
            catch_ups._run(ANYONE, deadline=float("inf"))
            wait = rival.start(lambda: actions.cancel_job(tenant=job.tenant, job_id=job.id))
            rival.wait_until_blocked()
        wait()
        made = Trigger.objects.filter(job=job, origin="catchup")
        assert set(made.values_list("state", "reason")) == {("cancelled", "job_cancelled")}
        catch_ups.step(leadership=ANYONE, budget=BUDGET)
        assert CatchUp.objects.get().finished_at is not None
        assert counted(job) == AWAY // MINUTE

    def test_that_ends_a_job_waits_for_a_step_that_decides(self, rival: Rival) -> None:
        [job] = make_missed(1, "backfill")
        materializer.materialize(leadership=ANYONE, look_ahead=MINUTE, limit=5)
        catch_ups = CatchUps(pace=Pace(monotonic=partial(next, count(step=0.5))))
        with transaction.atomic():
            catch_ups._decide(ANYONE, deadline=0)
            wait = rival.start(lambda: actions.cancel_job(tenant=job.tenant, job_id=job.id))
            rival.wait_until_blocked()
        wait()
        assert len(CatchUp.objects.get().tail) == 30
        catch_ups.step(leadership=ANYONE, budget=BUDGET)
        assert not Trigger.objects.filter(job=job, origin="catchup").exists()
        assert SkippedRange.objects.filter(reason="misfire").count() == 1
        assert counted(job) == AWAY // MINUTE

    def test_that_edits_the_schedule_leaves_each_firing_to_one_schedule(self, rival: Rival) -> None:
        [job] = make_missed(1, "fire_all")
        jobs_store.note_versions([job.id])
        materializer.materialize(leadership=ANYONE, look_ahead=MINUTE, limit=5)
        pace = Pace(monotonic=partial(next, count(step=0.5)))
        pace.note(job.tenant_id, 600)
        catch_ups = CatchUps(pace=pace)
        with transaction.atomic():
            catch_ups._run(ANYONE, deadline=float("inf"))
            changes = {"schedule": {"every_seconds": 45}}
            wait = rival.start(lambda: actions.update_job(tenant=job.tenant, job_id=job.id, changes=changes))
            rival.wait_until_blocked()
        wait()
        for _ in range(10):
            Trigger.objects.filter(state="pending").update(state="succeeded")
            catch_ups._run(ANYONE, deadline=float("inf"))
        made = Trigger.objects.filter(job=job, origin="catchup").order_by("scheduled_for")
        assert len(made) > 10
        assert [trigger.scheduled_for for trigger in made] == [
            job.created_at + MINUTE * (1 + k) for k in range(len(made))
        ]
        assert set(made.values_list("job_version", flat=True)) == {2}

    def test_of_the_name_waits_for_a_step_and_hands_its_firings_to_the_new_version(
        self, rival: Rival
    ) -> None:
        [job] = make_missed(1, "fire_all")
        materializer.materialize(leadership=ANYONE, look_ahead=MINUTE, limit=5)
        pace = Pace(monotonic=partial(next, count(step=0.5)))
        pace.note(job.tenant_id, 600)
        with transaction.atomic():
            CatchUps(pace=pace)._run(ANYONE, deadline=float("inf"))
            changes = {"name": "renamed"}
            wait = rival.start(lambda: actions.update_job(tenant=job.tenant, job_id=job.id, changes=changes))
            rival.wait_until_blocked()
        wait()
        made = Trigger.objects.filter(job=job, origin="catchup")
        assert set(made.values_list("job_version", flat=True)) == {2}
