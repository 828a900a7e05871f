"""``workflows`` from the command line."""

from pathlib import Path
from typing import Any

import pytest

from carillon import client
from jobs.models import Workflow, WorkflowRun
from tests.cli.conftest import Command
from tests.workflows.playing import claim_due, finish, key_of

# The consequences of a task's end are decided at a commit.
pytestmark = pytest.mark.django_db(transaction=True)

ETL = """
name: etl
tasks:
  alert: {job_type: noop}
  load: {job_type: noop}
  extract: {job_type: noop}
edges:
  - {before: extract, after: load}
  - {before: load, after: alert, on: on_failure}
"""


@pytest.fixture
def etl(tmp_path: Path) -> str:
    path = tmp_path / "etl.yaml"
    path.write_text(ETL)
    return str(path)


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """While a command waits, a worker carries out due tasks, one by one; each succeeds unless this says otherwise."""
    ends: dict[str, str] = {}

    def work(seconds: float) -> None:
        finish(claim_due(), lambda row: ends.get(key_of(row.id), "succeeded"))

    monkeypatch.setattr(client, "pause", work)
    return ends


def run_id(shown: Any) -> str:
    return str(shown.json["id"])


class TestDefinitions:
    def test_are_created_edited_and_kept_by_the_same_command(self, carillon: Command, etl: str) -> None:
        assert carillon("workflows", "apply", "-f", etl).err == "etl: created.\n"
        assert carillon("workflows", "apply", "-f", etl).err == "etl: as it was.\n"
        Path(etl).write_text(ETL + "max_parallel: 2\n")
        edited = carillon("workflows", "apply", "-f", etl, "-o", "json")
        assert (edited.err, edited.json["version"]) == ("etl: updated to version 2.\n", 2)
        assert carillon("workflows", "list", "-o", "json").json[0]["name"] == "etl"
        assert carillon("workflows", "get", "etl", "-o", "json").json["definition"]["max_parallel"] == 2

    def test_show_their_schedule(self, carillon: Command, etl: str) -> None:
        Path(etl).write_text(ETL + "schedule: {type: cron, cron: '@daily'}\n")
        carillon("workflows", "apply", "-f", etl)
        [listed] = carillon("workflows", "list", "-o", "json").json
        assert (listed["schedule_status"], listed["next_fire_at"][11:]) == ("active", "00:00:00Z")
        assert "active" in carillon("workflows", "list").out
        got = carillon("workflows", "get", "etl", "-o", "json").json
        assert got["definition"]["schedule"]["cron"] == "@daily"

    def test_that_are_wrong_are_told_by_task_and_edge_and_change_nothing(self, carillon: Command) -> None:
        wrong = ETL.replace("after: load", "after: lode").replace(
            "alert: {job_type: noop}", "alert: {job_type: nope}"
        )
        refused = carillon("workflows", "apply", "-f", "-", stdin=wrong)
        assert refused.code == 1
        assert "lode" in refused.err
        assert not Workflow.objects.exists()

    def test_need_a_name(self, carillon: Command) -> None:
        refused = carillon("workflows", "apply", "-f", "-", stdin="tasks: {}")
        assert (refused.code, "name → Is required" in refused.err) == (2, True)

    def test_are_drawn_with_each_task_right_of_those_before_it(self, carillon: Command, etl: str) -> None:
        carillon("workflows", "apply", "-f", etl)
        lines = carillon("workflows", "graph", "etl").out.splitlines()
        assert [line.partition("noop")[0].rstrip() for line in lines[1:]] == [
            " extract",
            "   load",
            "     alert",
        ]
        assert lines[3].endswith("load (on_failure)")
        shown = carillon("workflows", "graph", "etl", "-o", "json").json
        assert {task["task"]: task["after"] for task in shown}["alert"] == [
            {"task": "load", "on": "on_failure"}
        ]

    def test_are_listed_compared_and_restored_by_version(self, carillon: Command, etl: str) -> None:
        carillon("workflows", "apply", "-f", etl)
        first = carillon("workflows", "diff", "etl")
        assert (first.code, first.err) == (2, "etl has one version; name two to compare.\n")
        changed = ETL.replace("load: {job_type: noop}", "load: {job_type: noop, priority: high}")
        Path(etl).write_text(changed.replace(", on: on_failure", "") + "max_parallel: 2\n")
        carillon("workflows", "apply", "-f", etl)
        differ = carillon("workflows", "diff", "etl")
        assert (differ.code, differ.err) == (6, "etl: 4 differences from version 1 to 2.\n")
        assert [line.split() for line in differ.out.splitlines()[1:]] == [
            ["changed", "workflow", "max_parallel", "2"],
            ["changed", "task", "load", "priority", "high"],
            ["added", "edge", "load", "→", "alert"],
            ["removed", "edge", "load", "→", "alert", "(on_failure)"],
        ]
        assert carillon("workflows", "diff", "etl", "2", "1", "-o", "json").json["edges_added"] == [
            {"before": "load", "after": "alert", "on": "on_failure"}
        ]
        assert carillon("workflows", "diff", "etl", "1", "3").code == 3
        assert carillon("workflows", "restore", "etl", "2").err == "etl: as it was.\n"
        assert carillon("workflows", "restore", "etl", "1").err == "etl: version 3 is as version 1 was.\n"
        same = carillon("workflows", "diff", "etl", "1")
        assert (same.code, same.out, same.err) == (0, "", "etl: no differences from version 1 to 3.\n")
        listed = carillon("workflows", "versions", "etl", "-o", "json").json
        assert [(one["number"], one["task_count"]) for one in listed] == [(3, 3), (2, 3), (1, 3)]

    def test_are_deleted_once_nothing_of_them_runs(self, carillon: Command, etl: str) -> None:
        carillon("workflows", "apply", "-f", etl)
        run = run_id(carillon("workflows", "run", "etl", "--no-wait", "-o", "json"))
        refused = carillon("workflows", "delete", "etl")
        assert (refused.code, "cancel them, or wait" in refused.err) == (1, True)
        carillon("workflows", "cancel", run)
        finish(claim_due(), lambda _: "cancelled")
        assert carillon("workflows", "delete", "etl").err == "etl is deleted.\n"
        assert carillon("workflows", "get", "etl").code == 3

    def test_that_there_are_not_are_named(self, carillon: Command) -> None:
        refused = carillon("workflows", "run", "etl")
        assert (refused.code, refused.err) == (
            3, "No workflow is named 'etl'; `carillon workflows list` shows them.\n",
        )  # fmt: skip


class TestRuns:
    def test_are_followed_to_their_end(self, carillon: Command, etl: str, ends: dict[str, str]) -> None:
        carillon("workflows", "apply", "-f", etl)
        done = carillon("workflows", "run", "etl", "--input", '{"day": 1}')
        run = WorkflowRun.objects.get()
        assert (done.code, run.input, run.state) == (0, {"day": 1}, "succeeded")
        assert [line.split()[:2] for line in done.out.splitlines()[1:]] == [
            ["extract", "succeeded"], ["load", "succeeded"], ["alert", "skipped"],
        ]  # fmt: skip
        assert done.err == f"etl version 1: succeeded; run {run.id}.\n"

    def test_that_fail_say_where_and_how_to_go_on(
        self, carillon: Command, etl: str, ends: dict[str, str]
    ) -> None:
        carillon("workflows", "apply", "-f", etl)
        ends["load"] = "dead"
        failed = carillon("workflows", "run", "etl", "-o", "json")
        assert (failed.code, failed.json["state"]) == (1, "failed")
        assert f"Did not succeed: load. `carillon workflows retry {run_id(failed)}`" in failed.err
        ends.clear()
        assert carillon("workflows", "retry", run_id(failed)).code == 0
        assert carillon("workflows", "watch", run_id(failed)).code == 0
        assert carillon("workflows", "retry", run_id(failed)).code == 1
        again = carillon("workflows", "retry", run_id(failed), "--task", "load", "-o", "json")
        assert again.json["state"] == "running"

    def test_are_listed_paused_resumed_and_cancelled(self, carillon: Command, etl: str) -> None:
        carillon("workflows", "apply", "-f", etl)
        run = run_id(carillon("workflows", "run", "etl", "--no-wait", "-o", "json"))
        assert [
            row["id"] for row in carillon("workflows", "runs", "--workflow", "etl", "-o", "json").json
        ] == [run]
        assert "paused since" in carillon("workflows", "pause", run).err
        assert "paused" not in carillon("workflows", "resume", run).err
        assert carillon("workflows", "cancel", run, "-o", "json").json["cancel_requested"] is True
        assert "waits for" in carillon("workflows", "show", run).out

    def test_are_explained_as_a_whole_and_by_task(self, carillon: Command, etl: str) -> None:
        carillon("workflows", "apply", "-f", etl)
        run = run_id(carillon("workflows", "run", "etl", "--no-wait", "-o", "json"))
        whole = carillon("workflows", "explain", run)
        assert "Waits for extract: pending, due at" in whole.out
        assert "tasks         BLOCKING" in whole.out
        of_task = carillon("workflows", "explain", run, "--task", "alert")
        assert "Waits for load: waiting for extract" in of_task.out
        assert "upstream      BLOCKING" in of_task.out
        assert (
            carillon("workflows", "explain", run, "--task", "load", "-o", "json").json["task"]["task"]
            == "load"
        )
        assert carillon("workflows", "explain", run, "--task", "lode").code == 1

    def test_begin_once_for_an_idempotency_key(self, carillon: Command, etl: str) -> None:
        carillon("workflows", "apply", "-f", etl)
        for _ in range(2):
            assert carillon("workflows", "run", "etl", "--no-wait", "--idempotency-key", "monday").code == 0
        assert WorkflowRun.objects.count() == 1

    def test_of_what_is_no_id_and_input_that_is_no_json_are_refused(
        self, carillon: Command, etl: str
    ) -> None:
        carillon("workflows", "apply", "-f", etl)
        assert (carillon("workflows", "watch", "x").code, carillon("workflows", "pause", "..").code) == (2, 2)
        refused = carillon("workflows", "run", "etl", "--input", "{")
        assert (refused.code, "--input: not JSON" in refused.err) == (2, True)
        assert not WorkflowRun.objects.exists()


class TestAnswers:
    @pytest.fixture
    def run(self, carillon: Command, tmp_path: Path) -> str:
        path = tmp_path / "release.yaml"
        path.write_text(
            "name: release\n"
            "tasks:\n"
            "  paid: {wait: {type: signal}}\n"
            "  check: {wait: {type: approval, message: 'Release it?'}}\n"
            "  each: {job_type: noop, map: {over: {$from: workflow.input}}}\n"
        )
        applied = carillon("workflows", "apply", "-f", str(path))
        assert applied.code == 0, applied.err
        return run_id(carillon("workflows", "run", "release", "--input", "[1, 2]", "--no-wait", "-o", "json"))

    def test_are_given_by_commands(self, carillon: Command, run: str, ends: dict[str, str]) -> None:
        shown = carillon("workflows", "show", run).out
        assert all(told in shown for told in ("signal paid", "approval: Release it?", "2 of 2 items"))
        items = carillon("workflows", "items", run, "each", "-o", "json").json
        assert [(one["item"], one["value"], one["state"]) for one in items] == [
            (0, 1, "started"),
            (1, 2, "started"),
        ]
        carillon("workflows", "signal", run, "paid", "--payload", '{"sum": 5}')
        approved = carillon("workflows", "approve", run, "check", "--comment", "Go.", "-o", "json").json
        assert {task["task"]: task["state"] for task in approved["tasks"]} == {
            "paid": "succeeded",
            "check": "succeeded",
            "each": "started",
        }
        again = carillon("workflows", "refuse", run, "check")
        assert again.code == 1
        assert "does not wait for an approval now" in again.err
        assert carillon("workflows", "watch", run, "-o", "json").json["state"] == "succeeded"

    def test_skip_what_failed(self, carillon: Command, etl: str, ends: dict[str, str]) -> None:
        ends["load"] = "dead"
        carillon("workflows", "apply", "-f", etl)
        run = run_id(carillon("workflows", "run", "etl", "-o", "json"))
        ends.clear()
        carillon("workflows", "retry", run, "--skip", "load")
        assert carillon("workflows", "watch", run, "-o", "json").json["state"] == "succeeded"
