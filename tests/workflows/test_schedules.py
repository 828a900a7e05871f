"""Workflows that begin runs by a schedule: beats and workers in this process, stepped by hand."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import groupby
from typing import Any

import pytest
from django.core.management import call_command

from jobs.actions.bulk.pauses import end_pauses
from jobs.core.workflows.states import SCHEDULE_TYPE
from jobs.engine.reaper import reap_leases
from jobs.models import Change, Job, Trigger, Workflow, WorkflowRun
from jobs.store import workflows as store
from stage.waiting import wait_until
from tests import factories
from tests.engine.conftest import Beat, Broker, beat, broker, make_beat, perform
from tests.factories import HOUR, MINUTE, SECOND
from tests.interfaces.api.caller import Caller, faulty_fields
from tests.workflows.playing import begin

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ("beat", "broker", "make_beat", "perform")
HOURLY = {"type": "interval", "every_seconds": 3600}


class Town:
    """A tenant with one beat and one worker, and a clock."""

    def __init__(self, beat: Beat, broker: Broker, perform: Callable[..., Any]) -> None:
        self.beat, self.broker, self._perform = beat, broker, perform
        self.owner = Caller(factories.make_tenant())
        self.after = timedelta()

    def create(self, **more: Any) -> dict[str, Any]:
        answer = self.owner.post("/workflows", workflow(**more))
        assert answer.status_code == 201, answer.content
        found: dict[str, Any] = answer.json()
        return found

    def wait(self, span: timedelta) -> None:
        self.after += span
        factories.set_clock(self.after)

    def fire(self) -> None:
        """Let the beat dispatch, and a worker begin the runs; their tasks stay queued."""
        for _ in range(3):
            for step in self.beat.cycle.steps.values():
                step.hurry()
            self.beat.step()
            self.work(only=SCHEDULE_TYPE)

    def work(self, only: str = "") -> None:
        """Carry out what is queued."""
        queued = Trigger.objects.filter(state="queued").order_by("job_type")
        for job_type, triggers in groupby(queued, key=lambda trigger: trigger.job_type):
            if not only or job_type == only:
                self._perform(*triggers)

    def finish(self) -> None:
        """Carry out whatever is due, and what follows from it."""
        for _ in range(6):
            self.fire()
            self.work()

    def firings(self) -> list[tuple[str, str]]:
        found = Trigger.objects.filter(job_type=SCHEDULE_TYPE, due_at__lte=factories.now())
        return [(one.state, one.reason) for one in found.order_by("scheduled_for")]

    def runs(self) -> list[str]:
        return list(WorkflowRun.objects.order_by("scheduled_for").values_list("state", flat=True))


def workflow(**more: Any) -> dict[str, Any]:
    return {"name": "etl", "tasks": {"load": {"job_type": "noop"}}, "schedule": HOURLY} | more


@pytest.fixture
def town(beat: Beat, broker: Broker, perform: Callable[..., Any]) -> Iterator[Town]:
    yield Town(beat, broker, perform)
    factories.set_clock(timedelta())


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
        # It dies between its handler's commit and the end of the firing.
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

    def test_does_not_count_runs_of_other_workflows(self, town: Town) -> None:
        town.create(overlap_policy="skip")
        other = town.create(name="other", schedule=None)
        assert other["schedule_status"] is None
        begin(Workflow.objects.get(name="other"))
        town.wait(HOUR + SECOND)
        town.fire()
        assert town.firings() == [("succeeded", "")]


class TestAnEdit:
    def test_of_the_schedule_withdraws_what_lies_ahead(self, town: Town) -> None:
        path = f"/workflows/{town.create()['id']}"
        town.wait(HOUR - 30 * SECOND)
        town.beat.step()
        [ahead] = Trigger.objects.all()
        daily = {"type": "interval", "every_seconds": 86_400}
        edited = town.owner.put(path, workflow(schedule=daily)).json()
        assert (edited["version"], Trigger.objects.filter(id=ahead.id).exists()) == (2, False)
        town.wait(HOUR)
        town.finish()
        assert town.runs() == []
        town.wait(22 * HOUR + MINUTE)
        town.finish()
        assert town.runs() == ["succeeded"]

    def test_of_the_name_keeps_the_schedule_beside_one_of_a_name_that_begins_alike(self, town: Town) -> None:
        first = town.create(name="x" * 150 + "1")
        town.create(name="x" * 150 + "2")
        renamed = town.owner.put(f"/workflows/{first['id']}", workflow(name="x" * 150 + "3"))
        assert (renamed.status_code, renamed.json()["next_fire_at"]) == (200, first["next_fire_at"])

    def test_of_the_tasks_leaves_the_schedules_job_as_it_is(self, town: Town) -> None:
        path = f"/workflows/{town.create()['id']}"
        town.owner.put(path, workflow(tasks={"other": {"job_type": "noop"}}))
        assert Job.with_hidden.get(job_type=SCHEDULE_TYPE).version == 1

    def test_that_takes_the_schedule_away_and_gives_one_again(self, town: Town) -> None:
        path = f"/workflows/{town.create()['id']}"
        gone = town.owner.put(path, workflow(schedule=None)).json()
        assert (gone["schedule_status"], gone["next_fire_at"]) == (None, None)
        town.wait(2 * HOUR)
        town.finish()
        assert town.runs() == []
        again = town.owner.post(f"{path}/versions/1/restore").json()
        assert (again["version"], again["schedule_status"]) == (3, "active")
        town.wait(HOUR + SECOND)
        town.finish()
        assert town.runs() == ["succeeded"]

    def test_that_is_refused_names_the_field_and_changes_nothing(self, town: Town) -> None:
        path = f"/workflows/{town.create()['id']}"
        past = {"type": "once", "run_at": "2020-01-01T00:00:00Z"}
        for broken, field in (
            ({"schedule": {"type": "cron", "cron": "61 * * * *"}}, "schedule.cron"),
            ({"schedule": past}, "schedule.run_at"),
            ({"overlap_policy": "none"}, "overlap_policy"),
            ({"misfire_grace_seconds": 0}, "misfire_grace_seconds"),
            ({"max_catchup": 0}, "max_catchup"),
            ({"deadline_seconds": 0}, "deadline_seconds"),
            ({"labels": {"-": "x"}}, "labels.-"),
        ):
            for answer in (
                town.owner.put(path, workflow(**broken)),
                town.owner.post("/workflows", workflow(**{"name": "new"} | broken)),
            ):
                assert (answer.status_code, faulty_fields(answer)) == (400, {field}), answer.content
        assert town.owner.get(path).json()["version"] == 1
        assert Workflow.objects.count() == 1

    def test_is_on_the_trail_of_the_workflow_alone(self, town: Town) -> None:
        path = f"/workflows/{town.create()['id']}"
        town.owner.put(path, workflow(schedule={"type": "cron", "cron": "0 2 * * *"}))
        for _ in range(2):
            town.owner.post(f"{path}/pause")
        [paused] = Change.objects.filter(changes__has_key="schedule_status")
        assert paused.changes["schedule_status"] == ["active", "paused"]
        town.owner.delete(path)
        kinds = set(Change.objects.exclude(kind__in=("tenant", "api_key")).values_list("kind", flat=True))
        assert kinds == {"workflow"}


class TestABackfill:
    #: Before the workflow is created, so no firing of it is on record.
    CRON = {"type": "cron", "cron": "0 0 * * *"}

    def stretch(self) -> dict[str, Any]:
        """Two midnights."""
        last = factories.now().replace(hour=0, minute=0, second=0, microsecond=0) - 24 * HOUR
        return {"start": (last - 24 * HOUR).isoformat(), "end": (last + MINUTE).isoformat()}

    def test_begins_a_run_for_each_instant_that_had_none(self, town: Town) -> None:
        path = f"/workflows/{town.create(schedule=self.CRON)['id']}/backfills"
        stretch = self.stretch()
        counted = town.owner.post(path, stretch | {"dry_run": True})
        assert (counted.status_code, counted.json()["count"]) == (200, 2)
        begun = town.owner.post(path, stretch)
        assert (begun.status_code, begun.json()["count"]) == (202, 2)
        assert town.owner.post(path, stretch).json()["id"] == begun.json()["id"]
        town.fire()
        assert town.runs() == ["running"], "one after another"
        wait_until(
            lambda: len(town.runs()) == 2, what="the second run, as catch-up paces", meanwhile=town.finish
        )
        town.finish()
        assert town.runs() == ["succeeded"] * 2
        assert {run.origin for run in WorkflowRun.objects.all()} == {"backfill"}
        [listed] = town.owner.get(path).json()["results"]
        assert (listed["id"], listed["materialized"]) == (begun.json()["id"], 2)

    def test_can_be_cancelled(self, town: Town) -> None:
        path = f"/workflows/{town.create(schedule=self.CRON)['id']}/backfills"
        begun = town.owner.post(path, self.stretch()).json()
        assert town.owner.post(f"{path}/{begun['id']}/cancel").status_code == 200
        town.finish()
        assert town.runs() == []

    def test_without_a_schedule_is_refused(self, town: Town) -> None:
        path = f"/workflows/{town.create(schedule=None)['id']}/backfills"
        stretch = {"start": "2025-03-01T00:00:00Z", "end": "2025-03-02T00:00:00Z"}
        assert (town.owner.post(path, stretch).status_code, town.owner.get(path).status_code) == (409, 409)

    def test_of_another_tenants_workflow_finds_nothing(self, town: Town) -> None:
        path = f"/workflows/{town.create()['id']}/backfills"
        outsider = Caller(factories.make_tenant())
        assert outsider.get(path).status_code == 404


class TestLabels:
    def test_find_workflows(self, town: Town) -> None:
        town.create(labels={"env": "prod", "team": "billing"})
        town.create(name="other", labels={"env": "prod"})
        for selector, names in (("env=prod", ["other", "etl"]), ("env=prod,team=billing", ["etl"])):
            listed = town.owner.get(f"/workflows?labels={selector}").json()["results"]
            assert [one["name"] for one in listed] == names
        assert town.owner.get("/workflows?labels=env").status_code == 400


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


class TestDelete:
    def test_ends_the_schedule(self, town: Town) -> None:
        path = f"/workflows/{town.create()['id']}"
        town.wait(HOUR - 30 * SECOND)
        town.beat.step()
        assert town.owner.delete(path).status_code == 204
        assert Job.with_hidden.get(job_type=SCHEDULE_TYPE).deleted_at is not None
        town.wait(HOUR)
        town.finish()
        assert (town.runs(), Trigger.objects.exclude(state="cancelled").count()) == ([], 0)

    def test_that_is_refused_leaves_the_schedule(self, town: Town) -> None:
        path = f"/workflows/{town.create()['id']}"
        town.wait(HOUR + SECOND)
        town.fire()
        assert town.owner.delete(path).status_code == 409
        assert town.owner.get(path).json()["schedule_status"] == "active"


class TestPause:
    def test_begins_nothing_until_it_is_resumed(self, town: Town) -> None:
        path = f"/workflows/{town.create()['id']}"
        paused = town.owner.post(f"{path}/pause", {"reason": "too dear"}).json()
        assert (paused["schedule_status"], paused["schedule_status_reason"]) == ("paused", "too dear")
        assert paused["next_fire_at"] is None
        town.wait(HOUR + SECOND)
        town.finish()
        assert town.runs() == []
        assert town.owner.post(f"{path}/resume").json()["schedule_status"] == "active"
        town.wait(HOUR)
        town.finish()
        assert town.runs() == ["succeeded"]

    def test_without_a_schedule_is_refused(self, town: Town) -> None:
        path = f"/workflows/{town.create(schedule=None)['id']}"
        for verb in ("pause", "resume"):
            assert town.owner.post(f"{path}/{verb}").status_code == 409

    def test_ends_by_itself(self, town: Town) -> None:
        path = f"/workflows/{town.create()['id']}"
        until = (factories.now() + 90 * MINUTE).isoformat()
        assert town.owner.post(f"{path}/pause", {"until": until}).json()["schedule_paused_until"]
        town.wait(90 * MINUTE + SECOND)
        end_pauses()
        assert town.owner.get(path).json()["schedule_status"] == "active"
        town.wait(30 * MINUTE)
        town.finish()
        assert town.runs() == ["succeeded"]

    def test_of_another_tenants_workflow_finds_nothing(self, town: Town) -> None:
        path = f"/workflows/{town.create()['id']}"
        outsider = Caller(factories.make_tenant())
        for verb in ("pause", "resume"):
            assert outsider.post(f"{path}/{verb}").status_code == 404
        assert town.owner.get(path).json()["schedule_status"] == "active"


class TestADeadline:
    def test_cancels_a_run_that_takes_too_long(self, town: Town) -> None:
        town.create(schedule=None, deadline_seconds=60)
        run = begin(Workflow.objects.get())
        town.beat.step()
        town.wait(MINUTE + SECOND)
        town.fire()
        run.refresh_from_db()
        assert (run.state, run.cancel_reason) == ("cancelled", "deadline")

    def test_leaves_a_run_alone_that_has_ended_and_gives_a_retry_its_time(self, town: Town) -> None:
        town.create(schedule=None, deadline_seconds=60, tasks={"load": {"job_type": "noop"}})
        run = begin(Workflow.objects.get())
        town.finish()
        town.wait(MINUTE + SECOND)
        path = f"/workflow-runs/{run.id}"
        assert town.owner.post(f"{path}/retry", {"tasks": ["load"]}).json()["state"] == "running"
        town.fire()
        assert town.owner.get(path).json()["state"] == "running"
        town.wait(MINUTE + SECOND)
        town.fire()
        ended = town.owner.get(path).json()
        assert (ended["state"], ended["cancel_reason"]) == ("cancelled", "deadline")
