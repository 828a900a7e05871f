"""The supervisor against real children and signals: small fakes first, then ``manage.py up`` itself."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from scheduler_project.processes import child
from scheduler_project.processes.child import Child, ProcessSpec, start_program
from stage.processes import PROJECT_DIR, is_gone
from stage.waiting import wait_until

pytestmark = pytest.mark.cluster
SUPERVISE = """
import json, signal, sys
from datetime import timedelta
from pathlib import Path
from scheduler_project.processes.child import ProcessSpec
from scheduler_project.processes.supervisor import Supervisor

def spec(name, script, argv=None, order=0, stop_timeout=20, force="SIGKILL"):
    return ProcessSpec(name=name, argv=argv or ["sh", "-c", script], order=order,
                       stop_timeout=timedelta(seconds=stop_timeout), force_signal=signal.Signals[force])

specs = [spec(**given) for given in json.loads(sys.argv[2])]
Supervisor(specs, state_path=Path(sys.argv[1]) / "processes.json", about={"urls": {}}).run()
"""
FOREVER = "echo ready; while :; do sleep 0.05; done"
STUBBORN = f"trap '' TERM QUIT; {FOREVER}"


def _hear_all_signals() -> None:
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Supervised:
    """A supervisor in a process of its own, its state and its output."""

    def __init__(self, process: "subprocess.Popen[bytes]", directory: Path) -> None:
        self.process = process
        self.directory = directory

    @property
    def printed(self) -> str:
        return (self.directory / "output").read_text()

    @property
    def pids(self) -> dict[str, int]:
        state = self.directory / "processes.json"
        return json.loads(state.read_text())["processes"] if state.exists() else {}

    def await_print(self, pattern: str, *, times: int = 1) -> None:
        wait_until(lambda: len(re.findall(pattern, self.printed, re.MULTILINE)) >= times)

    def stop(self, *signals: signal.Signals, within_seconds: float = 15) -> int:
        for number in signals or (signal.SIGTERM,):
            self.process.send_signal(number)
        return self.process.wait(within_seconds)


@contextmanager
def supervised(directory: Path, *specs: dict[str, Any]) -> Iterator[Supervised]:
    """A supervisor whose children have all said that they are ready."""
    command = [sys.executable, "-c", SUPERVISE, str(directory), json.dumps(specs)]
    with (directory / "output").open("wb") as output:
        # A shell makes its background processes ignore SIGINT, nohup makes them ignore SIGHUP, and that is inherited.
        process = subprocess.Popen(
            command,
            cwd=PROJECT_DIR,
            stdout=output,
            stderr=output,
            preexec_fn=_hear_all_signals,
        )
    try:
        running = Supervised(process, directory)
        ready = sum("echo ready" in spec["script"] for spec in specs)
        running.await_print(r"\| ready$", times=ready)
        yield running
    finally:
        process.kill()
        process.wait()


def family(pid: int) -> list[int]:
    return [process.pid for process in psutil.Process(pid).children(recursive=True)]


class TestSupervisor:
    def test_prints_whole_lines_behind_the_name_of_who_said_them(self, tmp_path: Path) -> None:
        script = "printf 'one\\ntw'; sleep 0.1; printf 'o\\n'; printf unfinished; exit 3"
        with supervised(tmp_path, {"name": "talker", "script": script}) as running:
            running.await_print(r"^up     \| talker ended with 3, starting again in 1 s$")
            assert running.printed.startswith("talker | one\ntalker | two\ntalker | unfinished\nup ")

    def test_starts_a_dead_child_again_later_each_time(self, tmp_path: Path) -> None:
        with supervised(tmp_path, {"name": "fragile", "script": "exit 1"}) as running:
            running.await_print(r"starting again in 1 s$")
            running.await_print(r"starting again in 2 s$")

    def test_says_which_signal_killed_a_child_and_keeps_its_state_file_true(self, tmp_path: Path) -> None:
        with supervised(tmp_path, {"name": "victim", "script": FOREVER}) as running:
            before = running.pids["victim"]
            os.kill(before, signal.SIGKILL)
            running.await_print("victim died of SIGKILL, starting again in 1 s$")
            wait_until(lambda: running.pids.get("victim", before) != before)
            running.stop()
            assert not (tmp_path / "processes.json").exists()

    def test_kills_what_a_dead_child_leaves_in_its_group(self, tmp_path: Path) -> None:
        with supervised(tmp_path, {"name": "parent", "script": f"({STUBBORN}) & wait"}) as running:
            parent = running.pids["parent"]
            orphans = family(parent)
            os.kill(parent, signal.SIGKILL)
            wait_until(lambda: all(is_gone(pid) for pid in orphans))
            assert orphans

    def test_retries_a_program_that_cannot_be_executed(self, tmp_path: Path) -> None:
        absent = {"name": "absent", "argv": [str(tmp_path / "nowhere")], "script": ""}
        with supervised(tmp_path, absent) as running:
            running.await_print(r"absent cannot start \(.*nowhere.*\), starting again in 1 s$")
            assert running.stop() == 0


class TestBackOff:
    def test_doubles_to_half_a_minute_and_is_forgotten_after_a_good_life(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = 0.0
        monkeypatch.setattr(child.time, "monotonic", lambda: now)
        fragile = Child(ProcessSpec(name="fragile", argv=[]), start_program)
        delays = [fragile.schedule_restart().total_seconds() for _ in range(7)]
        assert delays == [1, 2, 4, 8, 16, 30, 30]
        now = 60.0
        assert fragile.schedule_restart() == timedelta(seconds=1)


class TestDrain:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    def test_stops_by_order_and_ends_with_zero(self, tmp_path: Path, number: signal.Signals) -> None:
        leave = f"trap 'sleep 0.2; echo bye; exit 0' TERM; {FOREVER}"
        specs = [{"name": f"child{i}", "script": leave, "order": i} for i in (2, 0, 1)]
        with supervised(tmp_path, *specs) as running:
            children = family(running.process.pid)
            assert running.stop(number) == 0
            assert re.findall(r"(child\d) \| bye", running.printed) == ["child0", "child1", "child2"]
            assert all(is_gone(pid) for pid in children)

    def test_forces_then_kills_a_child_that_does_not_listen(self, tmp_path: Path) -> None:
        polite = f"trap '' TERM; trap 'echo forced; exit 0' QUIT; {FOREVER}"
        specs = [
            {"name": "cold", "script": polite, "stop_timeout": 0.3, "force": "SIGQUIT"},
            {"name": "deaf", "script": STUBBORN, "stop_timeout": 0.3},
        ]
        with supervised(tmp_path, *specs) as running:
            children = family(running.process.pid)
            assert running.stop() == 0
            assert "cold | forced" in running.printed
            assert "deaf died of SIGKILL" in running.printed
            assert all(is_gone(pid) for pid in children)

    def test_is_hastened_by_a_second_signal(self, tmp_path: Path) -> None:
        specs = [{"name": f"deaf{i}", "script": STUBBORN, "order": i, "stop_timeout": 600} for i in (1, 2)]
        with supervised(tmp_path, *specs) as running:
            running.process.send_signal(signal.SIGINT)
            running.await_print("stopping; a second signal stops faster")
            # The second forces deaf1 and asks deaf2, the third forces deaf2.
            running.process.send_signal(signal.SIGINT)
            running.await_print("deaf1 died of SIGKILL")
            assert running.stop(signal.SIGINT) == 0

    def test_begins_when_the_terminal_goes_away(self, tmp_path: Path) -> None:
        specs = [{"name": "talker", "script": "while :; do echo ready; sleep 0.05; done"}]
        command = [sys.executable, "-c", SUPERVISE, str(tmp_path), json.dumps(specs)]
        with subprocess.Popen(command, cwd=PROJECT_DIR, stdout=subprocess.PIPE) as process:
            assert process.stdout
            process.stdout.readline()
            children = family(process.pid)
            process.stdout.close()
            assert process.wait(15) == 0
            assert all(is_gone(pid) for pid in children)

    def test_is_done_by_the_kernel_when_the_supervisor_is_killed(self, tmp_path: Path) -> None:
        specs = [{"name": "a", "script": STUBBORN}, {"name": "b", "script": "echo ready; exec sleep 600"}]
        with supervised(tmp_path, *specs) as running:
            children = list(running.pids.values())
            running.stop(signal.SIGKILL)
            wait_until(lambda: all(is_gone(pid) for pid in children))
            assert len(children) == 2


class TestUp:
    """The real thing on embedded servers; other tests look at the pages that it serves."""

    def test_survives_a_kill_and_leaves_nothing_running_after_a_stop(self, tmp_path: Path) -> None:
        data_dir, first_log, second_log = tmp_path / "data", tmp_path / "first", tmp_path / "second"
        with self.up(data_dir, first_log) as process:
            first = self.await_web(process, data_dir)
            assert {"web", "beat1"} <= first["processes"].keys()
            assert "password" in first_log.read_text()
            self.asks_for_a_login(first["urls"]["flower"])
            children = family(process.pid)
            process.kill()
            process.wait()
            servers = set(first["servers"].values())
            orphans = [pid for pid in children if pid not in servers and not is_server(pid)]
            wait_until(lambda: all(is_gone(pid) for pid in orphans))
        with self.up(data_dir, second_log) as process:
            second = self.await_web(process, data_dir, not_by=first["up"])
            assert second["servers"] == first["servers"]
            assert "Login" not in second_log.read_text()
            children = family(process.pid)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, second_log.read_text()
            assert all(is_gone(pid) for pid in [*children, *servers])
        assert not (data_dir / "run" / "processes.json").exists()

    def test_says_that_a_port_is_taken_and_what_to_do(self, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            with self.up(tmp_path / "data", tmp_path / "log", "--port", port) as process:
                assert process.wait(60) == 1
        assert re.search(rf"Port {port} on 127.0.0.1 .*--port \d+", (tmp_path / "log").read_text())

    def asks_for_a_login(self, flower: str) -> None:
        """Flower as a fork is closed where its defaults are open, as Flower as a program is (tests/attacks)."""
        metrics = f"{flower}/metrics"
        wait_until(lambda: answer_of(metrics), what="Flower to answer")
        assert answer_of(metrics) == (401, "DENY")

    @contextmanager
    def up(self, data_dir: Path, log: Path, *options: str) -> Iterator["subprocess.Popen[bytes]"]:
        env = {k: v for k, v in os.environ.items() if k not in ("DATABASE_URL", "REDIS_URL")}
        env["CARILLON_DATA_DIR"] = str(data_dir)
        command = [
            sys.executable,
            "manage.py",
            "up",
            "--port",
            "0",
            "--flower-port",
            "0",
            "--beats",
            "2",
            *options,
        ]
        with log.open("wb") as output:
            process = subprocess.Popen(command, cwd=PROJECT_DIR, env=env, stdout=output, stderr=output)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)

    def await_web(
        self, process: "subprocess.Popen[bytes]", data_dir: Path, not_by: int | None = None
    ) -> dict[str, Any]:
        def answer() -> dict[str, Any] | None:
            try:
                state = json.loads((data_dir / "run" / "processes.json").read_text())
                if state["up"] == not_by or not {"beat2", "worker1", "flower"} <= state["processes"].keys():
                    return None
                with urllib.request.urlopen(f"{state['urls']['web']}/livez", timeout=5):
                    return state
            except OSError:
                return None

        def is_alive() -> None:
            assert process.poll() is None, "up has ended; see its log"

        state = wait_until(answer, timeout=60, what="the web to answer", meanwhile=is_alive)
        assert state
        return state


def answer_of(url: str) -> tuple[int, str | None] | None:
    """Status and ``X-Frame-Options``; None while nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.headers["X-Frame-Options"]
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.headers["X-Frame-Options"]
    except OSError:
        return None


def is_server(pid: int) -> bool:
    try:
        return psutil.Process(pid).name() in ("postgres", "redis-server")
    except psutil.NoSuchProcess:
        return False
