"""Nothing ran for a while (DESIGN §9, misfire): every missed firing gets one record, and on-time work goes on."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from jobs.core.schedule import next_fire
from jobs.engine.firing import catchup, materializer
from jobs.engine.firing.catchup import CatchUps
from jobs.engine.firing.pace import Pace
from jobs.models import CatchUp, Job, Trigger
from jobs.store.jobs import schedule_of
from tests import factories
from tests.engine.cycle.jobs import make_every
from tests.engine.outages.outage import DAY, Clock, Engine, Time, firings, ranges, unaccounted
from tests.factories import ANYONE, HOUR, MINUTE, SECOND, make_trigger

pytestmark = [pytest.mark.slow, pytest.mark.django_db]
#: Missed firings of which each costs a turn: more than dispatch is left to decide without a catch-up.
MANY = 40


class TestAnOutage:
    @pytest.mark.parametrize("away", [MINUTE, 2 * HOUR, 9 * DAY], ids=["a minute", "two hours", "nine days"])
    @pytest.mark.parametrize("policy", ["fire_once", "skip", "backfill", "fire_all"])
    @pytest.mark.parametrize("seconds", [10, 60])
    def test_leaves_no_instant_without_a_record(
        self, engine: Engine, clock: Clock, away: timedelta, policy: str, seconds: int
    ) -> None:
        if policy == "fire_all":  # one after the other, a turn each
            seconds = max(seconds, int(away.total_seconds()) // MANY)
        job = make_every(seconds, misfire_policy=policy, max_catchup=20)
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
    """A minutely job: 120 firings were due. The last of them, a second old, is still within its grace."""

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
        """The look-ahead had materialized firings that were then missed: they do not run beside the one that runs."""
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
