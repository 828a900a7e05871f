"""What people do to jobs, with real triggers in every state (DESIGN §4, §9 "Edits")."""

from datetime import UTC, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.actions import jobs as actions
from jobs.actions.definition import representation
from jobs.actions.jobs import EditedMeanwhile
from jobs.core.errors import Conflict, InvalidInput, NotFound, QuotaExceeded
from jobs.core.policies import Delivery
from jobs.core.schedule import jitter_offset
from jobs.core.states import TriggerState
from jobs.engine.firing.materializer import materialize
from jobs.models import CatchUp, Change, Job, Trigger
from tenants.models import Tenant
from tests import factories
from tests.factories import HOUR, MINUTE, SECOND, make_job, make_tenant, make_trigger, now, row, state_of

DAY = 24 * HOUR
EVERY_MINUTE = {"type": "interval", "every_seconds": 60}


def definition(**changes: Any) -> dict[str, Any]:
    return {"name": "nightly", "job_type": "noop", "schedule": EVERY_MINUTE} | changes


def create(tenant: Tenant | None = None, **changes: Any) -> Job:
    return actions.create_job(tenant=tenant or make_tenant(), definition=definition(**changes))


def in_every_state(job: Job) -> dict[str, Trigger]:
    """One trigger of the job in each state, all of them due."""
    return {str(state): make_trigger(job, str(state)) for state in TriggerState}


def step_beat() -> None:
    materialize(leadership=factories.ANYONE, look_ahead=MINUTE, limit=100)


pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("job_types")]
ENDED = ("succeeded", "dead", "skipped", "cancelled")


class TestCreate:
    def test_fills_in_what_the_caller_left_out(self) -> None:
        job = create()
        assert (job.status, job.version, job.priority) == ("active", 1, 2)
        assert job.timeout == timedelta(seconds=90)  # of the job type
        assert (job.overlap_policy, job.misfire_policy, job.delivery) == (
            "skip",
            "fire_once",
            "at_least_once",
        )
        assert job.next_fire_at == job.created_at + MINUTE

    def test_makes_a_one_time_job_fire_whatever_its_age(self) -> None:
        assert create(schedule={"type": "immediate"}).misfire_policy == "fire_all"

    def test_takes_the_time_from_the_database(self, clock: Any) -> None:
        clock(24 * HOUR)
        job = create(schedule={"type": "immediate"})
        assert abs(job.created_at - now()) < MINUTE
        assert job.next_fire_at == job.created_at

    def test_reads_cron_in_its_zone(self) -> None:
        job = create(schedule={"type": "cron", "cron": "0 2 * * *", "timezone": "Asia/Kolkata"})
        assert job.next_fire_at is not None
        assert f"{job.next_fire_at.astimezone(UTC):%H:%M}" == "20:30"

    def test_lets_a_slightly_past_run_at_fire_at_once(self) -> None:
        run_at = now() - 30 * SECOND
        job = create(schedule={"type": "once", "run_at": run_at.isoformat()})
        assert job.next_fire_at == run_at
        step_beat()
        assert [trigger.scheduled_for for trigger in job.triggers.all()] == [run_at]

    def test_refuses_a_run_at_of_two_minutes_ago(self) -> None:
        run_at = now() - 2 * MINUTE
        with pytest.raises(InvalidInput) as refused:
            create(schedule={"type": "once", "run_at": run_at.isoformat()})
        assert list(refused.value.errors) == ["schedule.run_at"]

    def test_names_a_one_time_job_that_has_no_name(self) -> None:
        tenant = make_tenant()
        names = {create(tenant, name=None, schedule={"type": "immediate"}).name for _ in range(3)}
        assert len(names) == 3
        assert all(name.startswith("noop-") for name in names)

    def test_refuses_a_name_that_is_taken_and_frees_it_with_deletion(self) -> None:
        tenant = make_tenant()
        job = create(tenant)
        with pytest.raises(Conflict) as refused:
            create(tenant)
        assert refused.value.field == "name"
        assert create().name == job.name  # another tenant's
        actions.delete_job(tenant=tenant, job_id=job.id)
        assert create(tenant).id != job.id

    def test_holds_the_quota_of_jobs(self) -> None:
        tenant = make_tenant(max_jobs=2)
        jobs = [create(tenant, name=f"job {number}") for number in range(2)]
        with pytest.raises(QuotaExceeded) as refused:
            create(tenant, name="one more")
        assert (refused.value.quota, refused.value.limit, refused.value.used) == ("max_jobs", 2, 2)
        actions.delete_job(tenant=tenant, job_id=jobs[0].id)
        assert create(tenant, name="one more")

    def test_gives_back_what_it_was_given(self) -> None:
        given = definition(
            schedule={
                "type": "cron",
                "cron": "0 2 * * mon",
                "timezone": "Asia/Calcutta",
                "jitter_seconds": 5,
            },
            payload={"sleep_ms": 3},
            priority="critical",
            timeout_seconds=1.5,
            retry_policy={"max_attempts": 4, "backoff": "exponential", "initial_delay_seconds": 30},
            delivery="at_most_once",
        )
        shown = representation(actions.create_job(tenant=make_tenant(), definition=given))
        assert shown["schedule"]["cron"] == "0 2 * * MON"
        assert shown["schedule"]["timezone"] == "Asia/Kolkata"
        assert {name: shown[name] for name in ("payload", "priority", "timeout_seconds", "delivery")} == {
            name: given[name] for name in ("payload", "priority", "timeout_seconds", "delivery")
        }
        assert given["retry_policy"].items() <= shown["retry_policy"].items()

    @pytest.mark.parametrize("delivery", Delivery)
    def test_takes_every_delivery(self, delivery: Delivery) -> None:
        job = actions.create_job(tenant=make_tenant(), definition=definition(delivery=str(delivery)))
        assert representation(job)["delivery"] == delivery


class TestEdit:
    def test_hands_what_is_due_to_the_new_version_and_withdraws_what_lies_ahead(self) -> None:
        job = make_job(next_fire_at=now() + 10 * MINUTE)
        triggers = in_every_state(job)
        ahead = make_trigger(job, scheduled_for=now() + MINUTE)
        edited = actions.update_job(tenant=job.tenant, job_id=job.id, changes={"priority": "critical"})
        assert edited.version == 2
        assert row(ahead) == {}
        after = {name: row(trigger) for name, trigger in triggers.items()}
        assert after["queued"]["state"] == "pending"
        waiting = [after[name] for name in ("pending", "queued", "retrying")]
        assert {(trigger["job_version"], trigger["priority"]) for trigger in waiting} == {(2, 0)}
        assert [(after[name]["state"], after[name]["job_version"]) for name in ("running", *ENDED)] == [
            (name, 1) for name in ("running", *ENDED)
        ]

    def test_materializes_the_firings_ahead_once_more(self) -> None:
        job = create(schedule={"type": "interval", "every_seconds": 10})
        step_beat()
        before = [trigger.scheduled_for for trigger in job.triggers.order_by("scheduled_for")]
        actions.update_job(tenant=job.tenant, job_id=job.id, changes={"payload": {"sleep_ms": 1}})
        assert not job.triggers.exists()
        step_beat()
        after = list(job.triggers.order_by("scheduled_for"))
        assert [trigger.scheduled_for for trigger in after][: len(before)] == before
        assert {trigger.job_version for trigger in after} == {2}

    def test_records_what_fell_due_and_no_beat_had_materialized(self, clock: Any) -> None:
        job = create(schedule={"type": "interval", "every_seconds": 60})
        clock(150 * SECOND)
        actions.update_job(tenant=job.tenant, job_id=job.id, changes={"schedule": {"every_seconds": 3600}})
        assert [trigger.scheduled_for for trigger in job.triggers.order_by("scheduled_for")] == [
            job.created_at + MINUTE,
            job.created_at + 2 * MINUTE,
        ]

    def test_of_an_immediate_job_before_any_beat_saw_it_does_not_lose_it(self) -> None:
        job = create(schedule={"type": "immediate"})
        actions.update_job(tenant=job.tenant, job_id=job.id, changes={"payload": {"sleep_ms": 1}})
        step_beat()
        (trigger,) = job.triggers.all()
        assert (trigger.scheduled_for, trigger.job_version) == (job.created_at, 2)

    def test_of_the_name_alone_leaves_every_firing_where_it_is(self) -> None:
        job = create()
        triggers = [*in_every_state(job).values(), make_trigger(job, scheduled_for=now() + MINUTE)]
        before = [row(trigger) | {"job_version": 0} for trigger in triggers]
        edited = actions.update_job(tenant=job.tenant, job_id=job.id, changes={"name": "renamed"})
        assert (edited.name, edited.version, edited.next_fire_at) == ("renamed", 2, job.next_fire_at)
        assert [row(trigger) | {"job_version": 0} for trigger in triggers] == before

    def test_that_changes_nothing_makes_no_version(self) -> None:
        job = create()
        shown = representation(job)
        same = actions.update_job(tenant=job.tenant, job_id=job.id, changes={"schedule": shown["schedule"]})
        assert representation(same) == shown

    def test_is_a_merge_patch(self) -> None:
        job = create(payload={"sleep_ms": 5, "fail": True}, priority="high", timeout_seconds=7)
        changes = {"payload": {"fail": None}, "timeout_seconds": None}
        edited = actions.update_job(tenant=job.tenant, job_id=job.id, changes=changes)
        assert edited.payload == {"sleep_ms": 5}
        assert (edited.timeout, edited.priority) == (timedelta(seconds=90), 1)

    def test_may_give_the_whole_definition(self) -> None:
        job = create(payload={"sleep_ms": 5}, priority="high")
        whole = definition(payload={"fail": True})
        edited = actions.update_job(tenant=job.tenant, job_id=job.id, changes=whole, whole=True)
        assert (edited.payload, edited.priority) == ({"fail": True}, 2)

    def test_of_the_type_drops_what_only_the_old_one_had(self) -> None:
        job = create(schedule={"type": "cron", "cron": "0 2 * * *", "timezone": "Asia/Kolkata"})
        edited = actions.update_job(tenant=job.tenant, job_id=job.id, changes={"schedule": EVERY_MINUTE})
        assert representation(edited)["schedule"]["every_seconds"] == 60
        assert (edited.cron_expression, edited.timezone) == ("", "UTC")
        retry = {"retry_policy": {"backoff": "fixed", "initial_delay_seconds": 3}}
        edited = actions.update_job(tenant=job.tenant, job_id=job.id, changes=retry)
        assert edited.retry_policy["backoff"] == "fixed"

    def test_cannot_make_a_job_immediate(self) -> None:
        job = create()
        with pytest.raises(InvalidInput) as refused:
            actions.update_job(tenant=job.tenant, job_id=job.id, changes={"schedule": {"type": "immediate"}})
        assert list(refused.value.errors) == ["schedule.type"]

    def test_of_another_field_does_not_mind_a_run_at_that_has_passed(self, clock: Any) -> None:
        job = create(schedule={"type": "once", "run_at": (now() + MINUTE).isoformat()})
        clock(10 * MINUTE)
        edited = actions.update_job(tenant=job.tenant, job_id=job.id, changes={"priority": "low"})
        assert (edited.priority, edited.next_fire_at) == (3, job.run_at)
        step_beat()
        assert [trigger.job_version for trigger in job.triggers.all()] == [2]

    @pytest.mark.parametrize("changes", [{"priority": "low"}, {"schedule": {"every_seconds": 30}}])
    def test_leaves_what_was_missed_to_be_caught_up_with(self, clock: Any, changes: dict[str, Any]) -> None:
        job = create(misfire_policy="fire_all")
        clock(2 * HOUR)
        step_beat()
        before = CatchUp.objects.values().get()
        actions.update_job(tenant=job.tenant, job_id=job.id, changes=changes)
        assert CatchUp.objects.values().get() == before

    @pytest.mark.parametrize("changes", [{"schedule": {"every_seconds": 30}}, {"misfire_policy": "skip"}])
    def test_hands_what_no_beat_has_seen_to_the_leader_as_the_job_was(
        self, clock: Any, changes: dict[str, Any]
    ) -> None:
        job = create(
            schedule={"type": "interval", "every_seconds": 60}, misfire_policy="backfill", max_catchup=7
        )
        clock(2 * HOUR)
        edited = actions.update_job(tenant=job.tenant, job_id=job.id, changes=changes)
        past = CatchUp.objects.get()
        assert (past.policy, past.reason, past.max_catchup, past.job_version) == ("backfill", "", 7, 1)
        assert (past.from_at, past.finished_at) == (job.created_at + MINUTE, None)
        on_time = list(job.triggers.values_list("scheduled_for", flat=True))
        assert on_time == [job.created_at + 2 * HOUR]
        assert past.until_at < on_time[0] < edited.next_fire_at

    def test_refuses_another_version_than_was_expected(self) -> None:
        job = create()
        for version in (0, 2):
            with pytest.raises(EditedMeanwhile):
                actions.update_job(
                    tenant=job.tenant, job_id=job.id, changes={"priority": "low"}, expected_version=version
                )
        changed = actions.update_job(
            tenant=job.tenant, job_id=job.id, changes={"priority": "low"}, expected_version=1
        )
        assert changed.version == 2

    def test_refuses_a_name_that_is_taken_and_changes_nothing(self) -> None:
        tenant = make_tenant()
        create(tenant)
        other = create(tenant, name="other")
        waiting = make_trigger(other, "queued")
        with pytest.raises(Conflict) as refused:
            actions.update_job(tenant=tenant, job_id=other.id, changes={"name": "nightly", "priority": "low"})
        assert refused.value.field == "name"
        assert state_of(waiting) == ("queued", "")

    @pytest.mark.parametrize("status", ["cancelled", "completed"])
    def test_refuses_a_job_that_is(self, status: str) -> None:
        job = make_job(status=status)
        with pytest.raises(Conflict):
            actions.update_job(tenant=job.tenant, job_id=job.id, changes={"priority": "low"})


class TestPause:
    def test_stops_what_waits_and_lets_finish_what_runs(self) -> None:
        job = make_job()
        triggers = in_every_state(job)
        paused = actions.pause_job(tenant=job.tenant, job_id=job.id)
        assert paused.status == "paused"
        after = {name: row(trigger) for name, trigger in triggers.items()}
        assert (after["queued"]["state"], after["queued"]["held"]) == ("pending", True)
        assert [after[name]["held"] for name in ("pending", "retrying")] == [True, True]
        assert [after[name]["state"] for name in ("running", *ENDED)] == ["running", *ENDED]
        assert not after["running"]["cancel_requested"]
        assert factories.dispatch().queued == []
        assert factories.claim(triggers["queued"]) == []

    def test_of_a_paused_job_changes_nothing(self) -> None:
        job = make_job(status="paused", status_reason="The target answered 410 Gone.")
        assert actions.pause_job(tenant=job.tenant, job_id=job.id).status_reason

    @pytest.mark.parametrize("status", ["cancelled", "completed"])
    def test_refuses_a_job_that_is(self, status: str) -> None:
        job = make_job(status=status)
        with pytest.raises(Conflict):
            actions.pause_job(tenant=job.tenant, job_id=job.id)


class TestResume:
    def test_skips_what_fell_due_meanwhile_and_goes_on_from_now(self, clock: Any) -> None:
        job = create(schedule={"type": "interval", "every_seconds": 60})
        step_beat()
        actions.pause_job(tenant=job.tenant, job_id=job.id)
        clock(210 * SECOND)
        resumed = actions.resume_job(tenant=job.tenant, job_id=job.id)
        assert resumed.next_fire_at == job.created_at + 4 * MINUTE
        recorded = [(t.scheduled_for, t.state, t.reason) for t in job.triggers.order_by("scheduled_for")]
        assert recorded == [(job.created_at + n * MINUTE, "skipped", "paused") for n in (1, 2, 3)]

    def test_of_a_short_pause_loses_nothing_that_jitter_puts_off(self, clock: Any) -> None:
        jittered = {"type": "interval", "every_seconds": 86_400, "jitter_seconds": 86_000}
        tenant, offset = make_tenant(), timedelta()
        while offset < HOUR:
            job = create(tenant, name=f"job {now()}", schedule=jittered)
            offset = jitter_offset(job.id.int, job.jitter)
        clock(DAY + SECOND)
        actions.pause_job(tenant=job.tenant, job_id=job.id)
        clock(DAY + 2 * SECOND)
        resumed = actions.resume_job(tenant=job.tenant, job_id=job.id)
        step_beat()
        [waiting] = job.triggers.all()
        first = job.created_at + DAY
        assert (waiting.scheduled_for, waiting.due_at) == (first, first + offset)
        assert (waiting.state, waiting.held) == ("pending", False)
        assert resumed.next_fire_at == first + DAY

    def test_lets_run_what_was_queued_before_the_pause(self) -> None:
        job = create()
        queued = make_trigger(job, "queued")
        actions.pause_job(tenant=job.tenant, job_id=job.id)
        actions.resume_job(tenant=job.tenant, job_id=job.id)
        assert (row(queued)["state"], row(queued)["held"]) == ("pending", False)
        assert [item.id for item in factories.dispatch().queued] == [queued.id]

    def test_leaves_what_was_missed_before_the_pause_to_the_misfire_policy(self, clock: Any) -> None:
        job = create()
        clock(2 * HOUR + 30 * SECOND)
        actions.pause_job(tenant=job.tenant, job_id=job.id)
        clock(26 * HOUR + 30 * SECOND)
        actions.resume_job(tenant=job.tenant, job_id=job.id)
        missed, paused = CatchUp.objects.order_by("from_at")
        assert (missed.policy, missed.reason, missed.from_at) == ("fire_once", "", job.created_at + MINUTE)
        assert missed.until_at < job.created_at + 2 * HOUR
        assert (paused.reason, paused.from_at) == ("paused", job.created_at + 2 * HOUR + MINUTE)
        [on_time] = job.triggers.all()
        assert (on_time.scheduled_for, on_time.state) == (job.created_at + 2 * HOUR, "pending")

    def test_puts_back_what_was_tried_or_asked_for(self) -> None:
        job = make_job()
        retrying, asked = make_trigger(job, "retrying"), make_trigger(job, origin="run_now")
        actions.pause_job(tenant=job.tenant, job_id=job.id)
        actions.resume_job(tenant=job.tenant, job_id=job.id)
        assert [(row(t)["state"], row(t)["held"]) for t in (retrying, asked)] == [
            ("retrying", False),
            ("pending", False),
        ]

    def test_clears_the_reason(self) -> None:
        job = make_job(status="paused", status_reason="The target answered 410 Gone.")
        resumed = actions.resume_job(tenant=job.tenant, job_id=job.id)
        assert (resumed.status, resumed.status_reason) == ("active", "")

    def test_refuses_a_schedule_that_cannot_be_computed(self) -> None:
        job = make_job(
            status="paused", schedule_type="cron", cron_expression="0 2 * * *", timezone="Gone/Away"
        )
        with pytest.raises(Conflict, match="Gone/Away"):
            actions.resume_job(tenant=job.tenant, job_id=job.id)

    @pytest.mark.parametrize("status", ["cancelled", "completed"])
    def test_refuses_a_job_that_is(self, status: str) -> None:
        job = make_job(status=status)
        with pytest.raises(Conflict):
            actions.resume_job(tenant=job.tenant, job_id=job.id)


class TestCancel:
    def test_ends_what_waits_and_asks_what_runs_to_stop(self) -> None:
        job = make_job(next_fire_at=now() + MINUTE)
        triggers = in_every_state(job)
        cancelled = actions.cancel_job(tenant=job.tenant, job_id=job.id)
        assert (cancelled.status, cancelled.next_fire_at) == ("cancelled", None)
        for name in ("pending", "queued", "retrying"):
            assert state_of(triggers[name]) == ("cancelled", "job_cancelled")
        assert row(triggers["running"])["cancel_requested"]
        assert [state_of(triggers[name])[0] for name in ENDED] == list(ENDED)
        assert factories.claim(triggers["queued"]) == []

    def test_records_what_no_beat_had_materialized(self, clock: Any) -> None:
        job = create()
        clock(150 * SECOND)
        actions.cancel_job(tenant=job.tenant, job_id=job.id)
        assert [(t.state, t.reason) for t in job.triggers.all()] == [("cancelled", "job_cancelled")] * 2

    def test_may_be_repeated(self) -> None:
        job = make_job(status="cancelled")
        assert actions.cancel_job(tenant=job.tenant, job_id=job.id).status == "cancelled"

    def test_cannot_be_undone(self) -> None:
        job = make_job(status="cancelled")
        for action in (actions.pause_job, actions.resume_job, actions.run_job_now):
            with pytest.raises(Conflict):
                action(tenant=job.tenant, job_id=job.id)


class TestDelete:
    def test_cancels_hides_and_keeps_the_history(self) -> None:
        job = make_job()
        triggers = in_every_state(job)
        deleted = actions.delete_job(tenant=job.tenant, job_id=job.id)
        assert deleted.deleted_at is not None
        assert state_of(triggers["pending"]) == ("cancelled", "job_cancelled")
        assert job.triggers.count() == len(triggers)
        with pytest.raises(NotFound):
            actions.find_job(tenant=job.tenant, job_id=job.id)


class TestRunNow:
    def test_makes_a_trigger_with_its_own_key(self) -> None:
        job = make_job()
        first, second = (actions.run_job_now(tenant=job.tenant, job_id=job.id) for _ in range(2))
        assert first.idempotency_key != second.idempotency_key
        assert first.idempotency_key.startswith(f"job:{job.id}:run:")
        assert (first.origin, first.state, first.due_at) == ("run_now", "pending", first.scheduled_for)
        assert [queued.id for queued in factories.dispatch().queued] == [first.id, second.id]

    def test_finds_another_instant_when_a_firing_has_this_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        job = make_job()
        taken = make_trigger(job).scheduled_for
        instants = iter([taken, taken, taken + SECOND])
        monkeypatch.setattr("jobs.actions.jobs.database_now", lambda: next(instants))
        trigger = actions.run_job_now(tenant=job.tenant, job_id=job.id)
        assert trigger.scheduled_for == taken + SECOND

    def test_runs_a_completed_job_once_more(self) -> None:
        job = make_job(status="completed")
        trigger = actions.run_job_now(tenant=job.tenant, job_id=job.id)
        factories.dispatch()
        trigger.refresh_from_db()
        assert len(factories.claim(trigger)) == 1

    def test_ignores_overlap_where_asked_and_the_trail_says_so(self) -> None:
        job = make_job()
        make_trigger(job, "running")
        trigger = actions.run_job_now(tenant=job.tenant, job_id=job.id, ignore_overlap=True)
        assert [queued.id for queued in factories.dispatch().queued] == [trigger.id]
        told = Change.objects.get(object_id=str(job.id), action=Change.Action.RUN).changes
        assert told == {"trigger": [None, str(trigger.id)], "ignore_overlap": [None, True]}

    @pytest.mark.parametrize("status", ["paused", "cancelled"])
    def test_refuses_a_job_that_is(self, status: str) -> None:
        job = make_job(status=status)
        with pytest.raises(Conflict):
            actions.run_job_now(tenant=job.tenant, job_id=job.id)


ACTIONS = {
    "update": lambda **ids: actions.update_job(changes={"priority": "low"}, **ids),
    "pause": actions.pause_job,
    "resume": actions.resume_job,
    "cancel": actions.cancel_job,
    "delete": actions.delete_job,
    "run": actions.run_job_now,
    "find": actions.find_job,
}


class TestEveryAction:
    @pytest.mark.parametrize("name", ACTIONS)
    @pytest.mark.parametrize("job_id", ["", "x", "5", None, 5, "018f0000-0000-7000-8000-000000000000"])
    def test_finds_no_job_of_that_id(self, name: str, job_id: Any) -> None:
        with pytest.raises(NotFound):
            ACTIONS[name](tenant=make_tenant(), job_id=job_id)

    @pytest.mark.parametrize("name", ACTIONS)
    def test_finds_no_job_of_another_tenant_or_a_deleted_one(self, name: str) -> None:
        job, deleted = make_job(), make_job(deleted_at=now())
        for tenant, job_id in ((make_tenant(), job.id), (deleted.tenant, deleted.id)):
            with pytest.raises(NotFound):
                ACTIONS[name](tenant=tenant, job_id=job_id)
        assert Job.objects.get(id=job.id).status == "active"

    @pytest.mark.parametrize("name", [name for name in ACTIONS if name not in ("find", "resume", "run")])
    def test_locks_the_tenant_before_anything_else(self, name: str) -> None:
        job = make_job()
        with CaptureQueriesContext(connection) as queries:
            ACTIONS[name](tenant=job.tenant, job_id=job.id)
        statements = [query["sql"] for query in queries if "SAVEPOINT" not in query["sql"]]
        assert "FROM tenants_tenant" in statements[0]
        assert "FOR NO KEY UPDATE" in statements[0]
        assert "FOR NO KEY UPDATE" in statements[1]


class TestSetStatus:
    def test_is_pause_resume_and_cancel_by_name(self) -> None:
        job = make_job()
        for status in ("paused", "active", "cancelled"):
            assert actions.set_status(tenant=job.tenant, job_id=job.id, status=status).status == status
