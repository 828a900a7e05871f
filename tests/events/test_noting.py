"""Changes that become events, noted by the transaction that makes the change; and changes that do not."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from jobs.actions import jobs as jobs_actions
from jobs.actions import triggers as trigger_actions
from jobs.core.states import AttemptState, TriggerState
from jobs.models import Event, Job
from jobs.store import db, events, execution, jobs, reap
from jobs.store.catchup import ledger
from jobs.store.execution import ClaimToken
from jobs.store.reap import Recovery, Release
from tests.factories import (
    ANYONE,
    HOUR,
    MINUTE,
    SECOND,
    claim,
    dispatch,
    finish_of,
    make_attempt,
    make_job,
    make_running,
    make_tenant,
    make_trigger,
    make_triggers,
    now,
)
from tests.interfaces.api.caller import noop_job

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("job_types")]


def told(of: str = "trigger.") -> list[str]:
    """The kinds of events since the test began, in order."""
    kinds = Event.objects.filter(kind__startswith=of).order_by("id").values_list("kind", flat=True)
    return [kind.removeprefix(of) for kind in kinds]


def last() -> Event:
    event = Event.objects.order_by("id").last()
    assert event is not None
    return event


class TestJobs:
    def test_tell_of_their_whole_life(self) -> None:
        tenant = make_tenant()
        job = jobs_actions.create_job(tenant=tenant, definition=noop_job())
        this: dict[str, Any] = {"tenant": tenant, "job_id": job.id}
        jobs_actions.update_job(**this, changes={"priority": "high"})
        jobs_actions.pause_job(**this)
        jobs_actions.resume_job(**this)
        jobs_actions.delete_job(**this)
        assert told("job.") == ["created", "updated", "paused", "resumed", "cancelled", "deleted"]
        assert (last().tenant_id, last().job_id, last().trigger_id) == (tenant.id, job.id, None)
        assert last().data == {
            "job_name": "nightly",
            "job_type": "noop",
            "status": "cancelled",
            "version": 2,
        }

    def test_tell_who_paused_them_when_it_was_nobody(self) -> None:
        job = make_job()
        execution.pause_gone([make_trigger(job, "dead").id])
        assert (last().kind, last().data["reason"]) == ("job.paused", "The target answered 410 Gone.")

    def test_say_nothing_when_nothing_changed_or_only_time_went_by(self) -> None:
        job = make_job(next_fire_at=now())
        before = told("job.")
        jobs_actions.resume_job(tenant=job.tenant, job_id=job.id)
        jobs.advance({job.id: now() + HOUR})
        Job.objects.filter(id=job.id).update(updated_at=now())
        assert told("job.") == before


class TestTriggers:
    @pytest.mark.parametrize(
        ("state", "kinds"),
        [("succeeded", []), ("retrying", []), ("dead", ["dead"]), ("cancelled", ["cancelled"])],
    )
    def test_tell_of_ends_that_matter(self, state: str, kinds: list[str]) -> None:
        trigger, attempt = make_running()
        execution.finish([finish_of(trigger, attempt, state)])
        assert told() == kinds

    def test_tell_of_everything_where_the_tenant_wants_it(self) -> None:
        tenant = make_tenant(all_events=True)
        rows = claim(*(make_trigger(make_job(tenant), "queued") for _ in range(2)))
        assert [row.watched for row in rows] == [True, True]
        running = [make_running(make_job(tenant)) for _ in range(2)]
        execution.finish(
            [
                finish_of(trigger, attempt, state, watched=True)
                for (trigger, attempt), state in zip(running, ("succeeded", "retrying"), strict=True)
            ]
        )
        assert sorted(told()) == ["retrying", "succeeded"]

    def test_say_why_they_died(self) -> None:
        trigger, attempt = make_running(make_job(name="nightly"))
        details = {"error_code": "http_503", "error_message": "busy", "http_status": 503}
        execution.finish([finish_of(trigger, attempt, "dead", **details)])
        assert last().trigger_id == trigger.id
        assert last().data.pop("scheduled_for").startswith("20")
        assert last().data | {"scheduled_for": ""} == details | {
            "job_name": "nightly",
            "job_type": "noop",
            "scheduled_for": "",
            "reason": "exhausted",
            "attempts": 1,
        }

    def test_of_a_stale_outcome_tell_nothing(self) -> None:
        trigger, attempt = make_running()
        trigger.fence += 1
        execution.finish([finish_of(trigger, attempt, "dead")])
        assert told() == []

    def test_tell_of_a_cancel_that_beat_a_retry(self) -> None:
        trigger, attempt = make_running(cancel_requested=True)
        execution.finish([finish_of(trigger, attempt, "retrying")])
        assert told() == ["cancelled"]

    def test_tell_of_what_dispatch_ends(self) -> None:
        job = make_job(overlap_policy="skip", misfire_policy="skip", max_concurrent=1)
        make_trigger(job, scheduled_for=now() - HOUR)
        dispatch()
        assert told() == ["skipped"]
        assert last().data["reason"] == "misfire"

    def test_tell_of_what_dispatch_freezes(self) -> None:
        make_triggers(make_job(make_tenant(status="frozen")), 2)
        dispatch()
        assert told() == ["skipped"] * 2

    def test_tell_of_what_reap_buries(self) -> None:
        trigger, _ = make_running(lease_expires_at=now() - MINUTE)
        recovery = Recovery(ClaimToken(trigger.id, trigger.fence), TriggerState.DEAD, "poison", SECOND)
        reap.reap_running([recovery], leadership=ANYONE)
        assert told() == ["dead"]

    def test_tell_of_what_a_stuck_process_gives_up(self) -> None:
        trigger, _ = make_running()
        recovery = Recovery(ClaimToken(trigger.id, trigger.fence), TriggerState.DEAD, "exhausted", SECOND)
        reap.give_up([Release(recovery, True, AttemptState.LOST, "timeout", "stuck")])
        assert told() == ["dead"]
        assert last().data["error_message"] == "stuck"

    def test_tell_of_what_people_do(self) -> None:
        job = make_job()
        waiting, dead = make_trigger(job), make_trigger(job, "dead")
        trigger_actions.cancel_trigger(tenant=job.tenant, trigger_id=waiting.id)
        trigger_actions.cancel_trigger(tenant=job.tenant, trigger_id=make_running(job)[0].id)
        trigger_actions.replay_trigger(tenant=job.tenant, trigger_id=dead.id)
        jobs_actions.cancel_job(tenant=job.tenant, job_id=job.id)
        assert told() == ["cancelled", "replayed", "cancelled"]

    def test_tell_of_what_fell_due_during_a_pause(self) -> None:
        job = make_job(status="paused")
        make_trigger(job, held=True)
        jobs_actions.resume_job(tenant=job.tenant, job_id=job.id)
        assert told() == ["skipped"]

    def test_tell_of_firings_that_were_skipped_from_the_start(self) -> None:
        job = make_job()
        of_job = ledger.Run(
            job_id=job.id,
            tenant_id=job.tenant_id,
            job_type=job.job_type,
            job_version=1,
            from_at=now() - 2 * HOUR,
            until_at=now() - HOUR,
            count=5000,
            reason="misfire",
            floor=now() - 3 * HOUR,
        )
        ledger.skip_ranges([of_job])
        assert told() == ["skipped"]
        assert (last().trigger_id, last().data["count"], last().data["reason"]) == (None, 5000, "misfire")

    def test_are_told_of_by_the_transaction_that_ends_them(self) -> None:
        trigger = make_trigger(make_job(), "dead")
        make_attempt(trigger, "failed")
        events.note([trigger.id])
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_current_xact_id()::text")
            assert last().xid == cursor.fetchone()[0]


class TestAFinishOfSuccessesAlone:
    def test_asks_the_database_for_one_statement(
        self, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Callable[..., Any]
    ) -> None:
        # Django does not count statements whose plans are kept.
        monkeypatch.setattr(db, "_keeping", False)
        finishes = [finish_of(*make_running()) for _ in range(3)]
        with django_assert_num_queries(1):
            execution.finish(finishes)
