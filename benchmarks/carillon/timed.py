"""Carillon that times its counting of activity. Start it with ``celery -A`` this module, and import it nowhere else: it
changes the process that imports it.

Each process puts into the directory ``TIMES``, once a second, what counting has taken so far: processor seconds in the
process, and in Postgres, where the writer of counts has a connection of its own.
"""

import json
import os
import threading
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import psutil
from celery.signals import beat_init, worker_init

from benchmarks.carillon.times import TIMES
from scheduler_project.celery import app

__all__ = ["app"]

_lock = threading.Lock()
_seconds = 0.0
_within = threading.local()


@worker_init.connect
@beat_init.connect
def _time_counting(**_: Any) -> None:
    """Before the pool's processes are forked."""
    from jobs.activity import Activity
    from jobs.engine.activity import ActivityWriter
    from jobs.store.insight import activity

    names: list[tuple[Any, str]] = [(activity, name) for name in vars(activity) if name.startswith("count")]
    names += [(Activity, "add"), (Activity, "add_all"), (ActivityWriter, "turn")]
    for of, name in names:
        setattr(of, name, _timed(getattr(of, name)))
    setattr(ActivityWriter, "turn", _noted(ActivityWriter.turn))  # noqa: B010 - mypy forbids the plain assignment
    os.register_at_fork(after_in_child=_forget)


def _forget() -> None:
    global _seconds, _lock
    _lock, _seconds = threading.Lock(), 0.0


def _timed(counting: Callable[..., Any]) -> Callable[..., Any]:
    """Adds up what it takes, but not within another that is timed."""

    @wraps(counting)
    def timed(*arguments: Any, **named: Any) -> Any:
        global _seconds
        if getattr(_within, "one", False):
            return counting(*arguments, **named)
        _within.one = True
        began = time.thread_time()
        try:
            return counting(*arguments, **named)
        finally:
            with _lock:
                _seconds += time.thread_time() - began
            _within.one = False

    return timed


def _noted(turn: Callable[..., Any]) -> Callable[..., Any]:
    """Puts on file what counting has taken, after each turn of the writer."""
    in_postgres = 0.0

    @wraps(turn)
    def noted(*arguments: Any, **named: Any) -> Any:
        nonlocal in_postgres
        from django.db import connection

        took = turn(*arguments, **named)
        if connection.connection is not None:
            times = psutil.Process(connection.connection.info.backend_pid).cpu_times()
            in_postgres = times.user + times.system
        file = Path(os.environ[TIMES]) / f"{os.getpid()}.json"
        file.with_suffix(".new").write_text(json.dumps([_seconds, in_postgres]))
        file.with_suffix(".new").rename(file)
        return took

    return noted
