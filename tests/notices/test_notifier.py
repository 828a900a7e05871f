"""Notices: made of events, each once, for those who asked; and the pause of a job that keeps dying."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from jobs.actions import jobs as jobs_actions
from jobs.activity import own
from jobs.engine.notices import notifier, notify
from jobs.models import Event, Job, Trigger
from jobs.models.event import FeedReader
from jobs.store import execution
from jobs.store.events import notices
from tenants.models import Tenant
from tests.engine.conftest import Broker
from tests.factories import claim, dispatch, finish_of, make_job, make_running, make_tenant, make_trigger, now
from tests.races.conftest import Rival
from tests.workflows.playing import begin, make_workflow, play

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("job_types")]
URL = "https://ops.example/hook"
DEAD = {"on": ["dead"], "url": URL}


@pytest.fixture(autouse=True)
def begun(db: None) -> None:
    """The notifier stands at the feed's end."""
    assert notify() == 0
    assert FeedReader.objects.count() == 1


def end(job: Job, state: str = "dead", **columns: Any) -> Trigger:
    """One firing of the job that ends in ``state``."""
    trigger, attempt = make_running(job)
    execution.finish([finish_of(trigger, attempt, state, **columns)])
    return trigger


def told(tenant: Tenant) -> list[dict[str, Any]]:
    """The payloads of the tenant's notices, in order."""
    made = Trigger.objects.filter(tenant=tenant, job_type__startswith="carillon.").order_by("scheduled_for")
    return [payload for payload in made.values_list("payload", flat=True) if payload]


def kinds(tenant: Tenant) -> list[str]:
    return [payload["body"]["type"] for payload in told(tenant)]


class TestANotice:
    def test_is_a_trigger_of_a_system_job_with_what_happened(self) -> None:
        job = make_job(notify=DEAD, name="nightly")
        trigger = end(job, error_code="http_503", error_message="busy")
        assert notify() == 1
        [payload] = told(job.tenant)
        event = Event.objects.get(kind="trigger.dead")
        assert (payload["url"], payload["method"]) == (URL, "POST")
        body = payload["body"]
        assert body["type"] == "trigger.dead"
        assert body["data"].pop("scheduled_for")
        assert body["data"] == {
            "job_name": "nightly",
            "job_type": "noop",
            "reason": "exhausted",
            "attempts": 1,
            "error_code": "http_503",
            "error_message": "busy",
            "event_id": f"{event.xid}-{event.id}",
            "job_id": str(job.id),
            "trigger_id": str(trigger.id),
        }
        system = Job.objects.get(job_type="carillon.notice")
        assert (system.name, system.status, system.tenant_id) == (
            "carillon-notices",
            "completed",
            job.tenant_id,
        )

    def test_is_made_once(self) -> None:
        job = make_job(notify=DEAD)
        end(job)
        assert [notify(), notify()] == [1, 0]
        end(job)
        assert notify() == 1
        assert Job.objects.filter(job_type="carillon.notice").count() == 1

    def test_is_made_of_what_was_asked_for_alone(self) -> None:
        silent, job = make_job(), make_job(notify=DEAD)
        end(silent)
        end(job, "retrying", watched=True)
        end(job, "succeeded", watched=True)
        assert notify() == 0

    def test_is_made_of_every_kind_that_can_be_asked_for(self) -> None:
        on = ["succeeded", "failed", "dead", "skipped", "paused"]
        job = make_job(notify={"on": on, "url": URL}, watched=True, misfire_policy="skip")
        for state in ("succeeded", "retrying", "dead"):
            end(job, state, watched=True)
        make_trigger(job, scheduled_for=now() - timedelta(hours=1))
        dispatch()
        execution.pause_gone([make_trigger(job, "dead").id])
        notify()
        wanted = ["trigger.succeeded", "trigger.retrying", "trigger.dead", "trigger.skipped", "job.paused"]
        assert kinds(job.tenant) == wanted

    def test_is_not_made_of_a_pause_by_somebody(self) -> None:
        job = make_job(notify={"on": ["paused"], "url": URL})
        jobs_actions.pause_job(tenant=job.tenant, job_id=job.id)
        assert notify() == 0

    def test_follows_the_tenant_unless_the_job_says_otherwise(self) -> None:
        tenant = make_tenant(notify=DEAD)
        end(make_job(tenant))
        end(make_job(tenant, notify={"on": ["skipped"], "url": URL}))
        assert notify() == 1

    def test_tells_of_many_events_of_a_job_at_once(self) -> None:
        job = make_job(notify=DEAD)
        for _ in range(3):
            end(job)
        assert notify() == 1
        assert told(job.tenant)[0]["body"]["data"]["events"] == 3

    def test_goes_over_both_channels(self) -> None:
        job = make_job(notify=DEAD | {"email": "ops@example.com"}, name="nightly")
        end(job, error_message="busy")
        assert notify() == 2
        [mail] = [payload for payload in told(job.tenant) if "to" in payload]
        assert (mail["to"], mail["subject"]) == ("ops@example.com", "[Carillon] nightly died")
        assert "error message: busy" in mail["text"]

    def test_of_a_notice_is_never_made(self) -> None:
        tenant = make_tenant(notify={"on": ["dead", "succeeded", "failed"], "url": URL}, watched=True)
        end(make_job(tenant))
        notify()
        system = Job.objects.get(job_type="carillon.notice")
        for state in ("dead", "retrying", "succeeded"):
            end(system, state, watched=True)
        assert notify() == 0

    def test_is_not_made_once_its_system_job_was_cancelled_and_again_when_it_was_deleted(self) -> None:
        job = make_job(notify=DEAD)
        end(job)
        notify()
        system = Job.objects.get(job_type="carillon.notice")
        jobs_actions.cancel_job(tenant=job.tenant, job_id=system.id)
        end(job)
        assert notify() == 0
        jobs_actions.delete_job(tenant=job.tenant, job_id=system.id)
        end(job)
        assert notify() == 1

    def test_leaves_a_job_alone_that_has_its_system_jobs_name(self) -> None:
        job = make_job(notify=DEAD, name="carillon-notices")
        end(job)
        notify()
        assert Job.objects.get(job_type="carillon.notice").name == "carillon-notices-2"

    def test_is_dispatched_and_claimed_like_any_other(self) -> None:
        job = make_job(notify=DEAD)
        end(job)
        notify()
        dispatch(types=["carillon.notice"])
        [trigger] = Trigger.objects.filter(job_type="carillon.notice")
        assert trigger.state == "queued"
        [row] = claim(trigger)
        assert row.payload["url"] == URL


class TestThePlace:
    def test_stays_where_it_was_when_a_pass_dies(self, monkeypatch: pytest.MonkeyPatch) -> None:
        job = make_job(notify=DEAD)
        end(job)

        def die(place: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(notices, "keep", die)
            with pytest.raises(KeyboardInterrupt):
                notify()
        assert told(job.tenant) == []
        assert notify() == 1

    def test_is_one_beats_at_a_time(self) -> None:
        job = make_job(notify=DEAD)
        end(job)
        rival = Rival()
        rival.do(lambda: transaction.set_autocommit(False))
        rival.do(notices.take)
        assert notify() == 0
        rival.do(transaction.rollback)
        rival.close()
        assert notify() == 1

    def test_moves_over_many_pages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(notifier, "PAGE", 2)
        tenant = make_tenant(notify=DEAD)
        for _ in range(3):
            end(make_job(tenant))
        assert notify() == 3
        assert notify() == 0

    def test_moves_over_pages_of_what_nobody_can_ask_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whichever event a page ends with, and even if the job is long gone."""
        monkeypatch.setattr(notifier, "PAGE", 2)
        tenant = make_tenant(notify=DEAD)
        for job in (make_job(tenant), make_job(tenant)):
            end(job)
            Event.objects.filter(job_id=job.id, kind="trigger.dead").update(kind="job.updated")
        ended = Event.objects.latest("xid", "id")
        Event.objects.filter(id=ended.id).update(job_id=ended.trigger_id)
        end(make_job(tenant))
        assert notify() == 1
        assert FeedReader.objects.get().event_id >= Event.objects.latest("xid", "id").id
        assert notify() == 0


class TestPauseAfterFailures:
    def test_pauses_a_job_that_keeps_dying_and_says_so(self) -> None:
        job = make_job(pause_after_failures=2, notify={"on": ["paused"], "url": URL})
        end(job)
        notify()
        job.refresh_from_db()
        assert job.status == "active"
        end(job)
        notify()
        job.refresh_from_db()
        assert (job.status, job.status_reason) == ("paused", "Paused after 2 firings in a row that died.")
        notify()
        assert kinds(job.tenant) == ["job.paused"]

    def test_counts_only_what_died_in_a_row(self) -> None:
        job = make_job(pause_after_failures=2)
        for state in ("dead", "succeeded", "dead"):
            end(job, state)
        notify()
        job.refresh_from_db()
        assert job.status == "active"

    def test_counts_anew_after_a_resume(self) -> None:
        job = make_job(pause_after_failures=2)
        end(job)
        jobs_actions.pause_job(tenant=job.tenant, job_id=job.id)
        jobs_actions.resume_job(tenant=job.tenant, job_id=job.id)
        end(job)
        notify()
        job.refresh_from_db()
        assert job.status == "active"
        end(job)
        notify()
        job.refresh_from_db()
        assert job.status == "paused"


class TestABeat:
    def test_makes_notices_as_it_keeps_house(self, make_beat: Callable[..., Any], broker: Broker) -> None:
        job = make_job(notify=DEAD)
        end(job)
        beat = make_beat(leader_election=False)
        for _ in range(3):
            beat.cycle.steps["complete"].hurry()
            beat.turn()
        assert [message.job_type for message in broker.messages] == ["carillon.notice"]

    def test_goes_on_though_notices_cannot_be_made(
        self, make_beat: Callable[..., Any], broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job = make_job(notify=DEAD)
        end(job)
        beat = make_beat(leader_election=False)
        with monkeypatch.context() as patched:
            patched.setattr(notices, "send", lambda made: 1 / 0)
            beat.turn()
        assert beat.cycle.leading
        assert notify() == 1


class TestRunsOfWorkflows:
    """The notifier reads each event once. So it counts the runs, whether or not a notice is sent."""

    @pytest.fixture(autouse=True)
    def none_counted(self) -> None:
        own.take()  # counts that earlier tests left

    def test_are_counted_once_with_how_long_they_took(self) -> None:
        run = begin(make_workflow(make_tenant(notify=DEAD), tasks=["load"]))
        play(run, {"load": "dead"})
        notify()
        notify()
        counts = own.take()
        assert counts["workflow_runs", ("started",)] == counts["workflow_runs", ("failed",)] == {"times": 1}
        assert ("workflow_runs", ("succeeded",)) not in counts
        took = counts["workflow_run_seconds", ("failed",)]
        assert run.finished_at is not None
        seconds = (run.finished_at - run.created_at).total_seconds()
        assert took.pop("us") == pytest.approx(seconds * 1_000_000, abs=1)
        assert list(took.values()) == [1]

    def test_are_not_counted_by_a_pass_that_was_rolled_back(self) -> None:
        begin(make_workflow(make_tenant(), tasks=["load"]))
        with transaction.atomic():
            notify()
            transaction.set_rollback(True)
        assert not any(name == "workflow_runs" for name, _ in own.take())
        notify()
        assert own.take()["workflow_runs", ("started",)] == {"times": 1}
