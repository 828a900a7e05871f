"""The CPU time that groups of processes take."""

import threading
import time
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


@contextmanager
def processor_slices(stage: Stage, *pids: int, slice_seconds: float) -> Iterator[dict[int, float]]:
    """Yields a dict that holds, after the block, the CPU seconds of the processes and of Postgres, children included,
    in each whole slice of time. The key tells how many slices after the epoch it began."""
    pids = (*pids, psutil.Process(stage.value("SELECT pg_backend_pid()")).ppid())
    found: dict[int, float] = {}
    over = threading.Event()

    def watch() -> None:
        before: dict[psutil.Process, float] | None = None
        following = int(time.time() // slice_seconds) + 1
        while not over.wait(max(0.0, following * slice_seconds - time.time())):
            now = {process: _seconds(process) for pid in pids for process in family(pid)}
            if before is not None:
                found[following - 1] = sum(now.values()) - sum(before.get(process, 0.0) for process in now)
            before = now
            following += 1

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


def _seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:  # a server process of autovacuum's, which comes and goes
        return 0.0
    return float(times.user + times.system)
