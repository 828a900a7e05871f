"""The beat replacement: ``celery -A scheduler_project beat -S jobs.engine.beat:LeaderScheduler`` (DESIGN §6).

Any number may run; one leads, the others stand by. All waiting happens inside ``tick``, so a signal or a wake-up ends
it at once. Celery's own SIGTERM handler would call ``close`` in the middle of a tick, where the connection's lock may
be held. Our handler only raises a flag, and ``tick`` leaves at its next safe point.
"""

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any

from celery import Celery
from celery.beat import Scheduler
from celery.signals import beat_init

from jobs.broker import BrokerMemory
from jobs.conf import engine_settings
from jobs.engine.cycle import Cycle
from jobs.engine.dispatcher import Message, QueueConfig
from jobs.engine.publisher import Publisher
from jobs.engine.pull.configs import PullConfigs, TakenBy, Takers
from jobs.handlers import JobType, registry
from jobs.store import db
from jobs.store.dispatch import messages
from jobs.wakeups import Listener, Sleep


def served_types(
    pull_configs: Callable[[], dict[str, QueueConfig]] = dict, takers: Callable[[], dict[str, TakenBy]] = dict
) -> dict[str, QueueConfig]:
    """The queue configurations of all registered job types and of ``pull_configs``. ``takers``: of shared types."""
    taken = takers()
    return pull_configs() | {
        job_type.name: _config(job_type, taken.get(job_type.name, TakenBy()))
        for job_type in registry.all_types()
    }


def _config(job_type: JobType, taken: TakenBy) -> QueueConfig:
    return QueueConfig(
        job_type.max_in_flight,
        job_type.batch_size if engine_settings().batching else 1,
        at_once=job_type.is_async,
        askers=taken.by_tenants,
        unheard=not taken.by_celery,
    )


def _leave_in_postgres(batch: Sequence[Message]) -> None:
    messages.put([(message.job_type, message.tokens) for message in batch])


class LeaderScheduler(Scheduler):
    """Celery's beat, with Carillon's cycle in place of its heap of entries."""

    def __init__(self, app: Celery, *args: Any, **kwargs: Any) -> None:
        self._cycle: Cycle | None = None
        self._stopping = False
        super().__init__(app, *args, **kwargs)

    def setup_schedule(self) -> None:
        """Called for the real instance only. Celery's banner makes a lazy one, which must not touch anything."""
        db.keep_plans()
        self._wake_read, self._wake_write = os.pipe()
        for end in (self._wake_read, self._wake_write):
            os.set_blocking(end, False)
        self._listener = Listener()
        self._sleep = Sleep(signals=self._wake_read, listener=self._listener)
        settings = engine_settings()
        publisher = Publisher(self.app, instead=_leave_in_postgres if settings.brokerless_fallback else None)
        self._publisher = publisher
        self._cycle = Cycle(
            settings=settings,
            configs=partial(served_types, PullConfigs(), Takers()),
            publish=publisher,
            ready=publisher.ready,
            slow=publisher.is_slow,
            forgot=BrokerMemory().forgot,
            abreast=True,
            wake=self._wake,
        )
        beat_init.connect(self._install_signals, weak=False)

    def _install_signals(self, **_: Any) -> None:
        # The interpreter itself writes to the pipe at once. Our handler would be too late: it runs between two
        # bytecodes, so the process would sleep through a signal that arrives just before ``select``.
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask_to_stop)

    def _wake(self) -> None:
        """End the present sleep, or the next one: a step beside dispatch made work for it. Called from any thread."""
        with suppress(BlockingIOError):  # the pipe is full of wake-ups already
            os.write(self._wake_write, b"\0")

    def _ask_to_stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stopping = True

    def tick(self, *_: Any, **__: Any) -> float:
        """One cycle and the sleep after it. Raises ``SystemExit`` between cycles once asked to stop."""
        assert self._cycle is not None
        self._leave_if_asked()
        seconds = self._cycle.tick()
        if self._cycle.leading:
            self._listener.listen()
        if self._sleep(seconds, listening=self._cycle.leading):
            os.read(self._wake_read, 1024)
        self._leave_if_asked()
        return 0.0

    def _leave_if_asked(self) -> None:
        if self._stopping:
            raise SystemExit

    def close(self) -> None:
        """Hand over the lease. Celery calls it once, outside a tick. May be repeated."""
        if self._cycle is not None:
            self._cycle.close()
            self._publisher.close()
            self._listener.close()

    @property
    def info(self) -> str:
        settings = engine_settings()
        election = f"lease {settings.leader_lease_seconds:g} s" if settings.leader_election else "off"
        return f"    . leader election -> {election}"
