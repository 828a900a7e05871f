"""The Celery application: one queue and one registered task per job type, both named ``jobs.<type>``."""

import os
from functools import partial
from importlib import import_module
from typing import Any

from celery import Celery
from celery.signals import (
    beat_init,
    setup_logging,
    worker_init,
    worker_process_init,
    worker_process_shutdown,
    worker_ready,
    worker_shutdown,
    worker_shutting_down,
)
from kombu import Queue

from jobs.broker import use_for_redis
from jobs.telemetry import get_logger
from scheduler_project.worker import collector

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "scheduler_project.settings")

log = get_logger()
use_for_redis()
app = Celery(
    "carillon",
    fixups={"scheduler_project.connections:fixup"},
    events="scheduler_project.worker.events:Events",
)
app.config_from_object("django.conf:settings", namespace="CELERY")


@setup_logging.connect
def _keep_our_logging(**_: Any) -> None:
    """Django's settings configured logging already; a receiver here keeps Celery from replacing it."""


@worker_init.connect
def _prepare_before_forking(sender: Any, **_: Any) -> None:
    """What the first webhook would import while a firing waits; the pool's processes share its memory."""
    from jobs.conf import engine_settings
    from jobs.store import db

    import_module("aiohttp")
    db.keep_plans()
    if engine_settings().brokerless_fallback:
        _prepare_to_go_without_broker(sender)
    collector.spare()


def _prepare_to_go_without_broker(worker: Any) -> None:
    """Each process of a prefork pool looks for messages in Postgres by itself; of the others the worker's own does."""
    from celery.concurrency import get_implementation

    from jobs import tasks
    from jobs.engine.worker import brokerless

    pool = get_implementation(worker.pool_cls).__module__.rpartition(".")[2]
    if pool not in ("prefork", "thread", "solo"):
        log.warning("no fallback without broker", pool=pool, error="only prefork, threads and solo have one")
        return
    threads = worker.concurrency if isinstance(worker.concurrency, int) else os.cpu_count() or 1
    brokerless.begin(
        brokerless.Brokerless(
            job_types=[name.removeprefix("jobs.") for name in worker.app.amqp.queues.consume_from],
            slots=threads if pool == "thread" else 1,
            perform=partial(tasks.perform, worker_name=worker.hostname),
        )
    )
    if pool != "prefork":
        brokerless.start()


@worker_process_init.connect
def _connect_ahead(**_: Any) -> None:
    """Connect before the first message, not while it waits; a server that is away is met by the claim's patience."""
    from jobs.engine import worker
    from jobs.engine.worker import brokerless
    from jobs.store import db

    worker.be_expendable()
    db.connect_ahead()
    brokerless.start()
    collector.spare()


@worker_process_shutdown.connect
@worker_shutdown.connect
def _wait_for_the_rest(exitcode: int | None = None, **_: Any) -> None:
    """A process that is asked to end finishes what goes on in it; one that is told to, by a signal, does not."""
    from jobs.engine import worker
    from jobs.engine.worker import brokerless

    if exitcode is None or exitcode >= 0:  # as billiard has it: minus 256 and the signal
        brokerless.stop()
        worker.wait_for_the_rest()


@worker_shutting_down.connect
def _let_the_pool_know(**_: Any) -> None:
    """Its processes hear of a SIGTERM only when they have nothing left to do."""
    from jobs.engine import worker

    worker.drain()


@worker_ready.connect
def _say_that_we_are_there(sender: Any, **_: Any) -> None:
    """The consumer is told its queues by ``-Q``, ``-X`` and remote control; without a connection it takes nothing."""
    from jobs.conf import engine_settings
    from jobs.engine.worker.presence import Presence, Standing

    without_broker = engine_settings().brokerless_fallback

    def standing() -> Standing | None:
        if sender.connection is None and not without_broker:
            return None
        return Standing(list(sender.app.amqp.queues.consume_from), sender.controller.concurrency)

    presence = Presence(name=sender.hostname, standing=standing)
    worker_shutting_down.connect(lambda **_: presence.leave(), weak=False)
    presence.start()


@beat_init.connect
def _prepare_to_lead(**_: Any) -> None:
    """Beats also do what callers asked for by filter; the filters are the API's."""
    from jobs.actions.bulk.runner import Runner
    from jobs.api.calls.selection import select

    Runner(select).start()
    collector.spare()


@app.on_after_finalize.connect
def _register_job_types(sender: Celery, **_: Any) -> None:
    from jobs.tasks import register

    names = register(sender)
    sender.conf.task_queues = [Queue(name, exchange="", routing_key=name) for name in names]
