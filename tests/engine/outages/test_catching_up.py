"""Catching up after an outage: in steps that any beat may continue, one late firing after another, at a pace."""

from collections import Counter
from itertools import count

import pytest

from jobs.engine.firing import catchup, materializer
from jobs.engine.firing.catchup import CatchUps
from jobs.engine.firing.pace import Pace
from jobs.models import CatchUp, Job, Trigger
from tests import factories
from tests.engine.cycle.jobs import make_every
from tests.engine.outages.outage import BUDGET, DAY, Clock, Engine, Time, ranges, unaccounted
from tests.factories import ANYONE, HOUR, MINUTE, SECOND, make_tenant

pytestmark = [pytest.mark.slow, pytest.mark.django_db]


class TestAStep:
    @pytest.fixture
    def job(self, clock: Clock) -> Job:
        job = make_every(60, misfire_policy="fire_once")
        clock(9 * DAY + 30 * SECOND)
        materializer.materialize(leadership=ANYONE, look_ahead=MINUTE, limit=10)
        return job

    def test_that_died_between_its_writes_is_repeated_whole(
        self, job: Job, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        catch_ups = CatchUps(pace=Pace(monotonic=Time()))

        def die(_: object) -> None:
            raise RuntimeError("killed")

        with monkeypatch.context() as patch:
            patch.setattr(catchup.walk, "advance", die)
            with pytest.raises(RuntimeError):
                catch_ups.step(leadership=ANYONE, budget=BUDGET)
        assert ranges(job) == []
        CatchUps(pace=Pace(monotonic=Time())).step(leadership=ANYONE, budget=BUDGET)
        CatchUps(pace=Pace(monotonic=Time())).step(leadership=ANYONE, budget=BUDGET)
        assert unaccounted(job) == []

    def test_goes_on_where_another_beat_left_off(self, job: Job) -> None:
        while CatchUp.objects.filter(finished_at=None).exists():
            CatchUps(pace=Pace(monotonic=Time()))._decide(ANYONE, deadline=0)
            CatchUps(pace=Pace(monotonic=Time()))._run(ANYONE, deadline=0)
        assert unaccounted(job) == []

    def test_of_a_deposed_leader_changes_nothing(self, job: Job) -> None:
        before = CatchUp.objects.values().get()
        deposed = factories.take_lease()
        factories.set_clock(10 * DAY)
        CatchUps(pace=Pace(monotonic=Time())).step(leadership=deposed, budget=BUDGET)
        assert CatchUp.objects.values().get() == before

    def test_leaves_a_paused_job_alone(self, job: Job) -> None:
        before = CatchUp.objects.values().get()
        Job.objects.update(status="paused")
        CatchUps(pace=Pace(monotonic=Time())).step(leadership=ANYONE, budget=BUDGET)
        assert CatchUp.objects.values().get() == before

    def test_pauses_a_job_whose_schedule_is_broken(self, job: Job) -> None:
        other = make_every(
            60, misfire_policy="skip", created_at=factories.now() - HOUR, next_fire_at=factories.now() - HOUR
        )
        materializer.materialize(leadership=ANYONE, look_ahead=MINUTE, limit=10)
        Job.objects.filter(id=job.id).update(schedule_type="cron", cron_expression="no cron")
        CatchUps(pace=Pace(monotonic=Time())).step(leadership=ANYONE, budget=BUDGET)
        job.refresh_from_db()
        assert (job.status, CatchUp.objects.get(job=other).finished_at is not None) == ("paused", True)

    def test_ends_when_its_time_is_up(self, job: Job) -> None:
        make_every(
            60, misfire_policy="skip", created_at=factories.now() - HOUR, next_fire_at=factories.now() - HOUR
        )
        materializer.materialize(leadership=ANYONE, look_ahead=MINUTE, limit=10)
        seconds = count()
        catch_ups = CatchUps(pace=Pace(monotonic=Time()), monotonic=lambda: next(seconds))
        assert catch_ups.step(leadership=ANYONE, budget=2 * SECOND)
        assert [caught.skipped > 0 for caught in CatchUp.objects.order_by("id")] == [True, False]


class TestALateFiring:
    @pytest.fixture
    def catch_ups(self) -> CatchUps:
        """Its pace has room for hundreds of firings."""
        time = Time()
        pace = Pace(monotonic=lambda: time.seconds)
        self.time, self.pace = time, pace
        return CatchUps(pace=pace)

    def run(self, catch_ups: CatchUps, job: Job) -> int:
        """Let a step run as many firings as it wants. Returns how many new triggers wait."""
        before = Trigger.objects.filter(job=job, origin="catchup").count()
        self.pace.note(job.tenant_id, 60_000)
        self.time.seconds += 10
        catch_ups.step(leadership=ANYONE, budget=BUDGET)
        return Trigger.objects.filter(job=job, origin="catchup").count() - before

    def test_of_a_job_that_runs_one_at_a_time_comes_when_no_other_is_due_or_under_way(
        self, catch_ups: CatchUps, clock: Clock
    ) -> None:
        job = make_every(60, misfire_policy="fire_all", overlap_policy="queue")
        clock(2 * HOUR)
        materializer.materialize(leadership=ANYONE, look_ahead=MINUTE, limit=10)
        on_time = Trigger.objects.filter(job=job, due_at__lte=factories.now())
        assert self.run(catch_ups, job) == 0
        for state in ("queued", "running"):
            on_time.update(state=state, queued_at=factories.now(), lease_expires_at=factories.now())
            assert self.run(catch_ups, job) == 0
        on_time.update(state="succeeded")
        assert [self.run(catch_ups, job) for _ in range(3)] == [1, 0, 0]
        Trigger.objects.filter(origin="catchup").update(state="retrying")
        assert self.run(catch_ups, job) == 1

    def test_of_a_job_that_may_overlap_comes_with_a_few_others(
        self, catch_ups: CatchUps, clock: Clock
    ) -> None:
        job = make_every(60, misfire_policy="fire_all", overlap_policy="allow")
        clock(2 * HOUR)
        materializer.materialize(leadership=ANYONE, look_ahead=MINUTE, limit=10)
        assert [self.run(catch_ups, job) for _ in range(2)] == [catchup.VISIT, 0]
        Trigger.objects.filter(id__in=Trigger.objects.filter(origin="catchup")[:3]).update(state="succeeded")
        assert self.run(catch_ups, job) == 3

    def test_is_never_parked_behind_another_of_its_past(self, engine: Engine, clock: Clock) -> None:
        make_every(60, misfire_policy="fire_all", overlap_policy="skip")
        clock(30 * MINUTE + 30 * SECOND)
        parked = 0
        for _ in range(40):
            engine.turn()
            engine.time.seconds += 1
            parked += Trigger.objects.filter(parked=True).count()
        assert parked == 0
        assert Trigger.objects.filter(origin="catchup", state="succeeded").count() > 10


class TestThePace:
    def test_is_the_rate_of_on_time_work(self) -> None:
        time = Time()
        pace = Pace(monotonic=time)
        pace.note(1, 6000)
        assert pace.per_second(1) == pytest.approx(100)
        for _ in range(600):
            time.seconds += 1
            pace.note(1, 100)
        assert pace.per_second(1) == pytest.approx(100, rel=0.02)

    def test_is_once_a_second_for_a_tenant_that_fires_rarely(self) -> None:
        time = Time()
        pace = Pace(monotonic=time)
        taken = 0
        for _ in range(40):
            allowance = pace.allowance(7, waiting=0)
            pace.spend(7, allowance)
            taken += allowance
            time.seconds += 0.25
        assert taken == 10

    def test_is_not_made_up_for_in_a_burst(self) -> None:
        time = Time()
        pace = Pace(monotonic=time)
        pace.note(1, 600)
        pace.allowance(1, waiting=0)
        time.seconds = 3
        assert pace.allowance(1, waiting=0) <= 10

    def test_comes_in_lumps(self) -> None:
        time = Time()
        pace = Pace(monotonic=time)
        taken = []
        for _ in range(200):
            time.seconds += 0.05
            pace.note(1, 5)
            pace._tenants[1].rate = 100.0
            taken.append(pace.allowance(1, waiting=0))
            pace.spend(1, taken[-1])
        lumps = [number for number in taken if number]
        assert sum(taken) == pytest.approx(1000, rel=0.06)
        assert min(lumps) >= 49

    def test_lets_no_more_than_two_seconds_worth_wait(self) -> None:
        time = Time()
        pace = Pace(monotonic=time)
        pace.note(1, 6000)
        pace.allowance(1, waiting=0)
        time.seconds = 1
        assert pace.allowance(1, waiting=150) <= 50
        assert pace.allowance(1, waiting=500) == 0

    def test_holds_over_an_outage_and_is_shared_among_a_tenants_jobs(self, clock: Clock) -> None:
        tenant, time = make_tenant(), Time()
        jobs = [make_every(10, tenant=tenant, misfire_policy="fire_all") for _ in range(30)]
        clock(DAY)
        pace = Pace(monotonic=time)
        catch_ups = CatchUps(pace=pace)
        materializer.materialize(leadership=ANYONE, look_ahead=MINUTE, limit=100, pace=pace)
        assert pace.per_second(tenant.id) == pytest.approx(3, rel=0.1)
        for _ in range(400):
            catch_ups.step(leadership=ANYONE, budget=BUDGET)
            Trigger.objects.filter(origin="catchup").update(state="succeeded")
            time.seconds += 0.25
            pace.note(tenant.id, 0)
            pace._tenants[tenant.id].rate = 3.0
        of_jobs = Counter(Trigger.objects.filter(origin="catchup").values_list("job_id", flat=True))
        assert 290 <= of_jobs.total() <= 303
        assert of_jobs.keys() == {job.id for job in jobs}

    def test_stops_while_dispatch_takes_nothing(self, clock: Clock) -> None:
        job, time = make_every(10, misfire_policy="fire_all"), Time()
        clock(DAY)
        pace = Pace(monotonic=time)
        materializer.materialize(leadership=ANYONE, look_ahead=MINUTE, limit=100, pace=pace)
        catch_ups = CatchUps(pace=pace)
        for _ in range(100):
            catch_ups.step(leadership=ANYONE, budget=BUDGET)
            time.seconds += 1
        assert Trigger.objects.filter(job=job, origin="catchup").count() == 2
