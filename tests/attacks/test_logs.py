"""A log must never show the values of local variables: among them are passwords and payloads.

An exception is logged over each entry point while a canary stands in locals, arguments and fields. Both formats are
read; the control is the same records in the same formats with locals on, which show the canary.
"""

import io
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import structlog
from django.db import connection
from django.test import Client

from jobs import telemetry
from jobs.actions import jobs as job_actions
from jobs.engine.steps.step import Step
from jobs.engine.worker import brokerless
from scheduler_project.processes import acting
from tests.factories import make_tenant, new_id
from tests.interfaces.api.caller import Caller

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = Path(__file__).resolve().parents[2]
CANARY = "Canary-7f3a-Passw0rd!"


def _with_locals() -> list[tuple[str, logging.Formatter]]:
    """structlog's own defaults, which show locals."""
    json = [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()]
    console = [
        structlog.dev.ConsoleRenderer(
            colors=False, exception_formatter=structlog.dev.RichTracebackFormatter()
        )
    ]
    return [
        (name, structlog.stdlib.ProcessorFormatter(processors=[_no_meta, *renderers]))
        for name, renderers in (("json", json), ("console", console))
    ]


_no_meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta


class Log:
    """Every format's output of the logged records, and its output if it showed locals."""

    def __init__(self) -> None:
        formats = telemetry.FORMATS
        self.ours = {name: self._sink(telemetry.formatter(name)) for name in formats}
        self.open = {name: self._sink(formatter) for name, formatter in _with_locals()}

    def _sink(self, formatter: logging.Formatter) -> io.StringIO:
        text = io.StringIO()
        handler = logging.StreamHandler(text)
        handler.setFormatter(formatter)
        logging.getLogger().addHandler(handler)
        self._handlers = [*getattr(self, "_handlers", []), handler]
        return text

    def close(self) -> None:
        for handler in self._handlers:
            logging.getLogger().removeHandler(handler)


@pytest.fixture
def log() -> Iterator[Log]:
    log = Log()
    yield log
    log.close()


class Boom(RuntimeError):
    """The exception that the code under attack raises: no code expects it."""


def _explode(*args: Any, **kwargs: Any) -> Any:
    password = CANARY
    held = {"payload": {"db_password": CANARY}, "args": args, "kwargs": kwargs}
    raise Boom(f"{len(password)} {len(held)}")


def _login_while_the_database_is_away() -> None:
    connection.close()
    with mock.patch.dict(connection.settings_dict, {"HOST": "/nowhere", "PORT": "1"}):
        answer = Client(raise_request_exception=False).post(
            "/admin/login/", {"username": "admin", "password": CANARY}
        )
    connection.close()
    assert answer.status_code == 500


def _page() -> None:
    with mock.patch.object(acting, "operator", _explode):
        answer = Client(raise_request_exception=False).get("/admin/", {"q": "x"}, HTTP_X_CANARY=CANARY)
    assert answer.status_code == 500


def _api() -> None:
    caller = Caller(make_tenant(), scopes=("write",))
    caller.client.raise_request_exception = False
    body = {
        "name": "n",
        "job_type": "webhook",
        "schedule": {"type": "immediate"},
        "payload": {"url": "https://example.org/", "headers": {"Authorization": CANARY}},
    }
    with mock.patch.object(job_actions, "create_job", _explode):
        assert caller.post("/jobs", body).status_code == 500


def _worker() -> None:
    """Celery empties the frames of a task that fails; a worker's own threads keep theirs."""
    message = SimpleNamespace(job_type="webhook", items=[[str(new_id()), 1]])
    with mock.patch.object(brokerless.messages, "take", return_value=message):
        assert brokerless.Brokerless(job_types=["webhook"], perform=_explode, slots=1)._quietly() is False


def _beat_step() -> None:
    assert Step("attack", _explode).turn(None) is False


ENTRIES = (_login_while_the_database_is_away, _page, _api, _worker, _beat_step)


@pytest.mark.parametrize("enter", ENTRIES, ids=lambda enter: enter.__name__.strip("_"))
def test_a_traceback_shows_no_locals(log: Log, enter: Callable[[], None], job_types: None) -> None:
    enter()
    for name, sink in log.ours.items():
        text = sink.getvalue()
        assert "Traceback" in text or '"frames"' in text, f"{name}: nothing was logged"
        assert "_explode" in text or "OperationalError" in text, f"{name}: the frames are gone"
        assert CANARY not in text, name
    for name, sink in log.open.items():  # the control
        assert CANARY in sink.getvalue(), name


class TestACommandThatFails:
    HOOK = "sys.excepthook = lambda *e: print(''.join(traceback.TracebackException(*e, capture_locals=True).format()))"

    @pytest.mark.parametrize(("hook", "shown"), [("", False), (HOOK, True)], ids=["ours", "control"])
    def test_shows_no_locals(self, hook: str, shown: bool) -> None:
        """The interpreter prints an exception that a command lets pass; no code of ours may have changed how."""
        arguments = ["manage.py", "create_tenant", "acme", "--name", CANARY]
        script = f"import runpy, sys, traceback; {hook}\nsys.argv = {arguments}"
        done = subprocess.run(
            [sys.executable, "-c", f"{script}\nrunpy.run_path('manage.py', run_name='__main__')"],
            cwd=ROOT,
            env=os.environ | {"DATABASE_URL": "postgresql://carillon@127.0.0.1:1/carillon"},
            capture_output=True,
            text=True,
            check=False,
        )
        said = done.stdout + done.stderr
        assert "Traceback" in said
        assert (CANARY in said) is shown
