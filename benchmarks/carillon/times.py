"""Where the processes of ``benchmarks.carillon.timed`` tell what counting takes."""

import json
from pathlib import Path

#: The environment variable that names the directory.
TIMES = "BENCH_COUNTING_TIMES"


def spent(directory: Path) -> float:
    """The processor seconds that counting has taken so far, in all processes and in Postgres."""
    return sum(json.loads(file.read_text()) for file in directory.glob("*.json"))
