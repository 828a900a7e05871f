"""The webhook: the meaning of each kind of answer, and of none."""

import asyncio
import gzip
import json
import socket
import threading
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from uuid import UUID

import pytest
from aiohttp import web

from jobs.core.workflows.flow import TaskContext
from jobs.handlers.builtin.webhook.response import retry_after


class TestStatus:
    @pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
    def test_is_a_success_with_its_excerpt(self, deliver, receiver, status):
        ended = deliver(receiver.responds("/s", status=status, text="" if status == 204 else "done"))
        assert (ended.kind, ended.http_status) == ("succeeded", status)
        assert ended.response_excerpt == ("" if status == 204 else "done")

    @pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 599])
    def test_is_retried(self, deliver, receiver, status):
        ended = deliver(receiver.responds("/s", status=status, text="busy"))
        assert (ended.kind, ended.permanent, ended.http_status) == ("failed", False, status)
        assert (ended.error_code, ended.response_excerpt) == (f"http_{status}", "busy")
        assert (ended.retry_after, ended.traceback) == (None, "")

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 413, 422, 451])
    def test_is_buried(self, deliver, receiver, status):
        ended = deliver(receiver.responds("/s", status=status, text="no"))
        assert (ended.kind, ended.permanent, ended.pause_job) == ("failed", True, False)
        assert (ended.error_code, ended.response_excerpt) == (f"http_{status}", "no")

    def test_410_also_pauses_the_job(self, deliver, receiver):
        ended = deliver(receiver.responds("/s", status=410))
        assert (ended.permanent, ended.pause_job) == (True, True)

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def test_redirects_are_buried_and_never_followed(self, deliver, receiver, status):
        ended = deliver(receiver.responds("/s", status=status, headers={"Location": receiver.url("/other")}))
        assert (ended.permanent, ended.error_code, ended.http_status) == (True, "redirect", status)
        assert len(receiver.requests) == 1


class TestRetryAfter:
    NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)

    @pytest.mark.parametrize("status", [429, 503])
    def test_is_honoured_on_the_wire(self, deliver, receiver, status):
        ended = deliver(receiver.responds("/s", status=status, headers={"Retry-After": "120"}))
        assert (ended.retry_after, ended.error_code) == (timedelta(seconds=120), f"http_{status}")

    @pytest.mark.parametrize(
        ("value", "seconds"),
        [("0", 0), (" 7 ", 7), ("9999999999", 7 * 86400), ("-5", None), ("1.5", None), ("soon", None),
         (format_datetime(NOW + timedelta(hours=1), usegmt=True), 3600), ("٣", None), ("9" * 5000, None),
         (format_datetime(NOW - timedelta(hours=1), usegmt=True), 0), ("", None)],
    )  # fmt: skip
    def test_reads_both_forms_and_ignores_the_rest(self, value, seconds):
        headers = {"Retry-After": value, "Date": format_datetime(self.NOW, usegmt=True)}
        assert retry_after(headers) == (None if seconds is None else timedelta(seconds=seconds))


class TestAnswerBody:
    def test_is_cut_to_its_bound_and_made_storable(self, deliver, receiver):
        ended = deliver(receiver.responds("/s", body=b"\x00\xff" + b"x" * 5000))
        assert ended.response_excerpt.startswith("\ufffd\ufffdxxx")
        assert len(ended.response_excerpt.encode()) <= 2048

    def test_that_is_a_gzip_bomb_is_never_inflated(self, deliver, receiver):
        bomb = gzip.compress(b"\x00" * 50_000_000)
        ended = deliver(receiver.responds("/s", body=bomb, headers={"Content-Encoding": "gzip"}))
        assert ended.kind == "succeeded"
        assert len(ended.response_excerpt.encode()) <= 2048

    def test_that_never_ends_is_left_after_the_bound(self, deliver, receiver, open_runner):
        async def endless(request):
            response = web.StreamResponse()
            await response.prepare(request)
            while True:
                await response.write(b"x" * 65_536)

        receiver.answers["/s"] = endless
        ended = deliver(receiver.url("/s"), runner=open_runner(max_response_bytes=1000))
        assert (ended.kind, len(ended.response_excerpt)) == ("succeeded", 1000)

    def test_that_drips_is_timed_out(self, deliver, receiver):
        async def drip(request):
            response = web.StreamResponse()
            await response.prepare(request)
            while True:
                await response.write(b"x")
                await asyncio.sleep(0.02)

        receiver.answers["/s"] = drip
        assert deliver(receiver.url("/s"), context={"timeout": timedelta(seconds=0.3)}).kind == "timed_out"


class TestResult:
    TASK = TaskContext(
        workflow_id=UUID(int=1),
        workflow_name="etl",
        version=1,
        run_id=UUID(int=2),
        task="extract",
        scheduled_for=datetime(2030, 1, 1, tzinfo=UTC),
        input=None,
    )

    @pytest.mark.parametrize(
        ("kind", "body", "result"),
        [("application/json", b'{"rows": [1, null]}', {"rows": [1, None]}),
         ("Application/Problem+JSON; charset=utf-8", b"5", 5), ("text/plain", b"5", None),
         ("application/json", b'{"rows": ', None), ("application/json", b'"\\u0000"', None),
         ("application/json", b"NaN", None), ("application/json", b"[" * 50_000, None),
         ("application/json", json.dumps("x" * 65_536).encode(), None)],
    )  # fmt: skip
    def test_of_a_task_is_the_json_of_the_answer(self, deliver, receiver, kind, body, result):
        url = receiver.responds("/s", body=body, headers={"Content-Type": kind})
        ended = deliver(url, context={"workflow": self.TASK})
        assert (ended.kind, ended.result) == ("succeeded", result)

    def test_of_a_firing_by_itself_is_none(self, deliver, receiver):
        url = receiver.responds("/s", body=b"5", headers={"Content-Type": "application/json"})
        assert deliver(url).result is None


class TestTrouble:
    def test_a_server_that_hangs_is_timed_out(self, deliver, receiver):
        async def hang(_):
            await asyncio.Event().wait()

        receiver.answers["/s"] = hang
        assert deliver(receiver.url("/s"), context={"timeout": timedelta(seconds=0.3)}).kind == "timed_out"

    def test_a_name_that_does_not_exist_is_retried(self, deliver):
        self._is_retried(deliver("http://carillon.invalid/"), "dns")

    def test_a_closed_port_is_retried(self, deliver):
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        self._is_retried(deliver(f"http://127.0.0.1:{port}/"), "connect")

    def test_a_server_without_tls_is_retried(self, deliver, receiver):
        self._is_retried(deliver(receiver.url().replace("http:", "https:")), "tls")

    def test_a_port_that_never_answers_is_retried(self, deliver, open_runner):
        with socket.socket() as full:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            waiting = []
            for _ in range(4):  # the backlog is full: the next SYN gets no answer
                waiting.append(socket.socket())
                waiting[-1].setblocking(False)
                waiting[-1].connect_ex(full.getsockname())
            runner = open_runner(connect_timeout=timedelta(seconds=0.2))
            self._is_retried(deliver(f"http://127.0.0.1:{full.getsockname()[1]}/", runner=runner), "timeout")
            for waiter in waiting:
                waiter.close()

    @pytest.mark.parametrize(
        ("answer", "code"),
        [(b"", "disconnected"), (b"SSH-2.0-OpenSSH\r\n\r\n", "bad_response"),
         (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort", "bad_response")],
    )  # fmt: skip
    def test_a_server_that_speaks_no_http_is_retried(self, deliver, answer, code):
        with socket.create_server(("127.0.0.1", 0)) as server:

            def serve():
                connection, _ = server.accept()
                connection.recv(65_536)
                connection.sendall(answer)
                connection.close()

            thread = threading.Thread(target=serve)
            thread.start()
            self._is_retried(deliver(f"http://127.0.0.1:{server.getsockname()[1]}/"), code)
            thread.join(5)

    @staticmethod
    def _is_retried(ended, code):
        assert (ended.kind, ended.permanent, ended.error_code, ended.traceback) == (
            "failed",
            False,
            code,
            "",
        ), ended
