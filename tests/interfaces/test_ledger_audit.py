"""The audit finds every firing without a record and every record without a firing, and nothing else."""

import json
from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from jobs.actions import jobs as actions
from jobs.actions.ledger_audit import audit
from jobs.actions.overdue import materialize
from jobs.core.schedule import fire_times, next_fire
from jobs.engine.firing.catchup import CatchUps
from jobs.engine.firing.pace import Pace
from jobs.models import CatchUp, Job, JobVersion, SkippedRange, Trigger
from jobs.store import execution
from jobs.store import jobs as jobs_store
from jobs.store.jobs import schedule_of
from tenants.models import Tenant
from tests import factories
from tests.factories import HOUR, MINUTE, SECOND, make_tenant, make_trigger, now, utc

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("job_types")]
DAY = timedelta(days=1)
EVERY_MINUTE = {"type": "interval", "every_seconds": 60}
DAILY = {"type": "cron", "cron": "30 2 * * *", "timezone": "America/New_York"}


def create(schedule: dict[str, Any] | None = None, tenant: Tenant | None = None, **changes: Any) -> Job:
    document = {"name": "nightly", "job_type": "noop", "schedule": schedule or EVERY_MINUTE} | changes
    return actions.create_job(tenant=tenant or make_tenant(), definition=document)


def beat() -> None:
    """What a beat without any outage has put on record by now, an hour ahead."""
    ahead = now() + HOUR
    for job in Job.objects.filter(status="active", next_fire_at__lte=ahead):
        schedule, since = schedule_of(job), job.next_fire_at - timedelta(microseconds=1)
        due = fire_times(schedule, after=since, until=ahead, limit=100_000)
        materialize(job=job, instants=due)
        jobs_store.advance({job.id: next_fire(schedule, after=ahead)})


def decide() -> None:
    """What the leader makes of the catch-up at hand."""
    CatchUps(pace=Pace()).step(leadership=factories.ANYONE, budget=MINUTE)


def kinds(job: Job | None = None) -> list[tuple[str, datetime]]:
    """(kind, instant) of every difference there is by now."""
    jobs = Job.objects.filter(id=job.id) if job else Job.objects.all()
    found = audit(jobs=jobs, since=utc(2000, 1, 1), until=now(), keep=10_000)
    return [(kind, at) for result in found for kind, at, _ in result.differences]


def instants(job: Job) -> int:
    [result] = audit(jobs=Job.objects.filter(id=job.id), since=utc(2000, 1, 1), until=now())
    return result.instants


def change(verb: Any, job: Job, **arguments: Any) -> Job:
    changed: Job = verb(tenant=job.tenant, job_id=job.id, **arguments)
    return changed


def timeline(job: Job) -> list[tuple[int, str, datetime]]:
    entries = JobVersion.objects.filter(job=job).order_by("valid_from")
    return [(entry.version, entry.status, entry.valid_from) for entry in entries]


class TestTheTimeline:
    def test_has_an_entry_for_every_change_of_schedule_or_status(self) -> None:
        job = create()
        edited = change(actions.update_job, job, changes={"schedule": {"every_seconds": 30}})
        paused = change(actions.pause_job, job)
        change(actions.pause_job, job)
        resumed = change(actions.resume_job, job)
        cancelled = change(actions.cancel_job, job)
        change(actions.delete_job, job)
        assert timeline(job) == [
            (1, "active", job.created_at),
            (2, "active", edited.updated_at),
            (2, "paused", paused.updated_at),
            (2, "active", resumed.updated_at),
            (2, "cancelled", cancelled.updated_at),
        ]

    def test_has_one_for_what_the_engine_changes(self) -> None:
        gone, broken, over = create(name="a"), create(name="b"), create(name="c")
        jobs_store.advance({over.id: None})
        execution.pause_gone([make_trigger(gone, "dead").id])
        jobs_store.pause_broken(job_id=broken.id, reason="x")
        jobs_store.complete(after=factories.UUID(int=0), limit=10)
        found = {job: timeline(job)[1][1] for job in (gone, broken, over)}
        assert found == {gone: "paused", broken: "paused", over: "completed"}

    @pytest.mark.parametrize(
        "schedule",
        [
            EVERY_MINUTE,
            {"type": "interval", "every_seconds": 1.5, "starts_at": "2026-01-01T00:00:00.123456Z"},
            {"type": "once", "run_at": "2090-01-01T00:00:00Z"},
            {"type": "immediate"},
            DAILY | {"dst_policy": "both", "ends_at": "2090-01-01T00:00:00Z"},
            {"type": "cron", "cron": "0 0 12 ? * 2", "cron_dialect": "quartz"},
        ],
    )
    def test_gives_the_schedule_back(self, schedule: dict[str, Any]) -> None:
        job = create(schedule)
        entry = JobVersion.objects.get(job=job)
        assert jobs_store.schedule_then(entry.schedule) == schedule_of(Job.objects.get(id=job.id))


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


def skip(job: Job, first: int, last: int, **columns: Any) -> SkippedRange:
    """A range from the job's firing number ``first`` to ``last``, one a minute."""
    plain = {
        "job": job,
        "tenant_id": job.tenant_id,
        "job_version": 1,
        "from_at": job.created_at + first * MINUTE,
        "until_at": job.created_at + last * MINUTE,
        "count": last - first + 1,
        "reason": "misfire",
        "created_at": now(),
    }
    return SkippedRange.objects.create(**(plain | columns))


class TestADifference:
    @pytest.fixture
    def job(self, clock: Any) -> Job:
        """An hour of a minutely job, all on record."""
        job = create()
        clock(HOUR)
        beat()
        clock(HOUR + SECOND)
        return job

    def test_is_a_firing_whose_record_is_gone(self, job: Job) -> None:
        gone = job.created_at + 7 * MINUTE
        job.triggers.filter(scheduled_for=gone).delete()
        assert kinds() == [("missing", gone)]

    def test_is_a_record_no_schedule_names(self, job: Job) -> None:
        added = make_trigger(job, scheduled_for=job.created_at + 90 * SECOND)
        assert kinds() == [("unexpected", added.scheduled_for)]

    def test_is_a_record_from_before_the_job_was_created(self, job: Job) -> None:
        added = make_trigger(job, scheduled_for=job.created_at - MINUTE)
        assert kinds() == [("unexpected", added.scheduled_for)]

    def test_is_a_record_of_a_schedule_that_was_edited(self, job: Job, clock: Any) -> None:
        change(actions.update_job, job, changes={"schedule": {"every_seconds": 3600}})
        clock(HOUR + 10 * MINUTE)
        added = make_trigger(job, scheduled_for=job.created_at + 63 * MINUTE)
        assert kinds() == [("unexpected", added.scheduled_for)]

    def test_is_a_range_that_counts_too_few_or_too_many(self, job: Job) -> None:
        job.triggers.filter(scheduled_for__lte=job.created_at + 20 * MINUTE).delete()
        skipped = skip(job, 1, 20)
        assert kinds() == []
        for count in (19, 21):
            SkippedRange.objects.update(count=count)
            assert kinds() == [("miscounted", skipped.from_at)]

    def test_is_an_instant_both_in_a_range_and_in_a_trigger(self, job: Job) -> None:
        job.triggers.filter(scheduled_for__lt=job.created_at + 20 * MINUTE).delete()
        skip(job, 1, 20)
        assert kinds() == [("twice", job.created_at + 20 * MINUTE)]

    def test_is_an_instant_in_two_ranges(self, job: Job) -> None:
        job.triggers.filter(scheduled_for__lte=job.created_at + 20 * MINUTE).delete()
        skip(job, 1, 10)
        skip(job, 10, 20, reason="coalesced")
        assert kinds() == [("twice", job.created_at + 10 * MINUTE)]

    def test_is_what_a_range_leaves_out(self, job: Job) -> None:
        job.triggers.filter(scheduled_for__lte=job.created_at + 20 * MINUTE).delete()
        skip(job, 2, 20)
        assert kinds() == [("missing", job.created_at + MINUTE)]

    def test_is_a_job_without_a_timeline(self) -> None:
        job = factories.make_job()
        assert kinds() == [("no_timeline", job.created_at)]

    def test_of_one_job_is_not_laid_to_another(self, job: Job) -> None:
        others = [create(name=f"other-{number}", tenant=job.tenant) for number in range(3)]
        gone = job.created_at + 7 * MINUTE
        job.triggers.filter(scheduled_for=gone).delete()
        assert kinds() == [("missing", gone)]
        assert [kinds(other) for other in others] == [[]] * 3

    def test_is_not_claimed_where_the_schedule_can_no_longer_be_computed(self, job: Job) -> None:
        Job.objects.update(timezone="Gone/Away")
        entry = JobVersion.objects.get()
        entry.schedule |= {"schedule_type": "cron", "cron_expression": "0 2 * * *", "timezone": "Gone/Away"}
        entry.save()
        [result] = audit(jobs=Job.objects.all(), since=utc(2000, 1, 1), until=now())
        assert (result.differences, len(result.unproven)) == ([], 1)


def run(*arguments: str) -> tuple[int, str]:
    """Exit code and output of the command."""
    out = StringIO()
    try:
        call_command("audit_firings", *arguments, stdout=out)
    except SystemExit as ended:
        return int(ended.code or 0), out.getvalue()
    return 0, out.getvalue()


class TestTheCommand:
    @pytest.fixture
    def job(self, clock: Any) -> Job:
        job = create()
        clock(HOUR)
        beat()
        clock(HOUR + 10 * SECOND)
        return job

    def test_says_how_much_it_audited(self, job: Job) -> None:
        assert run() == (0, "60 instants of 1 jobs audited; differences: none\n")

    def test_names_the_instant_and_ends_with_1_when_a_trigger_was_deleted_by_hand(self, job: Job) -> None:
        gone = job.created_at + 7 * MINUTE
        job.triggers.filter(scheduled_for=gone).delete()
        code, text = run()
        assert code == 1
        stamp = gone.isoformat().replace("+00:00", "Z")
        assert f"missing: {stamp} of {job.tenant.slug}/nightly ({job.id})" in text
        assert text.endswith("differences: 1 missing\n")

    def test_gives_json(self, job: Job) -> None:
        job.triggers.all().delete()
        code, text = run("--json")
        report = json.loads(text)
        assert code == 1
        assert (report["jobs"], report["instants"], report["by_kind"]) == (1, 60, {"missing": 60})
        assert len(report["examples"]) == 10

    def test_looks_at_one_job_or_tenant_only(self, job: Job) -> None:
        other = create(name="other")
        beat()
        job.triggers.all().delete()
        assert run("--tenant", other.tenant.slug)[0] == 0
        assert run("--job", str(other.id))[0] == 0
        assert run("--job", "other", "--tenant", other.tenant.slug)[0] == 0
        assert run("--job", "nightly", "--tenant", job.tenant.slug)[0] == 1

    def test_looks_at_a_stretch_of_time_only(self, job: Job) -> None:
        job.triggers.filter(scheduled_for=job.created_at + 7 * MINUTE).delete()
        late, early = ((job.created_at + minutes * MINUTE).isoformat() for minutes in (8, 6))
        assert run("--from", late)[0] == 0
        assert run("--to", early)[0] == 0
        assert run("--from", early, "--to", late)[0] == 1

    @pytest.mark.parametrize(
        "arguments", [["--job", "nightly"], ["--job", str(factories.UUID(int=7))], ["--from", "yesterday"]]
    )
    def test_refuses_what_names_nothing(self, arguments: list[str]) -> None:
        with pytest.raises(CommandError):
            run(*arguments)
