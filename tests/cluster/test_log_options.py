"""Celery's options for logs, as systemd units and ``celery multi`` give them: ``--logfile`` and ``-l`` are heeded."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jobs.store.insight import workers
from stage.processes import PROJECT_DIR, is_gone, kill_tree
from stage.waiting import wait_until
from tests.cluster.stage import own_database_url

pytestmark = [pytest.mark.cluster, pytest.mark.django_db(transaction=True)]
CELERY = [sys.executable, "-m", "celery"]
QUIET = ["-A", "scheduler_project", "-Q", "jobs.noop", "--without-gossip", "--without-mingle"]


def environment() -> dict[str, str]:
    return os.environ | {"DATABASE_URL": own_database_url(), "CARILLON_LOG_FORMAT": "json"}


@contextmanager
def worker(directory: Path, *options: str) -> Iterator[str]:
    """A worker with these options, once it is there. Yields the path of its standard error."""
    errors = directory / "stderr"
    command = [*CELERY, *QUIET[:2], "worker", *QUIET[2:], "-n", "logs@%h", *options]
    with errors.open("wb") as sink:
        process = subprocess.Popen(command, cwd=PROJECT_DIR, env=environment(), stdout=sink, stderr=sink)
    try:
        wait_until(lambda: [row for row in workers.present() if row.name.startswith("logs@")], timeout=60)
        yield str(errors)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        kill_tree(process.pid)


class TestLogOptions:
    def test_multi_writes_to_its_logfile(self, tmp_path: Path) -> None:
        log, pid = tmp_path / "w1.log", tmp_path / "w1.pid"
        files = [f"--logfile={tmp_path}/%n%I.log", f"--pidfile={tmp_path}/%n.pid"]
        multi = [*CELERY, "multi"]
        subprocess.run(
            [*multi, "start", "w1", *QUIET, "-c", "1", *files],
            cwd=PROJECT_DIR,
            env=environment(),
            check=True,
            timeout=60,
        )
        number = int(wait_until(lambda: pid.exists() and pid.read_text().strip(), timeout=30))
        try:
            wait_until(lambda: log.exists() and " ready." in log.read_text(), timeout=60)
            # The pool's process has a log of its own, as %I says.
            wait_until((tmp_path / "w1-1.log").exists)
        finally:
            os.kill(number, signal.SIGTERM)
        wait_until(lambda: is_gone(number), timeout=30)

    def test_a_level_of_debug_shows_what_libraries_say(self, tmp_path: Path) -> None:
        log = tmp_path / "debug.log"
        with worker(tmp_path, "-P", "solo", "-l", "debug", "-f", str(log)) as errors:
            assert '"level": "debug"' in log.read_text()
            assert '"level"' not in Path(errors).read_text()

    def test_a_level_of_error_hides_the_rest(self, tmp_path: Path) -> None:
        with worker(tmp_path, "-P", "solo", "-l", "error") as errors:
            pass
        assert '"level": "info"' not in Path(errors).read_text()

    def test_without_them_settings_rule(self, tmp_path: Path) -> None:
        with worker(tmp_path, "-P", "solo") as errors:
            wait_until(lambda: " ready." in Path(errors).read_text())
        assert '"level": "debug"' not in Path(errors).read_text()
