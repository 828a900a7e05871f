"""Pauses with a reason and an end, which end by themselves at that time; and backfills that are cancelled."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from django.db import connection

from jobs.actions import jobs as actions
from jobs.actions.backfill import backfill_job, cancel_backfill
from jobs.actions.bulk.pauses import BATCH, end_pauses
from jobs.core.errors import InvalidInput, NotFound
from jobs.engine.firing.materializer import materialize
from jobs.engine.notices import notifier
from jobs.explain import explain_job, explain_trigger
from jobs.explain.changes import paused_by, versions_of
from jobs.models import Change, Event, Job, JobVersion, Trigger
from jobs.store import db
from jobs.store.trail import Actor, acting_as
from tests import factories
from tests.factories import HOUR, MINUTE, SECOND, make_job, make_tenant, make_trigger, now
from tests.interfaces.api.caller import Caller
from tests.store.plans.planner import analyze, nodes, plan_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("job_types")]
Clock = Callable[[timedelta], None]
OLGA = Actor("operator", "olga")


def pause(job: Job, **given: Any) -> Job:
    return actions.pause_job(tenant=job.tenant, job_id=job.id, **given)


def status_of(job: Job) -> tuple[str, str, Any]:
    job.refresh_from_db()
    return job.status, job.status_reason, job.paused_until


class TestPause:
    def test_keeps_its_reason_and_its_end(self) -> None:
        job, until = make_job(), now() + HOUR
        pause(job, reason="The partner moves.", until=until)
        assert status_of(job) == ("paused", "The partner moves.", until)
        assert end_pauses() is False
        assert status_of(job)[0] == "paused"

    def test_of_a_paused_job_takes_on_another_end(self) -> None:
        job, until = make_job(), now() + 2 * HOUR
        pause(job, reason="Why.", until=until - HOUR)
        pause(job, reason="Longer.", until=until)
        assert status_of(job)[1:] == ("Longer.", until)
        pause(job)
        assert status_of(job)[1] == "Longer."

    @pytest.mark.parametrize("until", [-SECOND, timedelta(), timedelta(days=365 * 90)])
    def test_refuses_an_end_that_is_past_or_too_far(self, until: timedelta) -> None:
        job = make_job()
        with pytest.raises(InvalidInput) as refused:
            pause(job, until=now() + until)
        assert list(refused.value.errors) == ["until"]
        assert status_of(job) == ("active", "", None)

    @pytest.mark.parametrize("reason", ["x" * 501, "nul\0", "\u202etxt"])
    def test_refuses_a_reason_that_cannot_be_shown(self, reason: str) -> None:
        job = make_job()
        with pytest.raises(InvalidInput) as refused:
            pause(job, reason=reason)
        assert list(refused.value.errors) == ["reason"]
        assert status_of(job)[0] == "active"

    @pytest.mark.parametrize("verb", [actions.resume_job, actions.cancel_job, actions.delete_job])
    def test_leaves_no_end_behind(self, verb: Callable[..., Job]) -> None:
        job = make_job()
        pause(job, until=now() + HOUR)
        verb(tenant=job.tenant, job_id=job.id)
        assert status_of(job)[2] is None

    def test_is_explained_with_its_end(self) -> None:
        job, until = make_job(), now() + HOUR
        trigger = make_trigger(job)
        pause(job, reason="The partner moves.", until=until)
        summary = explain_job(tenant=job.tenant, job_id=job.id).summary
        assert summary.startswith("The job is paused until 2")
        assert summary.endswith(": The partner moves. Nothing of it starts.")
        gate = next(
            gate
            for gate in explain_trigger(tenant=job.tenant, trigger_id=trigger.id).gates
            if gate.name == "job"
        )
        assert (gate.passed, gate.opens_at) == (False, until)

    def test_is_on_the_trail_and_in_the_feed_and_makes_no_notice(self) -> None:
        job = make_job(notify={"on": ["paused"], "url": "https://ops.example/hook"})
        with acting_as(OLGA):
            pause(job, reason="Why.", until=now() + HOUR)
        assert paused_by(job) == ""  # as the row was before
        job.refresh_from_db()
        assert paused_by(job) == "operator olga"
        [change] = Change.objects.filter(object_id=str(job.id), changes__has_key="status")
        assert change.changes["status_reason"] == ["", "Why."]
        event = Event.objects.get(kind="job.paused")
        assert (event.data["reason"], event.data["requested"]) == ("Why.", True)
        assert event.data["until"]
        asked = SimpleNamespace(
            kind="job.paused", data=event.data, own_notify=job.notify, tenant_notify=None, xid=1, id=1
        )
        assert notifier._of(asked, count=1) == []


@pytest.fixture
def bounded() -> Iterator[None]:
    """This connection waits for locks as long as a beat's does."""
    db.bound(statements=timedelta(minutes=1))
    yield
    db.disconnect()


class TestTheEnd:
    def test_resumes_the_job_in_the_engines_name(self, clock: Clock) -> None:
        job = make_job()
        pause(job, reason="Why.", until=now() + HOUR)
        clock(HOUR + SECOND)
        assert end_pauses() is True
        assert status_of(job) == ("active", "", None)
        assert Change.objects.filter(object_id=str(job.id)).latest("id").actor_kind == "engine"
        assert Event.objects.filter(kind="job.resumed").count() == 1
        assert end_pauses() is False

    def test_lets_run_what_falls_due_after_it_however_late_a_beat_comes_to_it(self, clock: Clock) -> None:
        job = actions.create_job(
            tenant=make_tenant(),
            definition={
                "name": "minutely",
                "job_type": "noop",
                "schedule": {"type": "interval", "every_seconds": 60},
                "misfire_policy": "fire_all",
                "catchup_window_seconds": 86_400,
            },
        )
        end = job.created_at + timedelta(minutes=10, seconds=30)
        clock(30 * SECOND)
        pause(job, until=end)
        clock(timedelta(minutes=13, seconds=10))
        end_pauses()
        job.refresh_from_db()
        assert job.next_fire_at == job.created_at + 11 * MINUTE
        assert JobVersion.objects.filter(job=job).latest("valid_from").valid_from == end
        materialize(leadership=factories.ANYONE, look_ahead=SECOND, limit=100)
        states = Trigger.objects.filter(job=job).order_by("scheduled_for").values_list("state", "reason")
        skipped = [state for state in states if state == ("skipped", "paused")]
        assert len(skipped) == 10
        assert ("pending", "") in states

    def test_of_many_is_one_tenants_batch_at_a_time(self, clock: Clock) -> None:
        one, other = make_tenant(), make_tenant()
        of_one = [make_job(one) for _ in range(3)]
        of_other = [make_job(other) for _ in range(2)]
        for nth, job in enumerate([*of_one, *of_other]):
            pause(job, until=now() + HOUR + nth * SECOND)
        clock(2 * HOUR)
        assert len(of_one) < BATCH
        assert end_pauses() is True
        assert [status_of(job)[0] for job in (*of_one, *of_other)] == ["active"] * 3 + ["paused"] * 2
        assert end_pauses() is True
        assert {status_of(job)[0] for job in of_other} == {"active"}

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.usefixtures("bounded")
    def test_does_not_wait_behind_a_tenant_that_somebody_holds(self, clock: Clock) -> None:
        held, free = make_job(), make_job()
        pause(held, until=now() + HOUR)
        pause(free, until=now() + HOUR + SECOND)
        clock(2 * HOUR)
        with psycopg.connect(**connection.get_connection_params()) as other:
            other.execute("SELECT FROM tenants_tenant WHERE id = %s FOR UPDATE", [held.tenant_id])
            assert end_pauses() is True
            assert end_pauses() is False
            assert [status_of(job)[0] for job in (held, free)] == ["paused", "active"]
            other.rollback()
        assert end_pauses() is True
        assert status_of(held)[0] == "active"

    def test_leaves_a_job_paused_that_can_no_longer_fire(self, clock: Clock) -> None:
        job = make_job()
        pause(job, until=now() + HOUR)
        Job.objects.filter(id=job.id).update(
            schedule_type="cron", cron_expression="0 0 30 2 *", interval=None
        )
        clock(2 * HOUR)
        end_pauses()
        status, reason, until = status_of(job)
        assert (status, bool(reason), until) == ("paused", True, None)
        assert end_pauses() is False

    def test_reads_no_pause_that_ends_later(self) -> None:
        job = make_job(status="paused", paused_until=now() + HOUR)
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO jobs_job SELECT (jsonb_populate_record(j, jsonb_build_object('id', gen_random_uuid(), "
                "'name', 'bulk-' || n))).* FROM jobs_job j, generate_series(1, 5000) n WHERE id = %s",
                [job.id],
            )
        analyze("jobs_job")
        plan = plan_of(db.queries("jobs")["pauses_over"], {"but": [], "limit": 250})
        [read] = [node for node in nodes(plan) if "Relation Name" in node]
        assert read["Index Name"] == "job_paused_until"
        assert "paused_until" in read["Index Cond"]


@pytest.fixture
def owner() -> Caller:
    return Caller(make_tenant())


class TestOverTheApi:
    def test_a_job_is_paused_for_a_reason_until_an_instant(self, owner: Caller) -> None:
        job = make_job(owner.tenant)
        body = {"reason": "The partner moves.", "until": "2090-01-31T06:00:00Z"}
        shown = owner.post(f"/jobs/{job.id}/pause", body).json()
        assert (shown["status"], shown["status_reason"], shown["paused_until"]) == (
            "paused",
            "The partner moves.",
            "2090-01-31T06:00:00Z",
        )

    @pytest.mark.parametrize(
        "body", [{"until": "2020-01-01T00:00:00Z"}, {"until": "soon"}, {"reason": 7}, {"why": "x"}]
    )
    def test_what_makes_no_sense_is_refused(self, body: dict[str, Any], owner: Caller) -> None:
        job = make_job(owner.tenant)
        assert owner.post(f"/jobs/{job.id}/pause", body).status_code == 400
        assert status_of(job)[0] == "active"

    def test_the_outsider_pauses_nothing(self, owner: Caller) -> None:
        job = make_job(owner.tenant)
        assert Caller(make_tenant()).post(f"/jobs/{job.id}/pause", {"reason": "x"}).status_code == 404
        assert status_of(job)[0] == "active"


class TestCancelledBackfill:
    def begun(self) -> tuple[Job, Any]:
        at = now()
        job = make_job(interval=MINUTE, created_at=at - 3 * HOUR)
        stretch = {"start": at - 2 * HOUR, "end": at - HOUR}
        _, backfill = backfill_job(tenant=job.tenant, job_id=job.id, **stretch)
        assert backfill is not None
        return job, backfill

    def test_makes_nothing_more_and_is_on_the_trail(self) -> None:
        job, backfill = self.begun()
        ended = cancel_backfill(tenant=job.tenant, job_id=job.id, backfill_id=backfill.id)
        assert ended.finished_at is not None
        assert Change.objects.filter(object_id=str(job.id), action="cancelled").count() == 1
        again = cancel_backfill(tenant=job.tenant, job_id=job.id, backfill_id=backfill.id)
        assert again.finished_at == ended.finished_at

    def test_may_be_asked_for_again(self) -> None:
        job, backfill = self.begun()
        cancel_backfill(tenant=job.tenant, job_id=job.id, backfill_id=backfill.id)
        _, another = backfill_job(
            tenant=job.tenant, job_id=job.id, start=backfill.from_at, end=backfill.until_at
        )
        assert another is not None
        assert another.id != backfill.id

    def test_of_another_job_is_not_found(self) -> None:
        _, backfill = self.begun()
        other = make_job()
        with pytest.raises(NotFound):
            cancel_backfill(tenant=other.tenant, job_id=other.id, backfill_id=backfill.id)
        backfill.refresh_from_db()
        assert backfill.finished_at is None


class TestVersions:
    def test_are_read_back_from_the_trail(self) -> None:
        with acting_as(OLGA):
            job = actions.create_job(
                tenant=make_tenant(),
                definition={
                    "name": "a",
                    "job_type": "noop",
                    "schedule": {"type": "interval", "every_seconds": 60},
                },
            )
            for changes in (
                {"priority": "high"},
                {"schedule": {"type": "cron", "cron": "0 2 * * *", "timezone": "Asia/Kolkata"}},
                {"payload": {"sleep_ms": 1}, "timeout_seconds": 5},
            ):
                job = actions.update_job(tenant=job.tenant, job_id=job.id, changes=changes)
        job.refresh_from_db()
        versions = versions_of(job)
        assert [version.number for version in versions] == [4, 3, 2, 1]
        assert versions[0].changed["timeout_seconds"] == (90, 5)
        assert versions[0].changed["payload"] is None
        assert versions[1].changed["schedule"][0]["every_seconds"] == 60
        assert versions[1].changed["schedule"][1]["cron"] == "0 2 * * *"
        assert versions[2].changed == {"priority": ("medium", "high")}
        assert versions[3].definition["schedule"]["type"] == "interval"
        assert versions[3].unkept == {"payload"}
        assert {version.by for version in versions[:3]} == {"operator olga"}

    def test_restoring_one_is_an_edit_with_its_definition(self) -> None:
        job = actions.create_job(
            tenant=make_tenant(),
            definition={
                "name": "a",
                "job_type": "noop",
                "labels": {"team": "x"},
                "schedule": {"type": "interval", "every_seconds": 60},
            },
        )
        changes = {"schedule": {"type": "cron", "cron": "0 2 * * *"}, "labels": {"team": None}}
        job = actions.update_job(tenant=job.tenant, job_id=job.id, changes=changes)
        job.refresh_from_db()
        first = versions_of(job)[-1]
        restored = actions.update_job(
            tenant=job.tenant,
            job_id=job.id,
            changes=first.definition,
            whole=True,
            expected_version=job.version,
        )
        assert (restored.version, restored.interval, restored.labels) == (3, MINUTE, {"team": "x"})
