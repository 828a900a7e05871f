"""``carillon tail``: every event once, even if the server breaks off; and the command as its users start it."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest
import requests

from jobs.api.events import stream as streams
from tests.cli.conftest import ApiAdapter, Command
from tests.interfaces.api.caller import Caller, noop_job
from tests.workflows.playing import begin, make_workflow, play

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def names(owner: Caller, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Jobs that were created, one by one; streams end at once."""
    monkeypatch.setattr(streams, "MAX_SECONDS", 0.0)
    found = [f"job-{number}" for number in range(3)]
    for name in found:
        owner.post("/jobs", noop_job(name=name))
    return found


def named(out: str) -> list[str]:
    return [json.loads(line)["data"]["job_name"] for line in out.splitlines()]


class TestTail:
    def test_prints_all_that_is_kept_in_order(self, carillon: Command, names: list[str]) -> None:
        ended = carillon("tail", "--after", "start", "--count", "3", "-o", "json")
        assert (ended.code, named(ended.out)) == (0, names), ended.err

    @pytest.mark.parametrize("way", [[], ["--no-stream"]])
    def test_prints_each_event_once_though_the_server_goes_away(
        self,
        carillon: Command,
        api: ApiAdapter,
        owner: Caller,
        names: list[str],
        way: list[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        pauses = []

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 1:
                api.faults = [("before", requests.ConnectionError("refused"))] * 6
            if len(pauses) == 8:
                owner.post("/jobs", noop_job(name="meanwhile"))

        monkeypatch.setattr("carillon.client.pause", pause)
        ended = carillon("tail", "--after", "start", "--count", "4", "-o", "json", *way)
        assert (ended.code, named(ended.out)) == (0, [*names, "meanwhile"]), ended.err
        assert "no event will be missed" in ended.err

    def test_of_one_job_and_kind(self, carillon: Command, owner: Caller, names: list[str]) -> None:
        job = owner.get("/jobs/by-name/job-1").json()
        owner.post(f"/jobs/{job['id']}/pause")
        ended = carillon("tail", "--job", "job-1", "--kind", "job.paused", "--after", "start", "--count", "1")
        assert "job.paused" in ended.out
        assert ended.out.count("\n") == 1

    def test_of_one_workflow_its_runs_and_their_tasks(
        self, carillon: Command, owner: Caller, names: list[str]
    ) -> None:
        workflow = make_workflow(owner.tenant, tasks=["load"], name="etl")
        make_workflow(owner.tenant, tasks=["load"], name="other")
        play(begin(workflow), {"load": "dead"})
        ended = carillon("tail", "--workflow", "etl", "--after", "start", "--count", "4")
        assert [line.split()[1:3] for line in ended.out.splitlines()] == [
            ["workflow.created", "etl"],
            ["workflow_run.started", "etl"],
            ["trigger.dead", "etl/load"],
            ["workflow_run.failed", "etl"],
        ]

    def test_ends_for_a_place_that_is_none(self, carillon: Command, names: list[str]) -> None:
        ended = carillon("tail", "--after", "yesterday")
        assert ended.code == 1
        assert "after → " in ended.err


class TestTheInstalledCommand:
    @pytest.mark.usefixtures("requests_end")
    def test_follows_a_server_live(
        self, owner: Caller, live_server: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(streams, "QUIET_SECONDS", 0.2)  # so it sees soon that the reader is gone
        environment = {"CARILLON_URL": live_server.url, "CARILLON_API_KEY": str(owner.token)}
        owner.post("/jobs", noop_job(name="before"))
        command = [sys.executable, "-m", "carillon", "tail", "--after", "start", "--count", "2", "-o", "json"]
        with subprocess.Popen(
            command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True
        ) as tail:
            assert tail.stdout is not None
            assert named(tail.stdout.readline()) == ["before"]
            owner.post("/jobs", noop_job(name="after"))
            assert named(tail.stdout.readline()) == ["after"]
            assert tail.wait(30) == 0

    def test_says_where_nobody_listens(self) -> None:
        environment = {"CARILLON_URL": "http://127.0.0.1:9", "CARILLON_API_KEY": "ck_x"}
        ended = subprocess.run(
            [sys.executable, "-m", "carillon", "tenant"],
            env={**os.environ, **environment, "NO_PROXY": "*"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 5
        assert "No answer from http://127.0.0.1:9/api/v1" in ended.stderr
