"""A new release of the time zone database: firings that it moves are neither lost nor doubled, and it is on record."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import transaction

from jobs.core.schedule import next_fire
from jobs.core.timezones import tzdata_version
from jobs.engine.firing.materializer import materialize
from jobs.engine.firing.zones import TRIES, ZoneRules
from jobs.models import Change, Job, Trigger
from jobs.models import ZoneRules as Stored
from jobs.store.jobs import schedule_of
from tests.engine.conftest import Beat
from tests.factories import ANYONE, HOUR, MINUTE, SECOND, make_job, make_trigger, now, take_lease
from tests.races.conftest import Rival, rival

__all__ = ("rival",)
pytestmark = pytest.mark.django_db
Clock = Callable[[timedelta], None]
DAY = 24 * HOUR


def daily(*, off_by: timedelta = timedelta(), **columns: Any) -> Job:
    """Every day at two in Kolkata. ``off_by``: how far former rules moved its next instant from the present one."""
    plain = {
        "schedule_type": "cron",
        "cron_expression": "0 2 * * *",
        "timezone": "Asia/Kolkata",
        "interval": None,
    }
    job = make_job(**(plain | {"created_at": now() - 30 * DAY} | columns))
    Job.objects.filter(id=job.id).update(next_fire_at=true_next(job, now()) + off_by)
    job.refresh_from_db()
    return job


def true_next(job: Job, after: datetime) -> datetime:
    found = next_fire(schedule_of(job), after=after)
    assert found is not None
    return found


def former_rules(*, seen_ago: timedelta = SECOND) -> None:
    Stored.objects.create(id=1, version="2000a", seen_at=now() - seen_ago)


def next_fire_at(job: Job) -> datetime | None:
    return Job.objects.values_list("next_fire_at", flat=True).get(id=job.id)


def fire() -> None:
    materialize(leadership=ANYONE, look_ahead=MINUTE, limit=100)


def instants(job: Job) -> list[datetime]:
    return sorted(Trigger.objects.filter(job=job).values_list("scheduled_for", flat=True))


class TestNewRules:
    def test_that_move_a_firing_earlier_do_not_lose_it(self, clock: Clock) -> None:
        job = daily(off_by=HOUR)
        true = job.next_fire_at - HOUR
        former_rules()
        assert ZoneRules().settled(ANYONE)
        assert next_fire_at(job) == true
        clock(true - now())
        fire()
        assert instants(job) == [true]

    def test_that_move_one_earlier_while_all_beats_were_down_do_not_lose_it(self, clock: Clock) -> None:
        job = daily(off_by=2 * HOUR)
        true = job.next_fire_at - 2 * HOUR
        clock(true + HOUR - now())
        former_rules(seen_ago=2 * HOUR)
        ZoneRules().settled(ANYONE)
        fire()
        assert (instants(job), next_fire_at(job)) == ([true], true + DAY)

    def test_that_move_one_later_withdraw_what_lies_ahead(self, clock: Clock) -> None:
        job = daily()
        true = job.next_fire_at
        clock(true - HOUR - 30 * SECOND - now())
        make_trigger(job, scheduled_for=true - HOUR)
        former_rules()
        ZoneRules().settled(ANYONE)
        assert (instants(job), next_fire_at(job)) == ([], true)

    def test_fire_nothing_again_that_the_former_rules_have_fired(self, clock: Clock) -> None:
        job = daily()
        true = job.next_fire_at
        Job.objects.filter(id=job.id).update(next_fire_at=true + 23 * HOUR)
        clock(true + MINUTE - now())
        make_trigger(job, "succeeded", scheduled_for=true - HOUR)
        former_rules()
        ZoneRules().settled(ANYONE)
        assert next_fire_at(job) == true + DAY

    def test_leave_alone_what_is_right_and_what_no_zone_decides(self) -> None:
        kept = [
            daily(),
            daily(timezone="UTC", off_by=HOUR),
            daily(status="cancelled", off_by=HOUR),
            make_job(next_fire_at=now() + HOUR),
        ]
        before = [next_fire_at(job) for job in kept]
        former_rules()
        ZoneRules().settled(ANYONE)
        assert [next_fire_at(job) for job in kept] == before
        assert not Change.objects.filter(actor_kind="engine").exists()

    def test_do_not_reach_back_past_an_edit(self, clock: Clock) -> None:
        job = daily()
        true = job.next_fire_at
        clock(true + 10 * MINUTE - now())
        Job.objects.filter(id=job.id).update(next_fire_at=true + DAY, updated_at=true + 5 * MINUTE)
        former_rules(seen_ago=HOUR)
        ZoneRules().settled(ANYONE)
        assert next_fire_at(job) == true + DAY

    def test_are_on_the_audit_trail_by_job(self) -> None:
        job = daily(off_by=HOUR)
        former_rules()
        ZoneRules().settled(ANYONE)
        [change] = Change.objects.filter(object_id=str(job.id), actor_kind="engine")
        before, after = (datetime.fromisoformat(at) for at in change.changes["next_fire_at"])
        assert (before, after) == (job.next_fire_at, job.next_fire_at - HOUR)


class TestTheWalk:
    def test_is_made_once_for_each_release(self) -> None:
        former_rules()
        rules = ZoneRules()
        assert rules.settled(ANYONE)
        assert Stored.objects.get().version == tzdata_version()
        job = daily(off_by=HOUR)
        for again in (rules, ZoneRules()):
            assert again.settled(ANYONE)
        assert next_fire_at(job) == job.next_fire_at

    def test_is_made_where_no_release_is_known(self) -> None:
        job = daily(off_by=HOUR)
        assert ZoneRules().settled(ANYONE)
        assert next_fire_at(job) == job.next_fire_at - HOUR

    def test_tells_when_a_leader_was_last_at_work(self, clock: Clock) -> None:
        ZoneRules().settled(ANYONE)
        clock(HOUR)
        ZoneRules().settled(ANYONE)
        assert now() - Stored.objects.get().seen_at < MINUTE

    def test_looks_again_under_a_new_term(self) -> None:
        rules = ZoneRules()
        assert rules.settled(ANYONE)
        job = daily(off_by=HOUR)
        Stored.objects.update(version="2000a")
        assert rules.settled(ANYONE)
        assert next_fire_at(job) == job.next_fire_at
        assert rules.settled(take_lease())
        assert next_fire_at(job) == job.next_fire_at - HOUR

    def test_goes_on_from_turn_to_turn_and_lets_the_others_fire(
        self, beat: Beat, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("jobs.engine.firing.zones.BATCH", 1)
        monkeypatch.setattr("jobs.engine.firing.zones.BUDGET_SECONDS", 1e-9)
        zoned = [daily(cron_expression="* * * * *") for _ in range(3)]
        other = make_job(created_at=now() - 90 * SECOND, next_fire_at=now() - 30 * SECOND)
        former_rules()
        beat.turn()
        assert (len(instants(other)) > 0, [instants(job) for job in zoned]) == (True, [[], [], []])
        for _ in range(6):
            beat.turn()
        assert all(instants(job) for job in zoned)

    @pytest.mark.django_db(transaction=True)
    def test_does_not_wait_for_a_job_that_somebody_has_locked(self, rival: Rival) -> None:
        locked, free = daily(off_by=HOUR), daily(off_by=HOUR)
        former_rules()
        rules = ZoneRules()
        with transaction.atomic():
            Job.objects.select_for_update().get(id=locked.id)
            assert rival.start(lambda: rules.settled(ANYONE))() is False
            assert next_fire_at(free) == free.next_fire_at - HOUR
        assert rules.settled(ANYONE)
        assert next_fire_at(locked) == locked.next_fire_at - HOUR

    @pytest.mark.django_db(transaction=True)
    def test_gives_up_on_one_that_stays_locked(self, rival: Rival) -> None:
        locked = daily(off_by=HOUR)
        former_rules()
        rules = ZoneRules()
        with transaction.atomic():
            Job.objects.select_for_update().get(id=locked.id)
            answers = [rival.start(lambda: rules.settled(ANYONE))() for _ in range(TRIES)]
        assert answers == [False] * (TRIES - 1) + [True]
        assert next_fire_at(locked) == locked.next_fire_at
