"""The pieces of the stage, each by itself: the receiver as a process, the tending of processes, clocks set apart."""

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from chaos import history
from chaos.faults.of_clocks import LATER, SOONER, other_rules
from chaos.history import Brought, Died, Ended, Started
from chaos.load.reports import report
from chaos.stage import outside
from chaos.stage.clocks import Clocks
from chaos.stage.names import ADDRESS, SilentServer, may_hang
from chaos.stage.outside import hasten
from chaos.stage.processes import ManagedProcess, Processes
from stage.processes import PROJECT_DIR
from stage.waiting import wait_until

SLEEPER = ("-c", "import time; time.sleep(60)")


@pytest.fixture
def processes():
    deaths: list[Died] = []
    processes = Processes(note=deaths.append)
    processes.deaths = deaths
    yield processes
    processes.stop()


@pytest.fixture
def receiver(processes, tmp_path):
    """The port and the log of a receiver."""
    port_file, log = tmp_path / "port", tmp_path / "log.jsonl"
    argv = ("-m", "chaos.stage.receiver", str(port_file), str(log), "127.0.0.1")
    processes.start(ManagedProcess("receiver", argv, os.environ.copy(), tmp_path / "receiver.log"))
    wait_until(port_file.exists, timeout=20, what="the receiver")
    return int(port_file.read_text()), log


def headers(trigger: str) -> dict[str, str]:
    return {
        "X-Carillon-Job": "job",
        "X-Carillon-Trigger": trigger,
        "X-Carillon-Scheduled-For": "2026-03-01T12:00:00.250000Z",
        "X-Carillon-Attempt": "1",
        "X-Fence-Token": "3",
        "X-Execution-Id": str(uuid4()),
        "Idempotency-Key": "key",
    }


def status(port: int, query: str, *, trigger: str, method: str = "POST") -> int:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/job?{query}", data=b"{}", headers=headers(trigger), method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


class TestTheReceiver:
    def test_answers_as_each_target_does_and_writes_down_both_ends(self, receiver):
        port, log = receiver
        assert [status(port, "target=flaky&failures=1", trigger="a") for _ in range(3)] == [503, 200, 200]
        assert status(port, "target=failing", trigger="b") == 500
        assert status(port, "target=refusing", trigger="c") == 400
        # The end is written down after the answer is out, so its client may be faster.
        lines = wait_until(
            lambda: len(lines := list(history.read(log))) == 10 and lines, timeout=10, what="the last end"
        )
        assert [line.status for line in lines if isinstance(line, Ended)] == [503, 200, 200, 500, 400]
        assert {line.trigger_id for line in lines if isinstance(line, Started)} == {"a", "b", "c"}
        assert all(line.sent for line in lines if isinstance(line, Ended))

    def test_breaks_the_connection_of_a_request_and_takes_the_next_by_any_method(self, receiver):
        port, log = receiver
        with pytest.raises(ConnectionError):
            status(port, "target=dropping&failures=1", trigger="e", method="PUT")
        assert status(port, "target=dropping&failures=1", trigger="e", method="PUT") == 200
        ends = wait_until(
            lambda: len(found := [r for r in history.read(log) if isinstance(r, Ended)]) == 2 and found,
            timeout=10,
            what="both ends",
        )
        assert [(line.status, line.sent) for line in ends] == [(503, True), (200, True)]

    def test_ends_a_delivery_when_its_client_has_gone(self, receiver):
        port, log = receiver
        head = "".join(f"{name}: {value}\r\n" for name, value in headers("d").items())
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(
                f"POST /job?seconds=30 HTTP/1.1\r\nHost: x\r\n{head}Content-Length: 0\r\n\r\n".encode()
            )
            wait_until(lambda: list(history.read(log)), timeout=10, what="the start")
        ends = wait_until(
            lambda: [line for line in history.read(log) if isinstance(line, Ended)],
            timeout=10,
            what="the end",
        )
        assert not ends[0].sent

    def test_writes_down_what_a_task_of_a_workflow_brought(self, receiver):
        port, log = receiver
        body = {"number": 1, "split": 7}
        assert report(
            f"http://127.0.0.1:{port}/fan.part1?target=ok", **work("workflow-run:run:part1"), body=body
        ) == {"delivery": 1}
        report(f"http://127.0.0.1:{port}/job?target=ok", **work("key"), body=body)
        lines = list(history.read(log))
        assert [line for line in lines if isinstance(line, Brought)] == [Brought(delivery=1, values=body)]

    def test_counts_requests_of_a_run_and_of_the_one_in_its_place_together_where_it_is_to(self, receiver):
        port, _ = receiver

        def answered(trigger: str, number: int, query: str) -> int:
            told = work("workflow-run:run:weak") | {"trigger_id": trigger}
            try:
                report(f"http://127.0.0.1:{port}/inner.weak?{query}", **told, body={"number": number})
            except urllib.error.HTTPError as error:
                return error.code
            return 200

        together = "target=flaky&failures=2&by=number"
        asked = [("first", 1), ("first", 1), ("second", 1), ("third", 2)]
        assert [answered(*each, together) for each in asked] == [503, 503, 200, 503]
        assert answered("fourth", 1, "target=flaky&failures=2") == 503


def work(key: str) -> dict[str, Any]:
    return {
        "job_id": "job", "trigger_id": "trigger", "scheduled_for": "2026-03-01T12:00:00.250000Z", "attempt": 1,
        "fence": 1, "execution_id": str(uuid4()), "key": key,
    }  # fmt: skip


class TestProcesses:
    def test_are_started_again_after_a_fault_has_killed_them(self, processes, tmp_path):
        actor = ManagedProcess("worker1", SLEEPER, os.environ.copy(), tmp_path / "log")
        processes.start(actor)
        processes.kill(actor)
        wait_until(lambda: processes.tend() or actor.lives == 2, timeout=10, what="a second life")
        assert processes.deaths == []
        assert actor.family()

    def test_that_end_by_themselves_are_deaths(self, processes, tmp_path):
        actor = ManagedProcess("worker1", ("-c", "raise SystemExit(3)"), os.environ.copy(), tmp_path / "log")
        processes.start(actor)
        wait_until(lambda: processes.tend() or processes.deaths, timeout=10, what="the death")
        assert (processes.deaths[0].process, processes.deaths[0].code) == ("worker1", 3)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
class TestClocks:
    def test_are_set_apart_one_by_one_and_step_while_a_process_runs(self, tmp_path):
        clocks = Clocks(tmp_path)
        shown = "print(time.time(), datetime.datetime.now().timestamp(), flush=True)"
        code = f"import time, datetime\nfor _ in range(2): {shown}; input()"
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=PROJECT_DIR,
            env={**os.environ, **clocks.environment("beat1")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        before = [float(text) for text in process.stdout.readline().split()]
        clocks.set("beat1", -3600)
        process.stdin.write("\n")
        process.stdin.flush()
        after = [float(text) for text in process.stdout.readline().split()]
        process.communicate("\n")
        now = time.time()
        assert before == [pytest.approx(now, abs=60)] * 2
        assert after == [pytest.approx(now - 3600, abs=60)] * 2


@pytest.mark.skipif(not may_hang(), reason="takes the right to mount, and to listen at port 53")
class TestNamesThatHang:
    def test_are_all_but_those_of_the_machine_itself_and_of_that_process_alone(self, tmp_path):
        shown = "import socket; print(socket.getaddrinfo('localhost', 80)[0][4][1], open('/etc/resolv.conf').read())"
        before = Path("/etc/resolv.conf").read_text()
        with SilentServer(tmp_path / "resolv.conf") as names:
            argv = [sys.executable, *names.argv("-c", shown)]
            done = subprocess.run(argv, cwd=PROJECT_DIR, capture_output=True, text=True, check=True)
            assert done.stdout.split() == ["80", "nameserver", ADDRESS]
            hanging = [sys.executable, *names.argv("-c", "import socket; socket.getaddrinfo('a.test', 80)")]
            with pytest.raises(subprocess.TimeoutExpired):
                subprocess.run(hanging, cwd=PROJECT_DIR, capture_output=True, check=False, timeout=3)
        assert Path("/etc/resolv.conf").read_text() == before


class TestOtherRulesOfTimeZones:
    def test_are_what_a_process_finds_that_is_told_where(self, tmp_path):
        shown = (
            "from datetime import datetime; from jobs.core.timezones import load_zone, tzdata_version\n"
            "print(tzdata_version(), *(datetime(2026, 7, 1, tzinfo=load_zone(z)).utcoffset() for z in %r))"
        )
        home = other_rules(tmp_path / "other")
        done = subprocess.run(
            [sys.executable, "-c", shown % ([SOONER, LATER],)],
            cwd=PROJECT_DIR, env={**os.environ, "PYTHONPATH": str(home)}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout.split() == ["2099z", "6:00:00", "4:00:00"]


class TestWhatStandsForAnotherMachine:
    @pytest.mark.skipif(os.geteuid() != 0, reason="only root may ask for the processors before others")
    def test_comes_before_the_judged_with_the_one_thread_alone(self) -> None:
        def priority() -> int:
            return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

        def hastened() -> int:
            hasten()
            return priority()

        before = priority()
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(hastened).result() == outside.SOONER
        assert priority() == before

    def test_goes_on_as_it_was_where_that_may_not_be_asked_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: int) -> None:
            raise PermissionError

        monkeypatch.setattr(os, "setpriority", refuse)
        hasten()
