"""Every bench, small: that it runs and prints its line. ``pytest -m bench tests/benchmarks``, some minutes."""

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest

from benchmarks.__main__ import BENCHES
from stage.processes import PROJECT_DIR

PEERS = ("apscheduler", "django_celery_beat", "procrastinate", "redbeat", "sqlalchemy")
SCALE = "0.01"

pytestmark = [
    pytest.mark.bench,
    pytest.mark.skipif(
        any(find_spec(peer) is None for peer in PEERS), reason="`make bench` installs the peers"
    ),
]


class TestABench:
    @pytest.mark.parametrize("name", BENCHES)
    def test_runs_and_prints_its_line(self, name: str) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks", name, "--scale", SCALE, "--json"],
            cwd=PROJECT_DIR,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        line = json.loads(done.stdout)
        assert line["name"] == name
        assert line["ours"] > 0
        assert line["peer"] > 0
        assert line["ratio"] > 0
