"""People change a workflow's schedule: they edit, pause and delete it, and backfill its missed firings."""

from typing import Any

import pytest

from jobs.actions.bulk.pauses import end_pauses
from jobs.core.workflows.states import SCHEDULE_TYPE
from jobs.models import Change, Job, Trigger, Workflow, WorkflowRun
from stage.waiting import wait_until
from tests import factories
from tests.factories import HOUR, MINUTE, SECOND
from tests.interfaces.api.caller import Caller, faulty_fields
from tests.workflows.schedules.town import Town, workflow

pytestmark = pytest.mark.django_db(transaction=True)


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
    #: It begins before the workflow is created, so no firing of it is on record.
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
