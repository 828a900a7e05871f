"""Carillon that counts its activity in every second slice of time only, to measure the cost of counting. Start it with
``celery -A`` this module: all its processes count, and do not, at the same times.
"""

import os
import threading
import time
from typing import Any

from celery.signals import beat_init, worker_init

from scheduler_project.celery import app

__all__ = ["SLICE_SECONDS", "app", "counts"]

#: Long beside the time from a claim to its outcome, and short beside the time in which a machine's speed changes.
SLICE_SECONDS = 3.0


def counts(number: int) -> bool:
    """Whether the slice counts that is so many ``SLICE_SECONDS`` after the epoch."""
    return number % 2 == 0


@worker_init.connect
@beat_init.connect
def _take_turns(**_: Any) -> None:
    """In this process and in those that it forks."""
    from jobs.activity import Activity
    from jobs.store.insight import activity

    names = [(activity, name) for name in vars(activity) if name.startswith("count")]
    names += [(Activity, name) for name in ("add", "add_all")]
    shipped = [(of, name, getattr(of, name)) for of, name in names]

    def begin() -> None:
        threading.Thread(target=_switch, args=(shipped,), daemon=True, name="counting by turns").start()

    begin()
    os.register_at_fork(after_in_child=begin)


def _switch(shipped: list[tuple[Any, str, Any]]) -> None:
    from jobs.engine.activity import WRITER

    while True:
        number = int(time.time() // SLICE_SECONDS)
        if not counts(number):
            WRITER.turn()  # what was counted in the slice before is part of its cost
        for of, name, counting in shipped:
            setattr(of, name, counting if counts(number) else _nothing)
        time.sleep(max(0.0, (number + 1) * SLICE_SECONDS - time.time()))


def _nothing(*_: Any, **__: Any) -> None:
    """Counts nothing."""
