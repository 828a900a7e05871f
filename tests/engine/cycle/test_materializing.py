"""The triggers that a beat's turn records for due jobs."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from jobs.core.calendar import plans
from jobs.engine.firing import materializer
from jobs.models import Trigger
from jobs.store.jobs import schedule_of
from tests import factories
from tests.engine.conftest import Beat
from tests.engine.cycle.jobs import Clock, instants, make_every
from tests.factories import MINUTE, SECOND


@pytest.mark.django_db
class TestMaterialize:
    def test_pauses_a_job_whose_schedule_is_broken_and_goes_on(self, beat: Beat) -> None:
        broken = make_every(10, schedule_type="cron", interval=None, cron_expression="no cron")
        unknown_zone = make_every(10, schedule_type="cron", cron_expression="* * * * *", timezone="Mars/Base")
        good = make_every(10)
        beat.step()
        for job in (broken, unknown_zone):
            job.refresh_from_db()
            assert (job.status, bool(job.status_reason), instants(job)) == ("paused", True, [])
        assert instants(good)

    def test_computes_a_shared_schedule_once(
        self, beat: Beat, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = []
        real = plans.each_fire_time

        def counting(schedule: Any, **bounds: Any) -> Iterator[datetime]:
            asked.append(schedule)
            return real(schedule, **bounds)

        monkeypatch.setattr(plans, "each_fire_time", counting)
        monkeypatch.setattr(materializer, "PLANS", plans.PlanCache(schedule_of=schedule_of))
        cron = {"schedule_type": "cron", "interval": None, "cron_expression": "* * * * *"}
        now = factories.now()
        minute = now.replace(second=0, microsecond=0) + 2 * MINUTE
        # From the minute on, the look-ahead reaches one more firing.
        clock(minute - 30 * SECOND - now)
        beat.turn()
        same = [make_every(10, **cron, next_fire_at=minute) for _ in range(5)]
        other = make_every(10, **cron, next_fire_at=minute, timezone="Asia/Kolkata")
        beat.turn()
        assert len(asked) == 2
        assert {tuple(instants(job)) for job in [*same, other]} == {(minute,)}

    def test_keeps_a_jobs_jitter_the_same_for_every_firing(self, beat: Beat) -> None:
        jobs = [make_every(5, jitter=4 * SECOND) for _ in range(8)]
        beat.step()
        offsets = {
            job.id: {t.due_at - t.scheduled_for for t in Trigger.objects.filter(job=job)} for job in jobs
        }
        assert all(len(found) == 1 for found in offsets.values())
        assert all(timedelta() <= min(found) < 4 * SECOND for found in offsets.values())
        assert len({min(found) for found in offsets.values()}) > 1

    def test_ends_with_the_schedule(self, beat: Beat) -> None:
        job = make_every(10, ends_at=factories.now() + 25 * SECOND)
        beat.step()
        job.refresh_from_db()
        assert (len(instants(job)), job.next_fire_at) == (2, None)

    def test_shares_a_pass_among_jobs_after_a_long_outage(
        self, beat: Beat, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(materializer, "MAX_FIRINGS", 20)
        jobs = [make_every(1) for _ in range(4)]
        clock(MINUTE)
        beat.turn()
        assert [len(instants(job)) for job in jobs] == [5] * 4

    def test_says_that_more_wait_where_a_pass_cut_jobs_short(
        self, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(materializer, "MAX_FIRINGS", 8)
        jobs = [make_every(1) for _ in range(4)]
        clock(5 * SECOND)
        passes = iter(range(20))
        while materializer.materialize(leadership=factories.ANYONE, look_ahead=SECOND, limit=100) == 100:
            next(passes)
        # A second may end meanwhile: then one more firing is ahead.
        assert all(6 <= len(instants(job)) <= 7 for job in jobs)
