"""Nothing ran for a while (DESIGN §9, misfire): every missed firing gets one record, and on-time work goes on."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import pytest

from jobs.core.schedule import fire_times, next_fire
from jobs.engine.firing import catchup, materializer
from jobs.engine.firing.catchup import CatchUps
from jobs.engine.firing.pace import Pace
from jobs.models import CatchUp, Job, SkippedRange, Trigger
from jobs.store.jobs import schedule_of
from tests import factories
from tests.engine.conftest import Beat
from tests.factories import ANYONE, HOUR, MINUTE, SECOND, make_job, make_tenant, make_trigger

Clock = Callable[[timedelta], None]
pytestmark = [pytest.mark.slow, pytest.mark.django_db]
DAY = 24 * HOUR
BUDGET = timedelta(seconds=30)


class Time:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def make_every(seconds: int, **columns: Any) -> Job:
    """An interval job just created: its first firing lies one interval ahead."""
    created_at = factories.now().replace(microsecond=0)
    every = timedelta(seconds=seconds)
    return make_job(
        **({"interval": every, "created_at": created_at, "next_fire_at": created_at + every} | columns)
    )


def firings(job: Job) -> Counter[tuple[str, str, str]]:
    """(origin, state, reason) of the job's triggers due by now, each with their number."""
    due = Trigger.objects.filter(job=job, scheduled_for__lte=factories.now())
    return Counter(due.values_list("origin", "state", "reason"))


def ranges(job: Job) -> list[tuple[str, int]]:
    return list(SkippedRange.objects.filter(job=job).order_by("from_at").values_list("reason", "count"))


def unaccounted(job: Job) -> list[datetime]:
    """Instants up to now with no record, or with two; and ranges whose count is not what lies in them."""
    schedule, by = schedule_of(Job.objects.get(id=job.id)), factories.now()
    expected = fire_times(schedule, after=job.created_at, until=by, limit=1_000_000)
    recorded = Trigger.objects.filter(job=job, scheduled_for__lte=by)
    found = Counter(recorded.values_list("scheduled_for", flat=True))
    for record in SkippedRange.objects.filter(job=job):
        within = [at for at in expected if record.from_at <= at <= record.until_at]
        found.update(within)
        assert (len(within), within[0], within[-1]) == (record.count, record.from_at, record.until_at)
    assert found.keys() <= set(expected)
    return [at for at in expected if found[at] != 1]


class Engine:
    """A beat whose pace has a clock of its own; what it queues succeeds at once."""

    def __init__(self, beat: Beat) -> None:
        self.beat, self.time = beat, Time()
        pace = Pace(monotonic=self.time)
        beat.cycle._pace, beat.cycle._catch_ups = pace, CatchUps(pace=pace)

    def turn(self) -> None:
        self.beat.turn()
        done = {"state": "succeeded", "finished_at": factories.now()}
        Trigger.objects.filter(state="queued").update(**done)

    def settle(self, *, most: int = 1000) -> None:
        """Let seconds pass until nothing is left to catch up with."""
        for _ in range(most):
            self.turn()
            self.time.seconds += 1
            unfinished = CatchUp.objects.filter(finished_at=None)
            waiting = Trigger.objects.filter(state="pending", due_at__lte=factories.now())
            if not unfinished.exists() and not waiting.exists():
                return
        raise AssertionError(f"still catching up after {most} turns: {list(unfinished.values())}")


#: Firings that are missed, where each costs a turn: more than are left to dispatch without a catch-up.
MANY = 150


@pytest.fixture
def engine(beat: Beat) -> Engine:
    return Engine(beat)


class TestAnOutage:
    @pytest.mark.parametrize("away", [MINUTE, 2 * HOUR, 9 * DAY], ids=["a minute", "two hours", "nine days"])
    @pytest.mark.parametrize("policy", ["fire_once", "skip", "backfill", "fire_all"])
    @pytest.mark.parametrize("seconds", [10, 60])
    def test_leaves_no_instant_without_a_record(
        self, engine: Engine, clock: Clock, away: timedelta, policy: str, seconds: int
    ) -> None:
        if policy == "fire_all":  # one after the other, a turn each
            seconds = max(seconds, int(away.total_seconds()) // MANY)
        job = make_every(seconds, misfire_policy=policy, max_catchup=50)
        engine.turn()
        clock(away + 30 * SECOND)
        engine.settle()
        engine.turn()
        assert unaccounted(job) == []
        assert "pending" not in {state for _, state, _ in firings(job)}

    @pytest.mark.parametrize("away", [MINUTE, 2 * HOUR, 9 * DAY], ids=["a minute", "two hours", "nine days"])
    @pytest.mark.parametrize("policy", ["fire_once", "skip", "backfill", "fire_all"])
    def test_of_a_cron_job_leaves_no_instant_without_a_record(
        self, engine: Engine, clock: Clock, away: timedelta, policy: str
    ) -> None:
        created_at = factories.now().replace(minute=2, second=0, microsecond=0)
        expression = "17 * * * *" if policy == "fire_all" and away > DAY else "*/5 * * * *"
        cron = {"schedule_type": "cron", "cron_expression": expression, "timezone": "Asia/Kolkata"}
        job = make_every(60, misfire_policy=policy, **cron, interval=None, created_at=created_at)
        Job.objects.update(next_fire_at=next_fire(schedule_of(job), after=created_at))
        engine.turn()
        clock(away + 30 * SECOND)
        engine.settle()
        engine.turn()
        assert unaccounted(job) == []
        assert "pending" not in {state for _, state, _ in firings(job)}

    @pytest.mark.parametrize("policy", ["fire_once", "skip", "backfill", "fire_all"])
    def test_lets_the_next_firing_go_on_time_in_the_first_pass(
        self, engine: Engine, clock: Clock, policy: str
    ) -> None:
        job = make_every(60, misfire_policy=policy)
        clock(9 * DAY + 30 * SECOND)
        engine.beat.turn()
        last = job.created_at + 9 * DAY
        on_time = Trigger.objects.filter(job=job, origin="schedule", scheduled_for__gte=last).order_by(
            "scheduled_for"
        )
        assert list(on_time.values_list("scheduled_for", "state")) == [
            (last, "queued"),
            (last + MINUTE, "pending"),
        ]

    def test_of_a_few_firings_leaves_them_to_dispatch(self, engine: Engine, clock: Clock) -> None:
        job = make_every(60, misfire_policy="fire_once")
        clock(10 * MINUTE + 90 * SECOND)
        engine.turn()
        assert not CatchUp.objects.exists()
        assert firings(job) == {("schedule", "skipped", "coalesced"): 9, ("schedule", "succeeded", ""): 2}

    def test_cannot_be_told_from_none_by_a_job_that_keeps_its_grace(
        self, engine: Engine, clock: Clock
    ) -> None:
        job = make_every(10, misfire_policy="skip", misfire_grace=HOUR)
        clock(30 * MINUTE)
        engine.settle()
        assert set(firings(job)) == {("schedule", "succeeded", "")}
        assert not CatchUp.objects.exists()


class TestTwoHours:
    """Of a minutely job: 120 firings were due, of which the last, a second old, is still within its grace."""

    @pytest.fixture(autouse=True)
    def away(self, engine: Engine, clock: Clock) -> Callable[..., Job]:
        def away(**columns: Any) -> Job:
            job = make_every(60, **columns)
            engine.turn()
            clock(2 * HOUR + SECOND)
            engine.settle()
            return job

        self.after_two_hours = away
        return away

    def test_fires_once_and_accounts_for_the_rest(self) -> None:
        job = self.after_two_hours(misfire_policy="fire_once")
        assert firings(job) == {
            ("schedule", "skipped", "misfire"): 60,
            ("schedule", "skipped", "coalesced"): 58,
            ("catchup", "succeeded", ""): 1,
            ("schedule", "succeeded", ""): 1,
        }
        assert Trigger.objects.get(origin="catchup").scheduled_for == job.created_at + 119 * MINUTE
        assert ranges(job) == []

    def test_skips_them_all(self) -> None:
        job = self.after_two_hours(misfire_policy="skip")
        assert firings(job) == {("schedule", "skipped", "misfire"): 119, ("schedule", "succeeded", ""): 1}

    def test_fires_them_all_however_old(self) -> None:
        job = self.after_two_hours(misfire_policy="fire_all", catchup_window=MINUTE)
        assert firings(job) == {("catchup", "succeeded", ""): 119, ("schedule", "succeeded", ""): 1}

    def test_backfills_the_newest_in_order_at_low_priority(self) -> None:
        job = self.after_two_hours(misfire_policy="backfill", max_catchup=20, priority=0)
        assert firings(job) == {
            ("schedule", "skipped", "misfire"): 99,
            ("catchup", "succeeded", ""): 20,
            ("schedule", "succeeded", ""): 1,
        }
        ran = Trigger.objects.filter(origin="catchup").order_by("scheduled_for")
        assert ran[0].scheduled_for == job.created_at + 100 * MINUTE
        assert {trigger.priority for trigger in ran} == {3}
        assert [t.due_at for t in ran] == sorted(t.due_at for t in ran)

    def test_backfills_none_older_than_the_window(self) -> None:
        job = self.after_two_hours(misfire_policy="backfill", max_catchup=100, catchup_window=30 * MINUTE)
        assert firings(job)["catchup", "succeeded", ""] == 29
        assert firings(job)["schedule", "skipped", "misfire"] == 90

    def test_decides_what_waited_with_a_trigger_when_it_began_with_the_rest(self, engine: Engine) -> None:
        """The look-ahead had materialized firings that were then missed: they do not run beside the one that does."""
        job = self.after_two_hours(misfire_policy="fire_once", catchup_window=DAY)
        assert firings(job)["catchup", "succeeded", ""] == 1
        assert firings(job)["schedule", "skipped", "coalesced"] == 118


class TestNineDays:
    def test_are_kept_as_ranges(self, engine: Engine, clock: Clock) -> None:
        job = make_every(60, misfire_policy="fire_once")
        clock(9 * DAY + 30 * SECOND)
        engine.settle()
        assert ranges(job) == [("misfire", 12_900), ("coalesced", 58)]
        assert firings(job) == {("catchup", "succeeded", ""): 1, ("schedule", "succeeded", ""): 1}
        [done] = CatchUp.objects.all()
        assert (done.fired, done.skipped, done.tail) == (1, 12_958, [])

    def test_of_exactly_a_thousand_skipped_firings_are_kept_as_rows(
        self, engine: Engine, clock: Clock
    ) -> None:
        few = make_every(60, misfire_policy="skip")
        earlier = few.created_at - MINUTE
        many = make_every(60, misfire_policy="skip", created_at=earlier, next_fire_at=few.created_at)
        clock(1001 * MINUTE + 30 * SECOND)
        engine.settle()
        assert (firings(few)["schedule", "skipped", "misfire"], ranges(few)) == (1000, [])
        assert (firings(many)["schedule", "skipped", "misfire"], ranges(many)) == (0, [("misfire", 1001)])

    def test_leave_a_firing_that_has_its_trigger_out_of_the_range(self, engine: Engine, clock: Clock) -> None:
        job = make_every(60, misfire_policy="skip")
        make_trigger(job, "succeeded", scheduled_for=job.created_at + 5000 * MINUTE)
        clock(9 * DAY + 30 * SECOND)
        engine.settle()
        assert ranges(job) == [("misfire", 4999), ("misfire", 7959)]
        assert unaccounted(job) == []

    def test_or_years_of_seconds_are_decided_in_one_step(self, clock: Clock) -> None:
        since = factories.now().replace(microsecond=0)
        cron = {"schedule_type": "cron", "interval": None, "cron_expression": "* * * * * ?"}
        zone = {"cron_dialect": "quartz", "timezone": "America/New_York", "next_fire_at": since + SECOND}
        jobs = [make_every(1, misfire_policy="skip"), make_every(1, misfire_policy="skip", **cron, **zone)]
        clock(3 * 365 * DAY)
        materializer.materialize(leadership=ANYONE, look_ahead=SECOND, limit=10)
        CatchUps(pace=Pace(monotonic=Time()))._decide(ANYONE, deadline=float("inf"))
        for job in jobs:
            [(reason, number)] = ranges(job)
            assert (reason, CatchUp.objects.get(job=job).skipped) == ("misfire", number)
            assert abs(number - 3 * 365 * 86_400) < 100

    def test_are_decided_in_parts_where_many_firings_have_their_trigger(
        self, engine: Engine, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(catchup, "MAX_RECORDED", 3)
        job = make_every(60, misfire_policy="backfill", max_catchup=20, catchup_window=2 * HOUR)
        for minute in (1, 2, 700, 2000, 2001, 2800, 2850, 2860, 2870, 2875):
            make_trigger(job, "succeeded", scheduled_for=job.created_at + minute * MINUTE)
        clock(2 * DAY + 30 * SECOND)
        engine.settle()
        assert unaccounted(job) == []
        late = Trigger.objects.filter(job=job, origin="catchup").order_by("scheduled_for")
        newest = [minute for minute in range(2850, 2880) if minute not in (2850, 2860, 2870, 2875)][-20:]
        assert [trigger.scheduled_for for trigger in late] == [
            job.created_at + minute * MINUTE for minute in newest
        ]


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
        """With room in its pace for hundreds."""
        time = Time()
        pace = Pace(monotonic=lambda: time.seconds)
        self.time, self.pace = time, pace
        return CatchUps(pace=pace)

    def run(self, catch_ups: CatchUps, job: Job) -> int:
        """Let a step run what it likes. Returns how many new triggers wait."""
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
