"""Carillon that times its counting of activity. Start it with ``celery -A`` this module, and import it nowhere else: it
changes the process that imports it.

Each process puts into the directory ``TIMES``, once a second, what counting has taken so far: processor seconds in the
process, and those of the statements that write counts, in Postgres.
"""

import json
import os
import threading
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from celery.signals import beat_init, worker_init

from benchmarks.carillon.times import TIMES
from scheduler_project.celery import app

__all__ = ["app"]

_lock = threading.Lock()
_seconds = 0.0
_within = threading.local()
#: Of the servers' processes: to open one for each reading would take longer than to count.
_files: dict[int, int] = {}


@worker_init.connect
@beat_init.connect
def _time_counting(**_: Any) -> None:
    """Before the pool's processes are forked."""
    from jobs.activity import Activity
    from jobs.engine.activity import ActivityWriter
    from jobs.store.insight import activity

    written: list[tuple[Any, str]] = [(activity, "report"), (activity, "fold")]
    for of, name in written:
        setattr(of, name, _timed(_with_postgres(getattr(of, name))))
    counted: list[tuple[Any, str]] = [(activity, name) for name in vars(activity) if name.startswith("count")]
    counted += [
        (activity.Outcomes, "__init__"),
        (activity.Outcomes, "count"),
        (Activity, "add"),
        (Activity, "add_all"),
    ]
    for of, name in [*counted, (ActivityWriter, "turn")]:
        setattr(of, name, _timed(getattr(of, name)))
    setattr(ActivityWriter, "turn", _noted(ActivityWriter.turn))  # noqa: B010 - mypy forbids the plain assignment
    os.register_at_fork(after_in_child=_forget)


def _forget() -> None:
    global _seconds, _lock
    _lock, _seconds = threading.Lock(), 0.0


def _add(seconds: float) -> None:
    global _seconds
    with _lock:
        _seconds += seconds


def _timed(counting: Callable[..., Any]) -> Callable[..., Any]:
    """Adds up what it takes, but not within another that is timed."""

    @wraps(counting)
    def timed(*arguments: Any, **named: Any) -> Any:
        if getattr(_within, "one", False):
            return counting(*arguments, **named)
        _within.one = True
        began = time.thread_time()
        try:
            return counting(*arguments, **named)
        finally:
            _add(time.thread_time() - began)
            _within.one = False

    return timed


def _with_postgres(writing: Callable[..., Any]) -> Callable[..., Any]:
    """Adds up what its statements take in Postgres."""

    @wraps(writing)
    def counted(*arguments: Any, **named: Any) -> Any:
        from django.db import connection

        connection.ensure_connection()
        server = connection.connection.info.backend_pid
        before = _running_seconds(server)
        try:
            return writing(*arguments, **named)
        finally:
            _add(_running_seconds(server) - before)

    return counted


def _running_seconds(pid: int) -> float:
    """The processor seconds of a process, to the nanosecond."""
    file = _files.get(pid)
    if file is None:
        file = _files[pid] = os.open(f"/proc/{pid}/schedstat", os.O_RDONLY)
    return int(os.pread(file, 100, 0).split()[0]) / 1e9


def _noted(turn: Callable[..., Any]) -> Callable[..., Any]:
    """Puts on file what counting has taken, after each turn of the writer."""

    @wraps(turn)
    def noted(*arguments: Any, **named: Any) -> Any:
        took = turn(*arguments, **named)
        file = Path(os.environ[TIMES]) / f"{os.getpid()}.json"
        file.with_suffix(".new").write_text(json.dumps(_seconds))
        file.with_suffix(".new").rename(file)
        return took

    return noted
