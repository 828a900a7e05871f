"""The load's caller of the API."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from chaos import history
from chaos.history import Called, Journal
from chaos.load import caller as callers
from chaos.load.caller import Caller
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
            self.send_response(answers.pop(0))
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

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
