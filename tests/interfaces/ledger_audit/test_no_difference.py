"""The audit finds nothing where every firing has its record, despite acts of people and outages meanwhile."""

from datetime import datetime
from typing import Any

import pytest

from jobs.actions import jobs as actions
from jobs.actions.ledger_audit import audit
from jobs.core.schedule import next_fire
from jobs.models import CatchUp, Job, SkippedRange, Trigger
from jobs.store import jobs as jobs_store
from jobs.store.jobs import schedule_of
from tests import factories
from tests.factories import HOUR, MINUTE, SECOND, make_trigger, now, utc
from tests.interfaces.ledger_audit.ledger import (
    DAILY,
    DAY,
    EVERY_MINUTE,
    beat,
    change,
    create,
    decide,
    instants,
    kinds,
    skip,
    timeline,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("job_types")]


class TestNoDifference:
    def test_is_found_after_an_undisturbed_day(self, clock: Any) -> None:
        job = create()
        beat()
        for hours in range(1, 25):
            clock(hours * HOUR)
            beat()
        assert kinds() == []
        assert instants(job) == 24 * 60

    def test_is_found_over_edits_of_schedule_and_zone(self, clock: Any) -> None:
        job = create()
        beat()
        clock(90 * SECOND)
        change(actions.update_job, job, changes={"schedule": {"every_seconds": 17}})
        beat()
        clock(10 * MINUTE)
        change(actions.update_job, job, changes={"schedule": DAILY})
        for days in range(1, 4):
            clock(days * DAY)
            beat()
        change(actions.update_job, job, changes={"schedule": {"timezone": "Asia/Kolkata"}})
        clock(5 * DAY)
        beat()
        change(actions.update_job, job, changes={"payload": {"sleep_ms": 1}, "name": "renamed"})
        assert kinds() == []
        assert instants(job) > 30

    def test_is_found_over_a_short_pause(self, clock: Any) -> None:
        job = create()
        beat()
        clock(5 * MINUTE)
        change(actions.pause_job, job)
        assert kinds() == []
        clock(20 * MINUTE)
        assert kinds() == []
        change(actions.resume_job, job)
        beat()
        clock(30 * MINUTE)
        assert kinds() == []
        assert job.triggers.filter(reason="paused").count() == 15

    def test_is_found_over_a_long_pause_which_is_one_range(self, clock: Any) -> None:
        job = create()
        change(actions.pause_job, job)
        clock(3 * DAY)
        assert kinds() == []
        change(actions.resume_job, job)
        beat()
        assert kinds() == []
        decide()
        [skipped] = SkippedRange.objects.all()
        assert (skipped.from_at, skipped.until_at) == (job.created_at + MINUTE, job.created_at + 3 * DAY)
        assert (skipped.count, skipped.reason) == (3 * 24 * 60, "paused")
        assert kinds() == []
        assert not job.triggers.filter(state="skipped").exists()

    @pytest.mark.parametrize(("minutes", "rows", "in_range"), [(1000, 1000, 0), (1001, 0, 1001)])
    def test_is_found_on_either_side_of_a_thousand_paused(
        self, clock: Any, minutes: int, rows: int, in_range: int
    ) -> None:
        job = create()
        change(actions.pause_job, job)
        clock(minutes * MINUTE + 30 * SECOND)
        change(actions.resume_job, job)
        decide()
        assert job.triggers.filter(state="skipped", reason="paused").count() == rows
        assert sum(skipped.count for skipped in SkippedRange.objects.all()) == in_range
        assert kinds() == []

    @pytest.mark.parametrize("end", ["edit", "cancel", "delete"])
    def test_is_found_when_a_long_backlog_meets_its(self, clock: Any, end: str) -> None:
        job = create()
        clock(2 * DAY)
        if end == "edit":
            change(actions.update_job, job, changes={"schedule": {"every_seconds": 3600}})
        else:
            change({"cancel": actions.cancel_job, "delete": actions.delete_job}[end], job)
        clock(2 * DAY + 30 * MINUTE)
        assert kinds() == []
        decide()
        assert kinds() == []
        ranges = SkippedRange.objects.order_by("from_at").values_list("reason", "count")
        missed = 2 * 24 * 60 - 1
        assert list(ranges) == (
            [("misfire", missed - 59), ("coalesced", 58)] if end == "edit" else [("misfire", missed)]
        )

    @pytest.mark.parametrize("end", ["edit", "cancel", "delete"])
    def test_is_found_when_a_long_pause_ends_by(self, clock: Any, end: str) -> None:
        job = create()
        beat()
        change(actions.pause_job, job)
        clock(2 * DAY)
        if end == "edit":
            change(actions.update_job, job, changes={"schedule": {"every_seconds": 45}})
        else:
            change({"cancel": actions.cancel_job, "delete": actions.delete_job}[end], job)
        clock(3 * DAY)
        if end == "edit":
            assert kinds() == []
            change(actions.resume_job, job)
        assert kinds() == []
        decide()
        assert kinds() == []
        assert instants(job) >= 2 * 24 * 60

    def test_is_found_in_what_a_cancel_leaves_of_the_look_ahead(self, clock: Any) -> None:
        job = create()
        beat()
        clock(5 * MINUTE)
        change(actions.cancel_job, job)
        clock(2 * HOUR)
        assert kinds() == []
        assert job.triggers.filter(scheduled_for__gt=timeline(job)[1][2]).exists()

    def test_is_found_when_a_firing_was_cancelled_ahead_and_the_schedule_edited(self, clock: Any) -> None:
        job = create()
        beat()
        ahead = job.triggers.order_by("-scheduled_for").first()
        assert ahead is not None
        Trigger.objects.filter(id=ahead.id).update(state="cancelled", reason="requested", finished_at=now())
        change(actions.update_job, job, changes={"schedule": {"every_seconds": 7000}})
        clock(90 * MINUTE)
        assert kinds() == []

    @pytest.mark.parametrize(
        "schedule", [{"type": "immediate"}, {"type": "once"}, {"type": "once", "late": True}]
    )
    def test_is_found_for_one_time_jobs(self, clock: Any, schedule: dict[str, Any]) -> None:
        late = schedule.get("late", False)
        if schedule["type"] == "once":
            run_at = now() - 30 * SECOND if late else now() + 30 * SECOND
            schedule = {"type": "once", "run_at": run_at.isoformat()}
        job = create(schedule)
        beat()
        clock(MINUTE)
        assert kinds() == []
        assert instants(job) == 1
        change(actions.update_job, job, changes={"payload": {"sleep_ms": 1}})
        clock(10 * MINUTE)
        assert kinds() == []
        Trigger.objects.all().delete()
        assert [kind for kind, _ in kinds()] == ["missing"]

    @pytest.mark.parametrize(
        ("start", "policy", "expected"),
        [
            (utc(2026, 10, 30), "vixie", 10),
            (utc(2026, 10, 30), "skip", 10),
            (utc(2026, 10, 30), "both", 11),
            (utc(2027, 3, 12), "vixie", 10),
            (utc(2027, 3, 12), "skip", 9),
            (utc(2027, 3, 12), "both", 10),
        ],
    )
    def test_is_found_over_changes_of_clocks(
        self, clock: Any, start: datetime, policy: str, expected: int
    ) -> None:
        distance = start - now()
        clock(distance)
        job = create(DAILY | {"cron": "30 1,2 * * *", "dst_policy": policy})
        for days in range(1, 6):
            clock(distance + days * DAY)
            beat()
        assert kinds() == []
        assert instants(job) == expected

    def test_is_found_when_a_job_has_passed_its_end_and_is_completed(self, clock: Any) -> None:
        job = create(EVERY_MINUTE | {"ends_at": (now() + 10 * MINUTE + SECOND).isoformat()})
        beat()
        clock(20 * MINUTE)
        Trigger.objects.update(state="succeeded", started_at=now(), finished_at=now())
        jobs_store.complete(after=factories.UUID(int=0), limit=10)
        job.refresh_from_db()
        assert (job.status, instants(job), kinds()) == ("completed", 10, [])

    def test_is_found_in_firings_asked_for_by_hand(self, clock: Any) -> None:
        job = create()
        beat()
        clock(5 * MINUTE)
        change(actions.run_job_now, job)
        make_trigger(job, origin="backfill", scheduled_for=job.created_at - DAY)
        assert kinds() == []

    def test_is_found_in_a_replay_of_what_an_earlier_schedule_named(self, clock: Any) -> None:
        job = create()
        clock(5 * MINUTE)
        beat()
        replayed = make_trigger(job, "succeeded", scheduled_for=job.created_at + 90 * SECOND, replay_count=1)
        assert kinds() == []
        Trigger.objects.filter(id=replayed.id).update(replay_count=0)
        assert kinds() == [("unexpected", replayed.scheduled_for)]

    @pytest.mark.parametrize("state", ["pending", "succeeded", "dead"])
    def test_is_found_where_a_backfill_runs_what_a_range_counts_as_skipped(
        self, clock: Any, state: str
    ) -> None:
        job = create()
        clock(HOUR + SECOND)
        skip(job, 1, 60)
        for minutes in (1, 30, 60):
            make_trigger(job, state, origin="backfill", scheduled_for=job.created_at + minutes * MINUTE)
        assert kinds() == []
        Trigger.objects.filter(scheduled_for=job.created_at + MINUTE).update(origin="catchup")
        assert kinds() == [("twice", job.created_at + MINUTE)]

    def test_is_found_in_a_month_of_seconds_without_walking_them(
        self, clock: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        every = {"cron": {"type": "cron", "cron": "* * * * * ?", "cron_dialect": "quartz"}}
        every["interval"] = {"type": "interval", "every_seconds": 1}
        jobs = [create(schedule, name=name) for name, schedule in every.items()]
        clock(30 * DAY)
        for job in jobs:
            schedule = schedule_of(job)
            first = next_fire(schedule, after=job.created_at)
            count = (now() - first) // SECOND + 1
            skip(job, 0, 0, from_at=first, until_at=first + (count - 1) * SECOND, count=count)
        monkeypatch.setattr("jobs.core.schedule._cron_firings", None)
        assert kinds() == []
        assert [instants(job) > 2_591_990 for job in jobs] == [True, True]
        SkippedRange.objects.all().delete()
        found = list(audit(jobs=Job.objects.all(), since=utc(2000, 1, 1), until=now()))
        assert all(result.counts["missing"] > 2_591_990 for result in found)
        assert [len(result.differences) for result in found] == [10, 10]

    def test_is_found_while_catch_up_is_in_hand(self, clock: Any) -> None:
        job = create()
        clock(HOUR)
        caught = CatchUp.objects.create(
            job=job,
            tenant_id=job.tenant_id,
            job_version=1,
            origin="outage",
            policy="backfill",
            from_at=job.created_at + MINUTE,
            until_at=now(),
            cursor=job.created_at + 30 * MINUTE,
            tail=[job.created_at + 29 * MINUTE, job.created_at + 30 * MINUTE],
            created_at=now(),
        )
        skip(job, 1, 28)
        assert kinds() == []
        caught.finished_at = now()
        caught.save()
        assert [kind for kind, _ in kinds()] == ["missing"] * (60 - 28)
