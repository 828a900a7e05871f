"""People edit jobs, with real triggers in every state (DESIGN §4, §9 "Edits")."""

from datetime import timedelta
from typing import Any

import pytest

from jobs.actions import jobs as actions
from jobs.actions.definition import representation
from jobs.actions.jobs import EditedMeanwhile
from jobs.core.errors import Conflict, InvalidInput
from jobs.models import CatchUp
from tests.factories import HOUR, MINUTE, SECOND, make_job, make_tenant, make_trigger, now, row, state_of
from tests.interfaces.job_actions.jobs import (
    ENDED,
    EVERY_MINUTE,
    create,
    definition,
    in_every_state,
    step_beat,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("job_types")]


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
