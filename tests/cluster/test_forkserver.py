"""The fork server: its children are children of its owner, and like programs that the owner started."""

import json
import os
import signal
import sys
from collections.abc import Iterator

import psutil
import pytest

from scheduler_project.processes import forkserver
from scheduler_project.processes.child import ProcessSpec, Running
from scheduler_project.processes.forkserver import Forked, ForkServer
from stage.processes import PROJECT_DIR, is_gone
from stage.waiting import wait_until

pytestmark = pytest.mark.cluster
#: A program that says how it was started, and ends with 3.
TELLS = "tests.cluster.how_started"


def spec(*argv: str, **env: str) -> ProcessSpec:
    return ProcessSpec(name="one", argv=[sys.executable, *argv], env=env, cwd=PROJECT_DIR)


def said(process: Running) -> str:
    assert process.stdout
    with process.stdout as output:
        return output.read().decode()


def children() -> set[psutil.Process]:
    return set(psutil.Process().children())


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    before = children()
    with ForkServer(env={"FOR_ALL": "1"}, cwd=PROJECT_DIR, say=pytest.fail) as server:
        server.wait_until_imported()
        yield server
    assert children() == before


class TestForkServer:
    def test_starts_a_child_like_a_program_of_its_own(self, server: ForkServer) -> None:
        asked = spec("-m", TELLS, "an argument", FOR_ONE="2")
        forked = server.start(asked)
        assert isinstance(forked, Forked)
        says = json.loads(said(forked))
        assert forked.wait() == 3
        program = ForkServer(env={}, cwd=PROJECT_DIR, say=print).start(asked)
        assert not isinstance(program, Forked)
        assert json.loads(said(program)) == says | {
            "pid": program.pid,
            "variables": [None, "2"],
            "imported": False,
        }
        assert program.wait() == 3
        assert says == {
            "pid": forked.pid,
            "parent": os.getpid(),
            "leads_its_session": True,
            "arguments": ["an argument"],
            "variables": ["1", "2"],
            "read": "",
            "files": [0, 1, 2],
            "interrupted_by": "default_int_handler",
            "imported": True,
        }

    def test_leaves_the_end_of_a_child_to_the_owner(self, server: ForkServer) -> None:
        child = server.start(spec("-m", TELLS, "stay"))
        os.kill(child.pid, signal.SIGKILL)
        wait_until(lambda: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE)
        assert child.wait() == -signal.SIGKILL
        said(child)

    def test_has_one_thread_and_no_connection_but_its_owners(self, server: ForkServer) -> None:
        process = psutil.Process(server.pid)
        assert process.num_threads() == 1
        assert not process.net_connections("inet")
        assert not process.children()

    def test_starts_other_programs_too(self, server: ForkServer) -> None:
        assert said(server.start(spec("-c", "print('one')"))) == "one\n"
        with pytest.raises(FileNotFoundError):
            server.start(ProcessSpec(name="absent", argv=["/nowhere"]))


class TestWithoutIt:
    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
    def test_children_are_programs(self, number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(forkserver, "ANSWER_SECONDS", 0.5)
        told: list[str] = []
        with ForkServer(env={}, cwd=PROJECT_DIR, say=told.append) as server:
            server.wait_until_imported()
            before = children()
            os.kill(server.pid, number)
            started = [server.start(spec("-m", TELLS, "stay")) for _ in range(2)]
            try:
                assert not any(isinstance(process, Forked) for process in started)
                after = {child.pid for child in children() - before}
                assert after == {process.pid for process in started}
                assert told == ["The fork server is gone. Processes start without it, but later."]
                assert is_gone(server.pid)
            finally:
                for process in started:
                    os.kill(process.pid, signal.SIGKILL)
                    process.wait()

    def test_says_why_it_cannot_import(self) -> None:
        told: list[str] = []
        with ForkServer(
            env={"CARILLON_LEADER_LEASE_SECONDS": "no"}, cwd=PROJECT_DIR, say=told.append
        ) as server:
            server.wait_until_imported()
            program = server.start(spec("-m", TELLS))
            assert json.loads(said(program))["imported"] is False
            assert program.wait() == 3
        assert "CARILLON_LEADER_LEASE_SECONDS" in told[0]
