"""``workflows`` from the command line."""

from pathlib import Path
from typing import Any

import pytest

from carillon import client
from jobs.models import Workflow, WorkflowRun
from tests.cli.conftest import Command
from tests.workflows.playing import claim_due, finish, key_of

# What follows from the end of a task is decided at a commit.
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
    """While a command waits a worker does what is due, one task after the other; it succeeds unless this says else."""
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
        assert (edited.err, edited.json["version"]) == ("etl: version 2.\n", 2)
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
