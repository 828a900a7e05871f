"""Workflows that begin runs by a schedule: one at each instant, and as many beside each other as overlap allows."""

from collections.abc import Callable

import pytest
from django.core.management import call_command

from jobs.core.workflows.states import SCHEDULE_TYPE
from jobs.engine.reaper import reap_leases
from jobs.models import Job, Trigger, Workflow, WorkflowRun
from jobs.store import workflows as store
from tenants.models import Tenant
from tests import factories
from tests.engine.conftest import Beat
from tests.factories import HOUR, MINUTE, SECOND
from tests.workflows.playing import begin
from tests.workflows.schedules.town import Town, workflow

pytestmark = pytest.mark.django_db(transaction=True)


class TestASchedule:
    def test_begins_a_run_at_each_of_its_instants(self, town: Town) -> None:
        shown = town.create(input={"day": 1})
        town.fire()
        assert town.runs() == []
        town.wait(HOUR + SECOND)
        town.finish()
        [run] = town.owner.get("/workflow-runs").json()["results"]
        trigger = Trigger.objects.get(job_type=SCHEDULE_TYPE, state="succeeded")
        assert (run["state"], run["origin"], run["input"]) == ("succeeded", "schedule", {"day": 1})
        assert (run["trigger_id"], trigger.result) == (str(trigger.id), {"workflow_run_id": run["id"]})
        assert WorkflowRun.objects.get().scheduled_for == trigger.scheduled_for
        assert shown["next_fire_at"] == run["scheduled_for"]
        town.wait(HOUR)
        town.finish()
        assert town.runs() == ["succeeded", "succeeded"]

    def test_is_one_job_that_no_list_of_jobs_shows(self, town: Town) -> None:
        town.create()
        job = Job.with_hidden.get(job_type=SCHEDULE_TYPE)
        assert (job.id, job.workflow_id) == (
            Workflow.objects.get().schedule_job_id,
            Workflow.objects.get().id,
        )
        assert town.owner.get("/jobs").json()["results"] == []
        assert town.owner.get(f"/jobs/{job.id}").status_code == 404

    def test_begins_one_run_though_two_beats_and_a_killed_worker_are_at_it(
        self, town: Town, make_beat: Callable[..., Beat]
    ) -> None:
        town.create()
        town.wait(HOUR + SECOND)
        town.beat.step()
        make_beat(leader_election=False).step()
        [trigger] = Trigger.objects.filter(state="queued")
        factories.claim(trigger)
        # The worker dies between its handler's commit and the end of the firing.
        first = store.begin_fired(trigger_id=trigger.id, fence=trigger.fence)
        town.wait(10 * MINUTE)
        assert reap_leases(leadership=factories.ANYONE, limit=10) == 1
        town.wait(10 * MINUTE)
        town.finish()
        trigger.refresh_from_db()
        assert (trigger.state, trigger.attempt_count) == ("succeeded", 2)
        assert trigger.result == {"workflow_run_id": str(first)}
        assert town.runs() == ["succeeded"]

    def test_begins_its_run_though_a_caller_has_one_of_that_very_instant(self, town: Town) -> None:
        found = Workflow.objects.get(id=town.create()["id"])
        town.wait(HOUR + SECOND)
        town.beat.step()
        [trigger] = Trigger.objects.filter(state="queued")
        factories.claim(trigger)
        version = found.versions.get()
        options = {"workflow_id": found.id, "version_id": version.id, "tasks": 1}
        callers = store.begin_run(**options, scheduled_for=trigger.scheduled_for)
        first, again = (store.begin_fired(trigger_id=trigger.id, fence=trigger.fence) for _ in range(2))
        assert first == again != callers
        assert WorkflowRun.objects.get(id=first).scheduled_for - trigger.scheduled_for < SECOND

    def test_lets_a_late_worker_begin_nothing(self, town: Town) -> None:
        town.create()
        town.wait(HOUR + SECOND)
        town.beat.step()
        [trigger] = Trigger.objects.filter(state="queued")
        factories.claim(trigger)
        assert store.begin_fired(trigger_id=trigger.id, fence=trigger.fence - 1) is None
        Trigger.objects.update(cancel_requested=True)
        assert store.begin_fired(trigger_id=trigger.id, fence=trigger.fence) is None
        assert town.runs() == []

    def test_begins_runs_of_the_version_that_is_present_then(self, town: Town) -> None:
        path = f"/workflows/{town.create()['id']}"
        two = {"load": {"job_type": "noop"}, "more": {"job_type": "noop"}}
        assert town.owner.put(path, workflow(tasks=two)).json()["version"] == 2
        town.wait(HOUR + SECOND)
        town.finish()
        [run] = town.owner.get("/workflow-runs").json()["results"]
        assert run["version"] == 2

    def test_that_was_missed_in_an_outage_begins_one_run(self, town: Town) -> None:
        town.create()
        town.fire()
        town.wait(5 * HOUR + 10 * MINUTE)
        town.finish()
        assert town.runs() == ["succeeded"]

    def test_that_backfills_begins_what_was_missed_one_after_another(self, town: Town) -> None:
        town.create(misfire_policy="backfill", catchup_window_seconds=7200)
        town.fire()
        town.wait(5 * HOUR + 10 * MINUTE)
        town.fire()
        assert town.runs() == ["running"]
        town.finish()
        town.finish()
        assert town.runs() == ["succeeded"] * 2


class TestOverlap:
    def test_is_judged_by_the_runs_and_not_by_the_firings(self, town: Town) -> None:
        town.create(overlap_policy="skip")
        town.wait(HOUR + SECOND)
        town.fire()
        assert (town.firings(), town.runs()) == ([("succeeded", "")], ["running"])
        town.wait(HOUR)
        town.fire()
        assert town.firings() == [("succeeded", ""), ("skipped", "overlap")]
        town.finish()
        town.wait(HOUR)
        town.finish()
        assert town.runs() == ["succeeded", "succeeded"]

    def test_counts_runs_that_callers_began(self, town: Town) -> None:
        town.create(overlap_policy="skip")
        begin(Workflow.objects.get())
        town.wait(HOUR + SECOND)
        town.fire()
        assert (town.firings(), town.runs()) == ([("skipped", "overlap")], ["running"])

    def test_queued_begins_the_next_run_when_the_one_before_has_ended(self, town: Town) -> None:
        town.create(overlap_policy="queue")
        town.wait(HOUR + SECOND)
        town.fire()
        town.wait(HOUR)
        town.fire()
        assert (town.firings()[1], town.runs()) == (("pending", ""), ["running"])
        town.work()
        assert town.runs() == ["succeeded"]
        town.fire()
        assert town.runs() == ["succeeded", "running"]

    def test_replaced_cancels_the_run_before(self, town: Town) -> None:
        town.create(overlap_policy="replace")
        town.wait(HOUR + SECOND)
        town.fire()
        [first] = WorkflowRun.objects.all()
        town.wait(HOUR)
        town.fire()
        town.fire()
        first.refresh_from_db()
        assert (first.state, first.cancel_reason) == ("cancelled", "replaced")
        assert town.runs() == ["cancelled", "running"]
        town.finish()
        assert town.runs() == ["cancelled", "succeeded"]

    def test_allowed_begins_as_many_runs_as_may_go_on_at_once(self, town: Town) -> None:
        town.create(overlap_policy="allow", max_concurrent=2)
        for _ in range(3):
            town.wait(HOUR + SECOND)
            town.fire()
        assert town.runs() == ["running"] * 2
        assert town.firings()[2] == ("pending", "")
        town.finish()
        assert town.runs() == ["succeeded"] * 3

    def test_allowed_counts_runs_and_firings_together_though_they_may_fill_the_tenant(
        self, town: Town
    ) -> None:
        Tenant.objects.update(max_in_flight=2)
        town.create(
            overlap_policy="allow", max_concurrent=2, schedule={"type": "interval", "every_seconds": 10}
        )
        town.wait(11 * SECOND)
        town.fire()
        # The run goes on with no trigger in flight.
        Trigger.objects.filter(job_type="noop").update(state="retrying", due_at=factories.now() + HOUR)
        for _ in range(2):
            town.wait(10 * SECOND)
            town.beat.step()
        assert [state for state, _ in town.firings()] == ["succeeded", "queued", "pending"]

    def test_does_not_count_runs_of_other_workflows(self, town: Town) -> None:
        town.create(overlap_policy="skip")
        other = town.create(name="other", schedule=None)
        assert other["schedule_status"] is None
        begin(Workflow.objects.get(name="other"))
        town.wait(HOUR + SECOND)
        town.fire()
        assert town.firings() == [("succeeded", "")]


class TestExplain:
    def test_says_that_a_firing_waits_for_a_run(self, town: Town) -> None:
        town.create(overlap_policy="queue")
        begin(Workflow.objects.get())
        town.wait(HOUR + SECOND)
        town.fire()
        [waits] = Trigger.objects.filter(job_type=SCHEDULE_TYPE, parked=True)
        told = town.owner.get(f"/triggers/{waits.id}/explain").json()
        assert "overlap" in told["blocking"]
        assert "1 run of its workflow under way" in told["summary"]


class TestTheLedger:
    def test_of_a_schedule_is_audited(self, town: Town, capsys: pytest.CaptureFixture[str]) -> None:
        town.create()
        for _ in range(3):
            town.wait(HOUR + SECOND)
            town.finish()
        call_command("audit_firings")
        assert "3 instants of 1 jobs audited; differences: none" in capsys.readouterr().out
