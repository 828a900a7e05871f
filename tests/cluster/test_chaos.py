"""The fault suite from end to end, as its users start it: stage, load, one fault, heal, judge, report."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from chaos import history
from chaos.history import Healed, Struck
from chaos.judge import judge

pytestmark = pytest.mark.cluster
PROJECT = Path(__file__).resolve().parents[2]
#: Variables that the run must set itself.
OWN = ("DATABASE_URL", "REDIS_URL", "BROKER_URL", "CARILLON_DATA_DIR", "SECRET_KEY", "ALLOWED_HOSTS")
#: Breaches that a busy machine may cause; they say nothing about Carillon.
OF_TIME = {"late", "resumed late", "reclaimed late"}


class TestMakeChaos:
    def test_kills_a_worker_under_load_and_finds_the_promises_kept(self, tmp_path: Path) -> None:
        environment = {name: value for name, value in os.environ.items() if name not in OWN}
        done = subprocess.run(
            [sys.executable, "-m", "chaos", "run", "--profile", "smoke", "--seed", "1", "--reports", str(tmp_path)],
            cwd=PROJECT, env=environment, check=False, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode in (0, 1), done.stdout + done.stderr
        [report] = tmp_path.iterdir()
        assert {path.name for path in report.iterdir()} == {"history.jsonl", "history.svg", "logs.tar.gz"}
        records = list(history.read(report / "history.jsonl"))
        assert [record.number for record in records if isinstance(record, Struck)] == [1]
        assert [record.id for record in records if isinstance(record, Healed)] == ["1.0"]
        verdict = judge(records)
        assert verdict.firings > 20
        assert verdict.passed == (done.returncode == 0)
        assert [str(breach) for breach in verdict.breaches if breach.kind not in OF_TIME] == []
