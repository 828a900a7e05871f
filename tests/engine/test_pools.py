"""A pool in which Carillon does not work is refused as the worker starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def test_of_greenlets_is_refused_with_the_reason() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "celery", "-A", "scheduler_project", "worker", "--pool", "custom"],
        cwd=ROOT,
        env={**os.environ, "CELERY_CUSTOM_WORKER_POOL": "tests.engine.gevent:TaskPool"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "'gevent'" in done.stderr
    assert "--pool prefork (the default), threads or solo" in done.stderr
