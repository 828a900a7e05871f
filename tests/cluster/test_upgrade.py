"""An upgrade without a stop: an earlier release is replaced under load, process by process, and comes back.

The schema is this release's from the beginning on, as after ``migrate``. Beats and workers run the earlier code, then
this one, then the earlier code again, one replaced after the other; in between both work side by side. Judged from
outside, by the receiver's log.
"""

import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from stage.processes import PROJECT_DIR, free_port, kill_tree, start_python
from stage.waiting import wait_until
from tests.cluster.crew import Crew
from tests.cluster.kills import JOBS, Schedule, judge
from tests.cluster.receiver import Receiver
from tests.cluster.stage import Stage

pytestmark = pytest.mark.cluster
#: The last commit before release 0.1.0; from the next release on, its tag.
FROM = os.environ.get("UPGRADE_FROM") or "6f0928cda5085c1476851ebb45d22fec4ed2ebd7"
SECONDS = float(os.environ.get("UPGRADE_SECONDS") or 1)
MAX_LATE_SECONDS = 5.0


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The earlier release's code."""
    archive = subprocess.run(["git", "archive", FROM], cwd=PROJECT_DIR, capture_output=True)
    if archive.returncode:
        pytest.skip(f"{FROM} is not in this clone: {archive.stderr.decode().strip()}")
    directory = tmp_path_factory.mktemp("earlier")
    subprocess.run(["tar", "-x"], cwd=directory, input=archive.stdout, check=True)
    return directory


def readyz(stage: Stage, directory: Path) -> Iterator[dict[str, object]]:
    """The /readyz answer of a web process of that code, beside the others."""
    port = free_port()
    web = ("-m", "gunicorn", "scheduler_project.wsgi:application", "--bind", f"127.0.0.1:{port}")
    process = start_python(web, environment=stage.environment, log=stage.log_path, directory=directory)

    def answer() -> dict[str, object] | None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as told:
                return dict(json.loads(told.read()))
        except OSError:
            return None

    try:
        yield wait_until(answer, 60, what="a web process to be ready")
    finally:
        kill_tree(process.pid)
        process.wait()


class TestAnUpgrade:
    def test_process_by_process_and_back_loses_doubles_and_delays_nothing(
        self, earlier: Path, slow_receiver: Receiver
    ) -> None:
        with Stage(beats=0, workers=0) as stage, Crew(stage, beats=2, workers=2, directory=earlier) as crew:
            schedule = Schedule(stage, slow_receiver)
            wait_until(lambda: len(slow_receiver.deliveries) > JOBS, 60, what="the load to flow")
            begun = time.time()
            for directory in (PROJECT_DIR, earlier):
                crew.directory = directory
                for name in (*crew.workers, *crew.beats):
                    crew.restart(name)
                    self.wait_for(crew, name, stage)
                assert {psutil.Process(pid).cwd() for pid in crew.pids()} == {str(directory)}
                for told in readyz(stage, directory):
                    assert told["status"] == "ok"
                    assert ("version" in told) == (directory == PROJECT_DIR)
            until = time.time()
            assert crew.ended() == []
            deliveries, doubled = judge(schedule, slow_receiver, stage, horizon=until)
            watched = [one for one in deliveries if one.scheduled_for.timestamp() >= begun]
            late = max(one.late_seconds for one in watched)
            print(
                f"{len(watched)} firings in {until - begun:.0f} s, {len(doubled)} doubled, at most {late:.2f} s late"
            )
            assert len(watched) > JOBS
            assert doubled == []
            assert late <= MAX_LATE_SECONDS

    @staticmethod
    def wait_for(crew: Crew, name: str, stage: Stage) -> None:
        """Wait until it works, and for a while beside the others."""
        process = (
            f"SELECT FROM pg_stat_activity WHERE application_name = '{name}' AND datname = current_database()"
        )
        wait_until(lambda: stage.query(process), 60, what=f"{name} to be there")
        if name in crew.beats:
            wait_until(crew.leader, 30, what="a leader")
        else:
            there = (
                f"SELECT FROM jobs_worker WHERE name LIKE '{name}@%' AND seen_at > now() - interval '10 s'"
            )
            wait_until(lambda: stage.query(there), 60, what=f"{name} to take work")
        enough = time.time() + SECONDS
        wait_until(lambda: time.time() > enough, SECONDS + 10, what="a while")
