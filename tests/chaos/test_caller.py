"""The load's caller of the API."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from chaos import history
from chaos.history import Called, JobMade, Journal
from chaos.load import caller as callers
from chaos.load.caller import MAX_IDS, Caller
from chaos.load.definitions import Plan
from tests.chaos.histories import a_job

#: What the API answers, one call after the other.
Answers = list[int]


@pytest.fixture
def answers() -> Answers:
    return []


@pytest.fixture
def port(answers: Answers) -> Iterator[int]:
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
            body = json.dumps({"results": results}).encode()
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
    caller = Caller(port=port, receiver_url="", journal=Journal(tmp_path / "journal.jsonl"))
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
