"""The load's caller of the API."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from chaos import history
from chaos.history import Called, JobMade, Journal, RunAsked
from chaos.load import caller as callers
from chaos.load.caller import MAX_IDS, Caller
from chaos.load.definitions import Plan
from chaos.load.workflows import Runs
from chaos.load.workflows import runs as runs_of_workflows
from tests.chaos.histories import a_job
from tests.chaos.telling import PLANS, a_workflow

#: The API's answers, one call after the other.
Answers = list[int]


@pytest.fixture
def answers() -> Answers:
    return []


@pytest.fixture
def keys() -> list[str | None]:
    """The ``Idempotency-Key`` of each call."""
    return []


@pytest.fixture
def port(answers: Answers, keys: list[str | None]) -> Iterator[int]:
    class Api(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
            self._answer(
                [{"id": job["name"]} if job["name"] != "bad" else {} for job in sent.get("jobs", ())]
            )

        def do_GET(self) -> None:
            ids = self.path.rpartition("=")[2].split(",")
            self._answer([{"id": job_id, "created_at": "2026-01-01T00:00:00Z"} for job_id in ids])

        def _answer(self, results: list[dict[str, str]]) -> None:
            keys.append(self.headers["Idempotency-Key"])
            run = {"id": "run", "scheduled_for": "2026-01-01T00:00:00Z"}
            body = json.dumps({"results": results} | run).encode()
            self.send_response(answers.pop(0))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Api) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.fixture
def caller(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Caller:
    monkeypatch.setattr(callers, "AGAIN_SECONDS", 0.01)
    caller = Caller(web=f"127.0.0.1:{port}", receiver_url="", journal=Journal(tmp_path / "journal.jsonl"))
    caller.keys["acme"] = "key"
    return caller


@pytest.mark.parametrize("refusal", [429, 503])
def test_asks_again_where_it_came_too_often(
    caller: Caller, answers: Answers, tmp_path: Path, refusal: int
) -> None:
    answers += [refusal, refusal, 200]
    caller.ask(a_job(), "pause", over=threading.Event())
    [called] = history.read(tmp_path / "journal.jsonl")
    assert isinstance(called, Called)
    assert called.acknowledged_at is not None
    assert answers == []


def test_breaks_off_where_its_call_is_wrong(caller: Caller, answers: Answers) -> None:
    answers += [404]
    with pytest.raises(RuntimeError, match="POST /jobs/job/pause: 404"):
        caller.ask(a_job(), "pause", over=threading.Event())


def test_makes_jobs_together(caller: Caller, answers: Answers, tmp_path: Path) -> None:
    def plans(*names: str) -> list[Plan]:
        return [Plan(tenant="acme", name=name, schedule={"type": "immediate"}) for name in names]

    names = [f"drip-{n}" for n in range(MAX_IDS + 1)]
    answers += [200] * 4
    assert [job.job_id for job in caller.make_together(plans(*names))] == names
    with pytest.raises(RuntimeError, match="bulk"):
        caller.make_together(plans("one", "bad"))
    assert answers == []
    assert [each.name for each in caller.made] == names
    assert all(isinstance(each, JobMade) for each in history.read(tmp_path / "journal.jsonl"))


class TestRuns:
    @pytest.fixture
    def runs(self, caller: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
        monkeypatch.setattr(runs_of_workflows, "AGAIN_SECONDS", 0.01)
        return Runs(caller=caller, journal=Journal(tmp_path / "runs.jsonl"))

    def test_are_asked_for_again_under_the_same_key_until_they_are_acknowledged(
        self, runs: Runs, answers: Answers, keys: list[str | None], tmp_path: Path
    ) -> None:
        answers += [503, 409, 429, 201, 201]
        for _ in range(2):
            runs.begin(a_workflow("fan"), PLANS["fan"], over=threading.Event())
        first, second = history.read(tmp_path / "runs.jsonl")
        assert isinstance(first, RunAsked)
        assert (first.number, first.run_id) == (1, "run")
        assert first.acknowledged_at is not None
        assert isinstance(second, RunAsked)
        assert second.number == 2
        assert len(set(keys[:4])) == 1
        assert len(set(keys)) == 2

    def test_may_have_begun_where_the_load_ends_before_that(
        self, runs: Runs, answers: Answers, tmp_path: Path
    ) -> None:
        answers += [503]
        over = threading.Event()
        over.set()
        runs.begin(a_workflow("fan"), PLANS["fan"], over=over)
        [asked] = history.read(tmp_path / "runs.jsonl")
        assert isinstance(asked, RunAsked)
        assert (asked.acknowledged_at, asked.run_id) == (None, "")

    def test_break_off_where_they_are_refused(self, runs: Runs, answers: Answers) -> None:
        answers += [422]
        with pytest.raises(RuntimeError, match="POST /workflows/fan-id/runs: 422"):
            runs.begin(a_workflow("fan"), PLANS["fan"], over=threading.Event())
