"""Callers that never finish a request, or send words that are not theirs to send, against README's web server.

The control of each attack on connections is gunicorn's own ``gthread``, which the same callers stop.
"""

import http.client
import json
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import psutil
import pytest
from django.db import connection, transaction
from django.test import Client

from jobs.models import Job
from scheduler_project.web.intake import MAX_BODY_BYTES
from scheduler_project.web.turns import Bounds
from scheduler_project.web.worker import HEAD_SECONDS
from stage.waiting import wait_until
from tenants.actions import create_api_key
from tests.cluster.web import Web, serving
from tests.factories import make_tenant

pytestmark = pytest.mark.django_db(transaction=True)
#: The server's threads: 2 for calls that wait, 8 for the rest.
THREADS = 10
#: Calls of one key that may be at work at once.
OF_ONE = THREADS // 4
LINES = Bounds()
PROXY = "127.0.0.2"
ENVIRONMENT = {"CARILLON_LONG_POLLS": "2", "CARILLON_TRUSTED_PROXIES": PROXY}
#: Options with gunicorn's own behaviour.
OPEN_DOORS = ("--worker-class", "gthread", "--forwarder-headers", "SCRIPT_NAME,PATH_INFO")
HEAD = b"Host: 127.0.0.1\r\n"


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("web")


@pytest.fixture(scope="module")
def web(django_db_setup: None, logs: Path) -> Iterator[Web]:
    with serving(logs / "ours.log", **ENVIRONMENT) as server:
        yield server


@pytest.fixture(scope="module")
def gthread(django_db_setup: None, logs: Path) -> Iterator[Web]:
    with serving(logs / "gthread.log", *OPEN_DOORS, **ENVIRONMENT) as server:
        yield server


def _head(web: Web) -> socket.socket:
    return _said(web, b"GET /livez HTTP/1.1\r\n" + HEAD + b"X-a: ")


def _body(web: Web) -> socket.socket:
    return _said(web, b"POST /admin/login/ HTTP/1.1\r\n" + HEAD + b"Content-Length: 100\r\n\r\nabc")


def _chunk(web: Web) -> socket.socket:
    """Bytes that look like the last chunk, within another that never ends."""
    chunks = b"Transfer-Encoding: chunked\r\n\r\nff\r\n0\r\n\r\n"
    return _said(web, b"POST /admin/login/ HTTP/1.1\r\n" + HEAD + chunks)


def _never_closed(web: Web) -> socket.socket:
    """Answered, and asked to close: the server ends the connection, the caller never does."""
    return _said(web, b"GET /livez HTTP/1.1\r\n" + HEAD + b"Connection: close\r\n\r\n")


def _said(web: Web, words: bytes) -> socket.socket:
    caller = web.connect()
    caller.sendall(words)
    return caller


def _answers(web: Web, *, patience: float = 2) -> bool:
    """Whether ``/livez``, and a page from the shared threads, answer ten times."""
    try:
        for _ in range(10):
            assert web.ask("/livez", timeout=patience).status == 200
            assert web.ask("/admin/login/", timeout=patience + 3).status == 200
    except OSError:
        return False
    return True


class TestCallersWhoNeverFinish:
    ATTACKS = (_head, _body, _chunk, _never_closed)

    def test_stop_nobody_else(self, web: Web) -> None:
        for begin in self.ATTACKS:
            with ExitStack() as callers:
                for _ in range(3 * THREADS):
                    callers.enter_context(begin(web))
                assert _answers(web), begin.__name__

    def test_control_stop_gthread(self, gthread: Web) -> None:
        for begin in self.ATTACKS:
            with ExitStack() as callers:
                for _ in range(3 * THREADS):
                    callers.enter_context(begin(gthread))
                assert not _answers(gthread, patience=1), begin.__name__
            wait_until(gthread.serves, timeout=120)

    def test_make_room_for_the_next_of_their_address(self, web: Web) -> None:
        with ExitStack() as callers:
            began = [callers.enter_context(_head(web)) for _ in range(250)]
            assert began[0].recv(100).startswith(b"HTTP/1.1 408 ")
            assert _answers(web)
            began[-1].settimeout(0.2)
            with pytest.raises(TimeoutError):
                began[-1].recv(1)

    def test_have_ten_seconds_for_the_head(self, web: Web) -> None:
        """Like a caller that began after it and says no more: that one's end shows when the ten seconds are over."""
        began, said, bytes_more = time.monotonic(), b"", 0
        with _head(web) as slow, _head(web) as silent:
            while not said:
                readable, _, _ = select.select([slow, silent], [], [], 0.5)
                if slow in readable:
                    said = slow.recv(100)
                    break
                assert silent not in readable, f"after {bytes_more} bytes more it may still talk"
                slow.sendall(b"a")  # a byte now and then gains no time
                bytes_more += 1
            lasted = time.monotonic() - began
            assert said.startswith(b"HTTP/1.1 408 ")
            assert bytes_more > 1
            assert lasted >= HEAD_SECONDS == 10


@pytest.fixture
def keys() -> list[str]:
    """Keys of tenants whose shares are all threads together."""
    return [create_api_key(tenant=make_tenant(), name="tests", scopes=("read",))[1] for _ in range(5)]


class TestLivez:
    def test_answers_whatever_the_threads_do(self, web: Web, keys: list[str]) -> None:
        assert _answers_beside(web, keys, "/livez")

    def test_control_gthread_does_not(self, gthread: Web, keys: list[str]) -> None:
        assert not _answers_beside(gthread, keys, "/livez")


class TestCallsOfOneKey:
    """Each call is slow, and there are more than threads: calls of another key still find some."""

    def test_hold_up_no_other_keys(self, web: Web, keys: list[str]) -> None:
        assert _answers_beside(web, keys[:1], "/api/v1/tenant", key=keys[1])

    def test_stand_in_a_line_of_bounded_bytes(self, web: Web, keys: list[str]) -> None:
        body = b'{"nonsense": "' + b"x" * 2_000_000 + b'"}'
        head = b"POST /api/v1/jobs HTTP/1.1\r\n" + HEAD + f"Authorization: Bearer {keys[0]}\r\n".encode()
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        fit = LINES.bytes_of_one // (len(head) + len(body))
        with ExitStack() as opened, transaction.atomic(), connection.cursor() as cursor:
            # Every call looks up its key, so all of them wait.
            cursor.execute("LOCK TABLE tenants_apikey IN ACCESS EXCLUSIVE MODE")
            callers = [opened.enter_context(_said(web, head + body)) for _ in range(OF_ONE + fit + 1)]
            # At least one: a key that is not alone has fewer calls at work, and another key may have called a moment
            # ago.
            refused, _, _ = select.select(callers, [], [], 10)
            answer = refused[0].recv(2000).decode()
            transaction.set_rollback(True)
        assert answer.startswith("HTTP/1.1 429 Too Many Requests\r\n")
        assert "\r\nRetry-After: 2\r\n" in answer
        assert json.loads(answer.partition("\r\n\r\n")[2])["status"] == 429
        assert web.ask("/api/v1/tenant", key=keys[0], timeout=10).status == 200

    def test_are_not_served_once_their_caller_has_left_the_line(self, web: Web) -> None:
        _, key = create_api_key(tenant=make_tenant(), name="tests", scopes=("write",))

        def call(name: str) -> socket.socket:
            schedule = {"type": "interval", "every_seconds": 3600}
            body = json.dumps({"name": name, "job_type": "noop", "schedule": schedule})
            head = b"POST /api/v1/jobs HTTP/1.1\r\n" + HEAD + f"Authorization: Bearer {key}\r\n".encode()
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            return _said(web, head + body.encode())

        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("LOCK TABLE tenants_apikey IN ACCESS EXCLUSIVE MODE")
            left = [call(f"left-{n}") for n in range(20)]
            stays = call("stays")
            for caller in left:
                caller.close()
            transaction.set_rollback(True)
        with stays:
            stays.settimeout(10)
            assert stays.recv(100).startswith(b"HTTP/1.1 201 ")
        # Calls that were at work already may have been done.
        assert Job.objects.filter(name__startswith="left-").count() <= OF_ONE

    def test_control_hold_up_all_where_threads_are_not_shared(self, gthread: Web, keys: list[str]) -> None:
        assert not _answers_beside(gthread, keys[:1], "/api/v1/tenant", key=keys[1])


def _answers_beside(web: Web, keys: list[str], path: str, *, key: str = "") -> bool:
    """Whether ``path`` is answered while twice as many calls as there are threads, by these keys, wait for a lock."""
    askers = [
        threading.Thread(target=_ask_quietly, args=(web, each)) for each in keys * (2 * THREADS // len(keys))
    ]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("LOCK TABLE jobs_job IN ACCESS EXCLUSIVE MODE")
        for asker in askers:
            asker.start()
        time.sleep(1)
        try:
            return bool(web.ask(path, key=key, timeout=2).status == 200)
        except OSError:
            return False
        finally:
            transaction.set_rollback(True)


def _ask_quietly(web: Web, key: str) -> None:
    try:
        web.ask("/api/v1/jobs", key=key, timeout=30)
    except OSError:
        return  # the server was ended meanwhile


class TestLongBodies:
    """A megabyte of JSON takes ten megabytes to read, and each call leaves them behind until they are collected."""

    CALLS = 60
    #: Far less than all of them together take.
    MAX_GROWTH_BYTES = 250_000_000

    @pytest.mark.parametrize("path", ["/api/v1/jobs/bulk", "/api/v1/workflows"])
    def test_are_forgotten_when_they_are_answered(self, web: Web, path: str) -> None:
        _, key = create_api_key(tenant=make_tenant(), name="tests", scopes=("write",))
        body = {f"u{number}": 1 for number in range(74_000)}
        process = psutil.Process(web.process.pid)

        def held() -> int:
            return sum(each.memory_info().rss for each in process.children())

        before = held()
        for _ in range(self.CALLS):
            with pytest.raises(HTTPError, match="400"):
                web.ask(path, key=key, body=body)
        assert held() - before < self.MAX_GROWTH_BYTES


class TestCallersWhoFinish:
    """Bytes may come in any pieces: a whole request is served."""

    def test_are_served_whatever_the_form(self, web: Web) -> None:
        _, key = create_api_key(tenant=make_tenant(), name="tests", scopes=("read", "write"))
        bearer = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        preview = {"schedule": {"type": "cron", "cron": "0 2 * * *", "timezone": "UTC"}, "count": 3}
        body = json.dumps(preview).encode()
        with closing(http.client.HTTPConnection(web.address, timeout=10)) as caller:
            # The second comes in chunks: the API requires a length, and the connection goes on.
            for sent, expected in (
                (body, (200, 3)),
                (iter([body[:9], body[9:]]), (411, 0)),
                (body, (200, 3)),
            ):
                caller.request("POST", "/api/v1/schedules/preview", sent, bearer)
                answer = caller.getresponse()
                assert (answer.status, answer.read().count(b"T02:00:00Z")) == expected
        lines = "".join(f"{name}: {value}\r\n" for name, value in bearer.items()).encode() + HEAD
        head = b"POST /api/v1/schedules/preview HTTP/1.1\r\n" + lines
        announced = head + b"Content-Length: %d\r\n" % len(body)
        with web.connect() as caller:  # by the byte
            for at in range(len(announced + b"\r\n" + body)):
                caller.sendall((announced + b"\r\n" + body)[at : at + 1])
            assert caller.recv(100).startswith(b"HTTP/1.1 200 ")
        with web.connect() as caller:  # after a 100 Continue
            caller.sendall(announced + b"Expect: 100-continue\r\n\r\n")
            assert caller.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
            caller.sendall(body)
            assert b"HTTP/1.1 200 " in caller.recv(100)
        with web.connect() as caller:  # three at once
            caller.sendall((announced + b"\r\n" + body) * 2 + announced + b"Connection: close\r\n\r\n" + body)
            assert _all(caller).count(b"HTTP/1.1 200 ") == 3

    def test_are_refused_what_is_too_long_or_in_two_lengths(self, web: Web) -> None:
        _, key = create_api_key(tenant=make_tenant(), name="tests", scopes=("write",))
        head = b"POST /api/v1/jobs HTTP/1.1\r\n" + HEAD + f"Authorization: Bearer {key}\r\n".encode()
        head += b"Content-Type: application/json\r\n"
        with _said(web, head + b"Content-Length: 99999999\r\n\r\n" + b" " * MAX_BODY_BYTES) as caller:
            answer = _all(caller, end=b"}")
            assert answer.startswith(b"HTTP/1.1 413 ")
            assert b"urn:carillon:problem" in answer
        both = b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /livez HTTP/1.1\r\n\r\n"
        with _said(web, head + both) as caller:
            answer = _all(caller)
            assert (answer[:13], answer.count(b"HTTP/1.1 ")) == (b"HTTP/1.1 400 ", 1)


def _all(caller: socket.socket, *, end: bytes = b"") -> bytes:
    """The bytes that come until the server ends the connection, or until they end with ``end``."""
    said = b""
    while data := caller.recv(65536):
        said += data
        if end and said.endswith(end):
            break
    return said


class TestAPathInAHeader:
    """``SCRIPT_NAME`` must not lead past a proxy that lets only ``/api/`` through, even if the proxy sends it."""

    @staticmethod
    def _asked(web: Web) -> int:
        host, port = web.address.split(":")
        caller = http.client.HTTPConnection(host, int(port), timeout=10, source_address=(PROXY, 0))
        with closing(caller):
            caller.request("GET", "/api/admin/login/", headers={"SCRIPT_NAME": "/api"})
            return caller.getresponse().status

    def test_leads_nowhere(self, web: Web) -> None:
        assert self._asked(web) == 404

    def test_control_leads_gunicorn_on(self, gthread: Web) -> None:
        assert self._asked(gthread) == 200


class TestATlsThatAHeaderClaims:
    @pytest.fixture(autouse=True)
    def over_tls(self, settings: Any) -> None:
        settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
        settings.SECURE_SSL_REDIRECT = True

    @staticmethod
    def _asked(peer: str) -> int:
        return (
            Client(REMOTE_ADDR=peer).get("/admin/login/", headers={"X-Forwarded-Proto": "https"}).status_code
        )

    @pytest.mark.parametrize(
        ("peer", "status"), [("127.0.0.1", 200), ("::1", 200), ("203.0.113.1", 301), ("", 301)]
    )
    def test_is_believed_of_our_proxies_alone(self, peer: str, status: int) -> None:
        assert self._asked(peer) == status

    def test_control_without_the_check_is_believed(self, settings: Any) -> None:
        settings.MIDDLEWARE = [name for name in settings.MIDDLEWARE if not name.endswith("believe_proxies")]
        assert self._asked("203.0.113.1") == 200
