"""``carillon("jobs", "list")`` runs a command in this process; the API answers it within the test's transaction."""

import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from django.test import Client
from requests.adapters import HTTPAdapter
from urllib3 import HTTPResponse

from carillon import client
from carillon.app import main
from tests.factories import make_tenant
from tests.interfaces.api.caller import Caller

URL = "http://carillon.test"


class ApiAdapter(HTTPAdapter):
    """Requests to Django's test client. A call raises the first of ``faults``, ``before`` its answer or after it."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[requests.PreparedRequest] = []
        self.faults: list[tuple[str, Exception]] = []
        self._client = Client(enforce_csrf_checks=True, raise_request_exception=False)

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        self.sent.append(request)
        fault = self.faults.pop(0) if self.faults else None
        if fault and fault[0] == "before":
            raise fault[1]
        answer = self._answer(request)
        if fault:
            raise fault[1]
        return answer

    def _answer(self, request: requests.PreparedRequest) -> requests.Response:
        parts = urlsplit(str(request.url))
        body = request.body or b""
        response = self._client.generic(
            str(request.method),
            parts.path + (f"?{parts.query}" if parts.query else ""),
            body if isinstance(body, bytes) else body.encode(),
            content_type=request.headers.get("Content-Type", "application/octet-stream"),
            headers={name: str(value) for name, value in request.headers.items() if name != "Content-Length"},
        )
        raw = HTTPResponse(
            io.BytesIO(b"".join(response.streaming_content) if response.streaming else response.content),
            headers=dict(response.items()),
            status=response.status_code,
            preload_content=False,
        )
        return self.build_response(request, raw)


@dataclass
class Ended:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> ApiAdapter:
    adapter = ApiAdapter()
    monkeypatch.setattr(requests.Session, "get_adapter", lambda session, url: adapter)
    monkeypatch.setattr(client, "pause", lambda seconds: None)
    return adapter


@pytest.fixture
def owner(db: None, job_types: None) -> Caller:
    return Caller(make_tenant(), scopes=("read", "write"))


Command = Callable[..., Ended]


def run_command(capsys: pytest.CaptureFixture[str], *arguments: str) -> Ended:
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    captured = capsys.readouterr()
    return Ended(int(ended.value.code or 0), captured.out, captured.err)


@pytest.fixture
def carillon(
    api: ApiAdapter, owner: Caller, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Runs a command with the owner's key; ``stdin`` is its input."""
    monkeypatch.setenv("CARILLON_URL", URL)
    monkeypatch.setenv("CARILLON_API_KEY", str(owner.token))

    def run(*arguments: str, stdin: str = "") -> Ended:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        return run_command(capsys, *arguments)

    return run
