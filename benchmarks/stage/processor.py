"""The CPU time that groups of processes take."""

from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from benchmarks.stage.servers import Stage
from stage.processes import family


@contextmanager
def processor_time(stage: Stage, **pids: int) -> Iterator[dict[str, float]]:
    """Yields a dict that holds, after the block, the CPU seconds by name and of ``postgres``, children included."""
    pids["postgres"] = psutil.Process(stage.value("SELECT pg_backend_pid()")).ppid()
    processes = {name: list(family(pid)) for name, pid in pids.items()}
    before = {name: sum(map(_seconds, found)) for name, found in processes.items()}
    taken: dict[str, float] = {}
    yield taken
    for name, found in processes.items():
        taken[name] = sum(map(_seconds, found)) - before[name]


def _seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:  # a server process of autovacuum's, which comes and goes
        return 0.0
    return float(times.user + times.system)
