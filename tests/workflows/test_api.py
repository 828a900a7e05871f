"""Workflows by the API, as a service creates, edits, runs and reads them."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobs.actions.workflows import definitions
from jobs.models import Change, Job, Workflow, WorkflowRun, WorkflowVersion
from jobs.store import workflows as store
from tests import factories
from tests.interfaces.api.caller import Caller, faulty_fields
from tests.workflows.playing import claim_due, finish, play

pytestmark = pytest.mark.django_db(transaction=True)


def task(**more: Any) -> dict[str, Any]:
    return {"job_type": "noop", **more}


def etl(**more: Any) -> dict[str, Any]:
    """Extract, then load, and an alert if that fails."""
    return {
        "name": "etl",
        "tasks": {"extract": task(), "load": task(priority="high"), "alert": task()},
        "edges": [
            {"before": "extract", "after": "load"},
            {"before": "load", "after": "alert", "on": "on_failure"},
        ],
        **more,
    }


@pytest.fixture
def owner() -> Caller:
    return Caller(factories.make_tenant())


def created(owner: Caller, **more: Any) -> dict[str, Any]:
    answer = owner.post("/workflows", etl(**more))
    assert answer.status_code == 201, answer.content
    found: dict[str, Any] = answer.json()
    return found


def begun(owner: Caller, workflow_id: str, **body: Any) -> dict[str, Any]:
    answer = owner.post(f"/workflows/{workflow_id}/runs", body or None)
    assert answer.status_code == 201, answer.content
    found: dict[str, Any] = answer.json()
    return found


class TestDefinitions:
    def test_are_shown_as_they_were_written(self, owner: Caller) -> None:
        answer = owner.post("/workflows", etl(max_parallel=2))
        shown = answer.json()
        assert (answer.status_code, answer["ETag"]) == (201, '"1"')
        assert answer["Location"] == f"/api/v1/workflows/{shown['id']}"
        assert owner.get(f"/workflows/{shown['id']}").json() == shown
        definition = shown["definition"]
        assert definition["edges"][1] == {"before": "load", "after": "alert", "on": "on_failure"}
        assert (definition["max_parallel"], definition["on_failure"]) == (2, "halt")
        # The definition that is shown may be sent back.
        assert owner.put(f"/workflows/{shown['id']}", definition).json() == shown

    def test_become_versions_by_edits_and_can_be_restored(self, owner: Caller) -> None:
        path = f"/workflows/{created(owner)['id']}"
        edited = owner.put(path, etl(tasks={"extract": task()}, edges=[]), **{"If-Match": '"1"'})
        assert (edited.status_code, edited.json()["version"]) == (200, 2)
        assert owner.put(path, etl(), **{"If-Match": '"1"'}).status_code == 412
        restored = owner.post(f"{path}/versions/1/restore")
        assert (restored.status_code, restored.json()["version"]) == (200, 3)
        assert set(restored.json()["definition"]["tasks"]) == {"extract", "load", "alert"}
        listed = owner.get(f"{path}/versions").json()["results"]
        assert [(one["number"], one["task_count"]) for one in listed] == [(3, 3), (2, 1), (1, 3)]
        assert set(owner.get(f"{path}/versions/2").json()["definition"]["tasks"]) == {"extract"}
        assert owner.get(f"{path}/versions/4").status_code == 404

    def test_are_compared_version_by_version(self, owner: Caller) -> None:
        path = f"/workflows/{created(owner)['id']}"
        tasks = {"extract": task(), "load": task(priority="low"), "report": task()}
        owner.put(path, etl(tasks=tasks, edges=[{"before": "extract", "after": "load"}], max_parallel=2))
        there = owner.get(f"{path}/versions/1/compare/2")
        assert (there.status_code, there.json()) == (
            200,
            {
                "before": 1,
                "after": 2,
                "options": [{"path": "max_parallel", "before": None, "after": 2}],
                "tasks_added": ["report"],
                "tasks_removed": ["alert"],
                "tasks_changed": [
                    {
                        "task": "load",
                        "changes": [{"path": "priority", "before": "high", "after": "low"}],
                    }
                ],
                "edges_added": [],
                "edges_removed": [{"before": "load", "after": "alert", "on": "on_failure"}],
            },
        )
        back = owner.get(f"{path}/versions/2/compare/1").json()
        assert (back["tasks_added"], back["tasks_removed"]) == (["alert"], ["report"])
        same = owner.get(f"{path}/versions/2/compare/2").json()
        assert not any(found for name, found in same.items() if name not in ("before", "after"))
        owner.put(path, etl(edges=[]))
        unconditional = owner.get(f"{path}/versions/1/compare/3").json()["edges_removed"][0]
        assert unconditional == {"before": "extract", "after": "load", "on": None}
        for absent in ("1/compare/4", "4/compare/1"):
            assert owner.get(f"{path}/versions/{absent}").status_code == 404
        assert Caller(factories.make_tenant()).get(f"{path}/versions/1/compare/2").status_code == 404

    def test_that_lack_an_option_of_today_have_its_default(self, owner: Caller) -> None:
        path = f"/workflows/{created(owner)['id']}"
        owner.put(path, etl(max_parallel=2))
        version = WorkflowVersion.objects.get(number=1)
        del version.definition["on_failure"], version.definition["tasks"]["load"]["when"]
        version.save()
        compared = owner.get(f"{path}/versions/1/compare/2").json()
        assert compared["options"] == [{"path": "max_parallel", "before": None, "after": 2}]
        assert compared["tasks_changed"] == []

    def test_that_would_be_refused_by_now_are_shown_and_replaced(self, owner: Caller) -> None:
        """Its time zone no longer exists."""
        schedule = {"type": "cron", "cron": "0 2 * * *", "timezone": "Europe/Berlin"}
        made = created(owner, schedule=schedule)
        [version] = WorkflowVersion.objects.all()
        version.definition["schedule"]["timezone"] = "Mars/Olympus"
        version.save()
        path = f"/workflows/{made['id']}"
        assert owner.get(path).json()["definition"] == version.definition
        assert owner.get(f"{path}/versions/1").json()["definition"] == version.definition
        assert faulty_fields(owner.put(path, version.definition)) == {"schedule.timezone"}
        assert owner.put(path, made["definition"]).json()["version"] == 2
        compared = owner.get(f"{path}/versions/1/compare/2").json()
        assert "Mars/Olympus" in str(compared)
        assert faulty_fields(owner.post(f"{path}/versions/1/restore")) == {"schedule.timezone"}
        console = Client()
        console.force_login(User.objects.create_superuser("root"))
        page = reverse("admin:jobs_workflow_change", args=[made["id"]])
        assert console.get(f"{page}?version=1").status_code == 200

    def test_that_say_nothing_new_make_no_version(self, owner: Caller) -> None:
        path = f"/workflows/{created(owner)['id']}"
        assert owner.put(path, etl()).json()["version"] == 1

    def test_are_listed_and_found_by_name(self, owner: Caller) -> None:
        first, second = created(owner), created(owner, name="other")
        listed = owner.get("/workflows").json()["results"]
        assert [one["id"] for one in listed] == [second["id"], first["id"]]
        [found] = owner.get("/workflows?name=etl").json()["results"]
        assert (found["id"], "definition" in found) == (first["id"], False)

    def test_leave_a_name_free_when_they_are_deleted(self, owner: Caller) -> None:
        path = f"/workflows/{created(owner)['id']}"
        assert owner.post("/workflows", etl()).status_code == 409
        assert owner.delete(path).status_code == 204
        assert owner.get(path).status_code == 404
        created(owner)

    def test_are_not_deleted_while_they_run(self, owner: Caller) -> None:
        workflow = created(owner)
        run = begun(owner, workflow["id"])
        assert owner.delete(f"/workflows/{workflow['id']}").status_code == 409
        play(WorkflowRun.objects.get(id=run["id"]))
        assert owner.delete(f"/workflows/{workflow['id']}").status_code == 204
        assert owner.get(f"/workflow-runs/{run['id']}").json()["state"] == "succeeded"

    def test_have_as_many_tasks_as_the_tenant_may_have_jobs(self) -> None:
        owner = Caller(factories.make_tenant(max_jobs=4))
        workflow = created(owner)
        refused = owner.post("/workflows", etl(name="second"))
        assert (refused.status_code, refused.json()["quota"], refused.json()["used"]) == (409, "max_jobs", 3)
        four = {f"t{number}": task() for number in range(4)}
        assert owner.put(f"/workflows/{workflow['id']}", etl(tasks=four, edges=[])).status_code == 200
        five = {**four, "t4": task()}
        assert owner.put(f"/workflows/{workflow['id']}", etl(tasks=five, edges=[])).status_code == 409

    def test_are_on_the_audit_trail(self, owner: Caller) -> None:
        workflow = created(owner)
        path = f"/workflows/{workflow['id']}"
        owner.put(path, etl(name="renamed"))
        run = begun(owner, workflow["id"])
        owner.post(f"/workflow-runs/{run['id']}/cancel")
        owner.delete(path)
        told = Change.objects.filter(kind="workflow").order_by("id")
        assert [(one.action, one.name) for one in told] == [
            ("created", "etl"), ("updated", "renamed"), ("run", "renamed"), ("cancelled", "renamed"),
            ("deleted", "renamed"),
        ]  # fmt: skip
        assert told[1].changes == {"name": ["etl", "renamed"], "version": [1, 2]}
        assert [one.actor_kind for one in told] == ["api_key"] * 5


class TestRefusals:
    CYCLE = [{"before": "a", "after": "b"}, {"before": "b", "after": "c"}, {"before": "c", "after": "a"}]

    @pytest.mark.parametrize(
        ("definition", "field", "words"),
        [
            ({"tasks": dict.fromkeys("abc", task()), "edges": CYCLE}, "edges", "a → b → c → a"),
            ({"edges": [{"before": "load", "after": "load"}]}, "edges[0]", "itself"),
            ({"edges": [{"before": "extract", "after": "load"}] * 2}, "edges[1]", "edges[0]"),
            ({"edges": [{"before": "extract", "after": "lode"}]}, "edges[0]", "lode"),
            ({"tasks": {}}, "tasks", "1 to 1,000"),
            ({"tasks": {f"t{n}": task() for n in range(1001)}, "edges": []}, "tasks", "1,001"),
            ({"edges": [{"before": "extract", "after": "load"}] * 10_001}, "edges", "10,001"),
            ({"tasks": {"Extract!": task()}, "edges": []}, "tasks.Extract!", "small letter"),
            ({"tasks": {"a": {"job_type": "nope"}}, "edges": []}, "tasks.a.job_type", "nope"),
            ({"tasks": {"a": task(schedule={})}, "edges": []}, "tasks.a.schedule", "no schedule"),
            (
                {"tasks": {"a": task(payload={"x": {"$from": "b.result"}}), "b": task()}, "edges": []},
                "tasks.a.payload.x",
                "b",
            ),
            ({"max_parallel": 0}, "max_parallel", "1"),
            ({"color": "red"}, "color", ""),
            ({"name": ""}, "name", ""),
        ],
    )  # fmt: skip
    def test_name_the_task_or_the_edge(
        self, owner: Caller, definition: dict[str, Any], field: str, words: str
    ) -> None:
        refused = owner.post("/workflows", etl(**definition))
        assert faulty_fields(refused) == {field}
        assert words in refused.json()["errors"][0]["message"]
        assert not Workflow.objects.exists()

    def test_change_nothing_of_a_workflow(self, owner: Caller) -> None:
        workflow = created(owner)
        path = f"/workflows/{workflow['id']}"
        faulty_fields(owner.put(path, etl(tasks={"load": {"job_type": "nope"}}, edges=[])))
        assert owner.get(path).json() == workflow

    @pytest.mark.parametrize("body", [{"inputs": 1}, [1]])
    def test_of_what_a_run_cannot_begin_with(self, owner: Caller, body: Any) -> None:
        workflow = created(owner)
        faulty_fields(owner.post(f"/workflows/{workflow['id']}/runs", body))
        assert not WorkflowRun.objects.exists()


class TestRuns:
    def test_show_what_each_task_waits_for(self, owner: Caller) -> None:
        workflow = created(owner)
        run = begun(owner, workflow["id"], input={"day": "2026-11-25"})
        assert (run["state"], run["workflow_name"], run["version"]) == ("running", "etl", 1)
        assert run["input"] == {"day": "2026-11-25"}
        extract, load, alert = run["tasks"]
        assert (extract["state"], extract["trigger_state"], extract["waits_for"]) == (
            "started",
            "pending",
            [],
        )
        assert (load["state"], load["trigger_id"], load["waits_for"]) == ("waiting", None, ["extract"])
        assert load["after"] == [{"task": "extract", "on": "on_success"}]
        assert alert["waits_for"] == ["load"]
        finish(claim_due(), lambda _: "succeeded")
        _, load, _ = owner.get(f"/workflow-runs/{run['id']}").json()["tasks"]
        trigger = owner.get(f"/triggers/{load['trigger_id']}").json()
        assert (trigger["origin"], trigger["priority"]) == ("workflow", "high")

    def test_stay_on_the_version_with_which_they_began(self, owner: Caller) -> None:
        workflow = created(owner)
        run = begun(owner, workflow["id"])
        owner.put(f"/workflows/{workflow['id']}", etl(tasks={"extract": task()}, edges=[]))
        assert play(WorkflowRun.objects.get(id=run["id"])) == [["extract"], ["load"]]
        shown = owner.get(f"/workflow-runs/{run['id']}").json()
        assert (shown["version"], shown["state"]) == (1, "succeeded")
        assert begun(owner, workflow["id"])["version"] == 2

    def test_are_listed_by_workflow_and_state(self, owner: Caller) -> None:
        workflow, other = created(owner), created(owner, name="other")
        first, second = begun(owner, workflow["id"]), begun(owner, workflow["id"])
        third = begun(owner, other["id"])
        owner.post(f"/workflow-runs/{first['id']}/cancel")

        def listed(query: str) -> list[str]:
            return [run["id"] for run in owner.get(f"/workflow-runs{query}").json()["results"]]

        assert listed("") == [third["id"], second["id"], first["id"]]
        assert listed(f"?workflow={workflow['id']}") == [second["id"], first["id"]]
        assert listed("?state=cancelled") == [first["id"]]
        faulty_fields(owner.get("/workflow-runs?state=gone"))

    def test_begin_once_for_an_idempotency_key(self, owner: Caller) -> None:
        workflow = created(owner)
        path, header = f"/workflows/{workflow['id']}/runs", {"Idempotency-Key": "monday"}
        first, again = owner.post(path, **header), owner.post(path, **header)
        assert first.json() == again.json()
        assert again["Idempotency-Replayed"] == "true"
        assert WorkflowRun.objects.count() == 1

    def test_are_retried_from_what_failed(self, owner: Caller) -> None:
        workflow = created(owner)
        run = begun(owner, workflow["id"])
        play(WorkflowRun.objects.get(id=run["id"]), {"load": "dead"})
        path = f"/workflow-runs/{run['id']}"
        assert owner.get(path).json()["state"] == "failed"
        assert owner.post(f"{path}/retry").json()["state"] == "running"
        assert owner.post(f"{path}/retry").status_code == 409
        assert play(WorkflowRun.objects.get(id=run["id"])) == [["load"]]
        assert owner.get(path).json()["state"] == "succeeded"

    def test_begin_again_with_the_tasks_named(self, owner: Caller) -> None:
        run = begun(owner, created(owner)["id"])
        play(WorkflowRun.objects.get(id=run["id"]))
        path = f"/workflow-runs/{run['id']}/retry"
        assert set(faulty_fields(owner.post(path, {"tasks": ["load", "lode"]}))) == {"tasks[1]"}
        assert set(faulty_fields(owner.post(path, {"tasks": ["load", "a\0"]}))) == {"tasks[1]"}
        assert WorkflowRun.objects.get().state == "succeeded"
        assert owner.post(path, {"tasks": ["load"]}).json()["state"] == "running"
        assert play(WorkflowRun.objects.get(id=run["id"])) == [["load"]]

    def test_are_paused_and_resumed(self, owner: Caller) -> None:
        run = begun(owner, created(owner)["id"])
        path = f"/workflow-runs/{run['id']}"
        paused = owner.post(f"{path}/pause").json()
        assert (paused["state"], paused["paused_at"] is None) == ("running", False)
        assert owner.post(f"{path}/pause").json() == paused
        assert owner.post(f"{path}/resume").json()["paused_at"] is None
        assert owner.post(f"{path}/resume").status_code == 200
        noted = Change.objects.filter(kind="workflow", action="updated").order_by("id")
        assert [change.changes["paused"] for change in noted] == [[False, True], [True, False]]
        play(WorkflowRun.objects.get(id=run["id"]))
        for verb in ("pause", "resume"):
            assert owner.post(f"{path}/{verb}").status_code == 409
            assert Caller(factories.make_tenant()).post(f"{path}/{verb}").status_code == 404

    def test_that_ended_cannot_be_cancelled(self, owner: Caller) -> None:
        run = begun(owner, created(owner)["id"])
        play(WorkflowRun.objects.get(id=run["id"]))
        assert owner.post(f"/workflow-runs/{run['id']}/cancel").status_code == 409

    def test_are_read_by_as_many_statements_however_many_tasks_they_have(self, owner: Caller) -> None:
        def statements(tasks: int) -> int:
            keys = [f"t{number}" for number in range(tasks)]
            edges = [{"before": "t0", "after": key} for key in keys[1:]]
            workflow = created(owner, name=f"of {tasks}", tasks=dict.fromkeys(keys, task()), edges=edges)
            run = begun(owner, workflow["id"])
            with CaptureQueriesContext(connection) as asked:
                assert len(owner.get(f"/workflow-runs/{run['id']}").json()["tasks"]) == tasks
            return len(asked)

        assert statements(2) == statements(300)


class TestRetention:
    def test_drops_only_so_many_task_runs_at_once(
        self, owner: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A run with maps may have a hundred thousand task runs."""
        monkeypatch.setattr("jobs.store.workflows.runs._MAX_PURGED_ROWS", 4)
        workflow = created(owner)
        for _ in range(3):
            play(WorkflowRun.objects.get(id=begun(owner, workflow["id"])["id"]))
        all_time: dict[str, Any] = {"retention": -24 * factories.HOUR, "limit": 10}
        # Two runs of three tasks; then the rest.
        assert (store.purge_runs(**all_time), WorkflowRun.objects.count()) == (10, 1)
        assert (store.purge_runs(**all_time), WorkflowRun.objects.count()) == (1, 0)

    def test_drops_runs_and_then_deleted_workflows_and_their_hidden_jobs(self, owner: Caller) -> None:
        workflow = created(owner)
        owner.put(f"/workflows/{workflow['id']}", etl(max_parallel=1))
        run = begun(owner, workflow["id"])
        play(WorkflowRun.objects.get(id=run["id"]))
        definitions.delete_workflow(tenant=owner.tenant, workflow_id=workflow["id"])
        none: dict[str, Any] = {"retention": 24 * factories.HOUR, "limit": 10}
        all_time: dict[str, Any] = {"retention": -24 * factories.HOUR, "limit": 10}
        assert (store.purge_runs(**none), store.purge_deleted(**none)) == (0, 0)
        assert store.purge_deleted(**all_time) == 0  # it has a run
        assert store.purge_runs(**all_time) == 1
        # Each version has three tasks.
        assert store.purge_deleted(**all_time | {"limit": 3}) == 1
        assert Workflow.objects.exists()
        assert Job.with_hidden.filter(deleted_at=None).count() == 3
        deleted_at = Workflow.objects.get().deleted_at
        assert store.purge_deleted(**all_time) == 1
        assert not Workflow.objects.exists()
        assert {job.deleted_at for job in Job.with_hidden.all()} == {deleted_at}
