"""Backfills and runs with a payload of their own, from the request to the trigger."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from jobs.engine.firing.catchup import CatchUps
from jobs.engine.firing.pace import Pace
from jobs.models import CatchUp, Change, Job, SkippedRange, Trigger
from jobs.store import jobs
from tests import factories
from tests.factories import ANYONE, HOUR, MINUTE, claim, make_job, make_trigger, utc
from tests.interfaces.api.caller import Caller, faulty_fields, noop_job

pytestmark = pytest.mark.django_db
DAY = 24 * HOUR
START, END = utc(2025, 3, 1), utc(2025, 3, 1, 2)
OTHER_SCHEDULE = {"schedule": {"cron": "*/20 * * * *"}}
STRETCH = {"start": "2025-03-01T00:00:00Z", "end": "2025-03-01T02:00:00Z"}


@pytest.fixture
def job(owner: Caller) -> Job:
    """A job that fires every ten minutes, whenever it was created."""
    cron = {"schedule_type": "cron", "cron_expression": "*/10 * * * *", "interval": None}
    return make_job(owner.tenant, **cron)


@pytest.fixture
def catch_up() -> Callable[..., None]:
    """Let the leader work on the backfills for some seconds."""

    def work(*, seconds: int = 30) -> None:
        time = 0.0
        catch_ups = CatchUps(pace=Pace(monotonic=lambda: time))
        for second in range(seconds):
            time = float(second)
            catch_ups.step(leadership=ANYONE, budget=timedelta(seconds=30))
            Trigger.objects.filter(origin="backfill", state="pending").update(state="succeeded")

    return work


def backfilled(job: Job) -> list[datetime]:
    ran = Trigger.objects.filter(job=job, origin="backfill").order_by("id")
    return list(ran.values_list("scheduled_for", flat=True))


class TestABackfill:
    def test_runs_every_firing_of_the_stretch_in_order(
        self, owner: Caller, job: Job, catch_up: Callable[..., None]
    ) -> None:
        answer = owner.post(f"/jobs/{job.id}/backfill", STRETCH)
        assert (answer.status_code, answer.json()["count"], answer.json()["finished_at"]) == (202, 13, None)
        catch_up()
        assert backfilled(job) == [START + 10 * MINUTE * k for k in range(13)]
        [listed] = owner.get(f"/jobs/{job.id}/backfills").json()["results"]
        assert (listed["id"], listed["materialized"]) == (answer.json()["id"], 13)
        assert listed["finished_at"] is not None
        assert listed["cursor"] == STRETCH["end"]

    def test_says_beforehand_how_many_there_are(self, owner: Caller, job: Job) -> None:
        make_trigger(job, "succeeded", scheduled_for=START + HOUR)
        answer = owner.post(f"/jobs/{job.id}/backfill", {**STRETCH, "dry_run": True})
        assert (answer.status_code, answer.json()) == (200, {**STRETCH, "count": 13, "existing": 1})
        assert not CatchUp.objects.exists()

    def test_asked_for_twice_is_one(self, owner: Caller, job: Job, catch_up: Callable[..., None]) -> None:
        first = owner.post(f"/jobs/{job.id}/backfill", STRETCH).json()
        assert owner.post(f"/jobs/{job.id}/backfill", STRETCH).json() == first
        catch_up()
        again = owner.post(f"/jobs/{job.id}/backfill", STRETCH).json()
        assert (again["id"], again["materialized"]) == (first["id"], 13)
        catch_up()
        assert len(backfilled(job)) == 13

    def test_leaves_firings_that_have_a_trigger_alone(
        self, owner: Caller, job: Job, catch_up: Callable[..., None]
    ) -> None:
        kept = make_trigger(job, "skipped", scheduled_for=START + HOUR)
        before = factories.row(kept)
        owner.post(f"/jobs/{job.id}/backfill", STRETCH)
        catch_up()
        assert factories.row(kept) == before
        assert len(backfilled(job)) == 12

    def test_of_an_overlapping_stretch_doubles_nothing(
        self, owner: Caller, job: Job, catch_up: Callable[..., None]
    ) -> None:
        owner.post(f"/jobs/{job.id}/backfill", STRETCH)
        owner.post(f"/jobs/{job.id}/backfill", {**STRETCH, "end": "2025-03-01T03:00:00Z"})
        catch_up(seconds=40)
        assert sorted(backfilled(job)) == [START + 10 * MINUTE * k for k in range(19)]

    def test_is_paced(self, owner: Caller, job: Job, catch_up: Callable[..., None]) -> None:
        owner.post(f"/jobs/{job.id}/backfill", STRETCH)
        catch_up(seconds=5)
        assert len(backfilled(job)) == 5

    @pytest.mark.parametrize(
        ("changes", "field"),
        [
            ({"start": None}, "start"),
            ({"end": None}, "end"),
            ({"start": "2025-03-01"}, "start"),
            ({"start": STRETCH["end"]}, "end"),
            ({"start": "1999-01-01T00:00:00Z"}, "start"),
            ({"end": "2090-01-01T00:00:00Z"}, "end"),
            ({"end": "2025-06-01T00:00:00Z"}, "end"),
            ({"start": "2025-03-01T00:01:00Z", "end": "2025-03-01T00:09:00Z"}, "start"),
            ({"dry_run": "yes"}, "dry_run"),
            ({"speed": 9}, "speed"),
        ],
    )
    def test_that_makes_no_sense_is_refused_by_field(
        self, owner: Caller, job: Job, changes: dict[str, Any], field: str
    ) -> None:
        assert faulty_fields(owner.post(f"/jobs/{job.id}/backfill", {**STRETCH, **changes})) == {field}
        assert not CatchUp.objects.exists()

    def test_of_more_than_the_tenant_may_ask_for_names_the_cap(self, owner: Caller, job: Job) -> None:
        owner.tenant.max_backfill = 12
        owner.tenant.save()
        answer = owner.post(f"/jobs/{job.id}/backfill", {**STRETCH, "dry_run": True})
        assert faulty_fields(answer) == {"end"}
        assert "more than 12 firings" in answer.json()["errors"][0]["message"]

    def test_of_a_cancelled_job_is_refused(self, owner: Caller, job: Job) -> None:
        owner.post(f"/jobs/{job.id}/cancel")
        assert owner.post(f"/jobs/{job.id}/backfill", STRETCH).status_code == 409

    def test_waits_while_its_job_is_paused(
        self, owner: Caller, job: Job, catch_up: Callable[..., None]
    ) -> None:
        owner.post(f"/jobs/{job.id}/backfill", STRETCH)
        owner.post(f"/jobs/{job.id}/pause")
        catch_up()
        assert backfilled(job) == []
        owner.post(f"/jobs/{job.id}/resume")
        catch_up()
        assert len(backfilled(job)) == 13

    def test_ends_when_its_job_is_removed(
        self, owner: Caller, job: Job, catch_up: Callable[..., None]
    ) -> None:
        owner.post(f"/jobs/{job.id}/backfill", STRETCH)
        catch_up(seconds=3)
        owner.call("DELETE", f"/jobs/{job.id}")
        catch_up()
        assert (len(backfilled(job)), CatchUp.objects.filter(finished_at=None).count()) == (3, 0)
        assert not SkippedRange.objects.exists()

    def test_goes_on_by_the_schedule_it_began_under_when_its_job_is_edited(
        self, owner: Caller, job: Job, catch_up: Callable[..., None]
    ) -> None:
        owner.post(f"/jobs/{job.id}/backfill", STRETCH)
        catch_up(seconds=3)
        owner.patch(f"/jobs/{job.id}", OTHER_SCHEDULE)
        catch_up()
        assert backfilled(job) == [START + 10 * MINUTE * k for k in range(13)]
        versions = Trigger.objects.filter(job=job, origin="backfill").order_by("id")
        assert list(versions.values_list("job_version", flat=True)) == [1] * 3 + [2] * 10

    def test_goes_on_when_its_job_is_renamed(self, owner: Caller, catch_up: Callable[..., None]) -> None:
        schedule = {"type": "cron", "cron": "*/10 * * * *"}
        job = Job.objects.get(id=owner.post("/jobs", noop_job(schedule=schedule)).json()["id"])
        owner.post(f"/jobs/{job.id}/backfill", STRETCH)
        owner.patch(f"/jobs/{job.id}", {"name": "other"})
        catch_up()
        assert len(backfilled(job)) == 13


class TestBeyondRetention:
    """Firings older than ``CARILLON_HISTORY_DAYS`` may have run and left no record: they would run again."""

    @pytest.fixture
    def old(self, owner: Caller) -> Job:
        cron = {"schedule_type": "cron", "cron_expression": "0 3 * * *", "interval": None}
        return make_job(owner.tenant, created_at=factories.now() - 200 * DAY, **cron)

    @pytest.fixture
    def stretch(self) -> dict[str, Any]:
        """Two weeks, the first of which is past the 90 days of history."""
        start, end = (f"{factories.now() - days * DAY:%Y-%m-%dT00:00:00Z}" for days in (97, 83))
        return {"start": start, "end": end}

    @pytest.mark.parametrize("dry_run", [False, True])
    def test_a_backfill_is_refused_by_its_start(
        self, owner: Caller, old: Job, stretch: dict[str, Any], dry_run: bool
    ) -> None:
        answer = owner.post(f"/jobs/{old.id}/backfill", {**stretch, "dry_run": dry_run})
        assert faulty_fields(answer) == {"start"}
        message = answer.json()["errors"][0]["message"]
        assert "90 days" in message
        assert "beyond_retention" in message
        assert not CatchUp.objects.exists()

    def test_who_says_so_explicitly_gets_it_and_is_on_the_audit_trail(
        self, owner: Caller, old: Job, stretch: dict[str, Any], catch_up: Callable[..., None]
    ) -> None:
        wanted = {**stretch, "beyond_retention": True}
        assert owner.post(f"/jobs/{old.id}/backfill", {**wanted, "dry_run": True}).status_code == 200
        assert not Change.objects.filter(object_id=str(old.id), action="updated").exists()
        assert owner.post(f"/jobs/{old.id}/backfill", wanted).status_code == 202
        catch_up()
        assert len(backfilled(old)) == 14
        [change] = Change.objects.filter(object_id=str(old.id), action="updated")
        assert (change.actor_kind, change.tenant_id, change.name) == ("api_key", old.tenant_id, old.name)
        assert change.changes == {"backfill_beyond_retention": [None, wanted["start"] + "/" + wanted["end"]]}

    def test_a_stretch_that_history_covers_needs_no_leave(
        self, owner: Caller, old: Job, stretch: dict[str, Any]
    ) -> None:
        start = f"{factories.now() - 80 * DAY:%Y-%m-%dT00:00:00Z}"
        end = f"{factories.now() - DAY:%Y-%m-%dT00:00:00Z}"
        assert owner.post(f"/jobs/{old.id}/backfill", {"start": start, "end": end}).status_code == 202
        assert not Change.objects.filter(object_id=str(old.id), action="updated").exists()


class TestAnOutageNotYetDecided:
    @pytest.fixture
    def left(self, job: Job) -> CatchUp:
        """All but the first half hour of the stretch is undecided. The newest firing seen so far will run."""
        return CatchUp.objects.create(
            job=job,
            tenant_id=job.tenant_id,
            job_version=1,
            origin="outage",
            policy="fire_once",
            from_at=START,
            until_at=END,
            cursor=START + 30 * MINUTE,
            tail=[START + 30 * MINUTE],
            window_start=START + HOUR,
            max_catchup=100,
            created_at=END,
        )

    def test_is_skipped_by_the_leader_when_its_job_is_removed(
        self, owner: Caller, job: Job, left: CatchUp, catch_up: Callable[..., None]
    ) -> None:
        owner.call("DELETE", f"/jobs/{job.id}")
        assert not SkippedRange.objects.exists()
        catch_up(seconds=1)
        [skipped] = SkippedRange.objects.all()
        assert (skipped.count, skipped.reason, skipped.job_version) == (10, "misfire", 1)
        assert (skipped.from_at, skipped.until_at) == (START + 30 * MINUTE, END)
        left.refresh_from_db()
        assert left.finished_at is not None

    def test_is_decided_by_its_own_schedule_when_its_job_is_edited(
        self, owner: Caller, job: Job, left: CatchUp, catch_up: Callable[..., None]
    ) -> None:
        changes = {**OTHER_SCHEDULE, "misfire_policy": "skip", "catchup_window_seconds": 86_400}
        assert owner.patch(f"/jobs/{job.id}", changes).status_code == 200
        catch_up(seconds=3)
        ranges = SkippedRange.objects.order_by("from_at").values_list("reason", "count", "job_version")
        assert list(ranges) == [("misfire", 3, 1), ("coalesced", 6, 1)]
        late = Trigger.objects.get(job=job, origin="catchup")
        assert (late.scheduled_for, late.job_version) == (END, 2)

    def test_keeps_its_job_from_being_completed(self, job: Job, left: CatchUp) -> None:
        assert jobs.complete(after=UUID(int=0), limit=10)[1] == 0
        CatchUp.objects.update(finished_at=END)
        assert jobs.complete(after=UUID(int=0), limit=10)[1] == 1


class TestRunNow:
    def test_takes_a_payload_for_one_trigger(self, owner: Caller) -> None:
        urls = {name: {"url": f"https://{name}.example"} for name in ("job", "caller")}
        job = make_job(owner.tenant, job_type="webhook", payload=urls["job"])
        own = owner.post(f"/jobs/{job.id}/run", {"payload": urls["caller"]})
        plain = owner.post(f"/jobs/{job.id}/run")
        assert [answer.status_code for answer in (own, plain)] == [201, 201]
        assert [answer.json()["payload"] for answer in (own, plain)] == [urls["caller"], None]
        factories.dispatch(types=["webhook"])
        triggers = [Trigger.objects.get(id=answer.json()["id"]) for answer in (own, plain)]
        assert [claim(trigger)[0].payload for trigger in triggers] == [urls["caller"], urls["job"]]

    def test_checks_it_like_the_jobs(self, owner: Caller) -> None:
        job = make_job(owner.tenant, job_type="webhook", payload={"url": "https://example.org"})
        answer = owner.post(f"/jobs/{job.id}/run", {"payload": {"url": 5}})
        assert faulty_fields(answer) == {"payload.url"}
        assert faulty_fields(owner.post(f"/jobs/{job.id}/run", {"payload": [1]})) == {"payload"}
        assert faulty_fields(owner.post(f"/jobs/{job.id}/run", {"other": 1})) == {"other"}
        owner.tenant.max_payload_bytes = 10
        owner.tenant.save()
        assert faulty_fields(
            owner.post(f"/jobs/{job.id}/run", {"payload": {"url": "https://a.example"}})
        ) == {"payload"}
        assert not Trigger.objects.exists()
