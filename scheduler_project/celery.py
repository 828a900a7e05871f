"""The Celery application: one queue and one registered task per job type, both named ``jobs.<type>``."""

import logging
import os
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from celery import Celery
from celery.concurrency import get_implementation
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
from celery.worker import state
from django.conf import settings
from kombu import Queue

from jobs.broker import tell_carriers, use_for_redis
from jobs.telemetry import get_logger, keep_prints, logging_config
from scheduler_project.processes import collector
from scheduler_project.schema import OlderSchema, refuse_older_schema
from scheduler_project.sessions import SharedSessions, go_past_pooler, go_through_pooler
from scheduler_project.worker import flower

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "scheduler_project.settings")
# Django's checks import each URL's view, and the console with them, at each start; `manage.py check` runs them.
os.environ.setdefault("CELERY_SKIP_CHECKS", "true")

log = get_logger()
#: The modules of the pools that Carillon works in.
POOLS = ("prefork", "thread", "solo")
use_for_redis()
flower.close()
app = Celery(
    "carillon",
    fixups={"scheduler_project.connections:fixup"},
    events="scheduler_project.worker.events:Events",
)
app.config_from_object("django.conf:settings", namespace="CELERY")


@setup_logging.connect
def _heed_log_options(loglevel: int, logfile: str | None, **_: Any) -> None:
    """Log by ``--logfile`` and ``-l``. While the signal has a receiver, Celery does not write log lines of its own.

    Django's settings configured logging already. The level of ``-l`` is known, but not whether the option was given: at
    WARNING, its default, the settings decide.
    """
    from jobs.conf import engine_settings

    engine = engine_settings()
    overall = None if loglevel == logging.WARNING else logging.getLevelName(loglevel)
    logging_config(
        log_format=engine.log_format, level=engine.log_level, overall_level=overall, log_file=logfile
    )


def _connected(way: Callable[[], None]) -> None:
    """Connect to the database by ``way``. Ends the process, with the reason, behind a pooler that the settings do not
    name, or if the schema is older than the code."""
    try:
        way()
        refuse_older_schema()
    except (SharedSessions, OlderSchema) as error:
        sys.exit(str(error))  # not an Exception: Celery would log it and start


@worker_init.connect
def _prepare_before_forking(sender: Any, **_: Any) -> None:
    """Import modules that the first webhook would import while a firing waits; the pool's processes share them."""
    from jobs.conf import engine_settings
    from jobs.store import db

    pool = _supported_pool(sender)
    _connected(go_through_pooler)
    tell_carriers()
    import_module("aiohttp")
    db.keep_plans()
    keep_prints()
    _guard(pool)
    if pool == "prefork":
        worker_shutting_down.connect(_bound_stop, weak=False)
        worker_process_init.connect(partial(_end_with, os.getpid()), weak=False)
    else:
        _write_activity()
    if engine_settings().brokerless_fallback:
        _prepare_to_go_without_broker(sender, pool)
    collector.spare()


def _bound_stop(**_: Any) -> None:
    """Triggers that the pool's processes do not finish while they drain are then handed back. No stop takes longer."""
    from billiard.process import active_children

    from jobs.conf import engine_settings
    from jobs.engine.worker import draining

    draining.end_after(
        engine_settings().drain_seconds + draining.LAST_SECONDS,
        children=lambda: [process.pid for process in active_children()],
    )


def _end_with(worker: int, **_: Any) -> None:
    """Celery asks the kernel to end a pool's process with its worker. A worker that died before that is not told of."""
    if os.getppid() != worker:
        os._exit(os.EX_OK)


def _supported_pool(worker: Any) -> str:
    """The kind of pool that the worker was asked for. Ends the process, with the reason, if Carillon cannot use it."""
    pool = get_implementation(worker.pool_cls).__module__.rpartition(".")[2]
    if pool not in POOLS:
        # Not an Exception: Celery would log it and start.
        sys.exit(
            f"Carillon does not run in the pool {pool!r}: use --pool prefork (the default), threads or solo. Greenlets "
            "share one thread with the event loop of asynchronous handlers, so Django refuses the database to all of "
            "them, and webhooks would be sent without being recorded. Webhooks need no greenlets: one prefork process "
            "sends hundreds at once."
        )
    return pool


def _guard(pool: str) -> None:
    """In a prefork pool no handler runs in this process, so it can guard the pool itself, once the pool is forked."""
    from jobs.engine import worker

    start = worker.begin_guarding(beside=pool != "prefork")
    worker_ready.connect(lambda **_: start(), weak=False)


def _prepare_to_go_without_broker(worker: Any, pool: str) -> None:
    """In a prefork pool each process looks for messages in Postgres itself; elsewhere the worker's own process does."""
    from jobs import tasks
    from jobs.engine.worker import THIS
    from jobs.engine.worker.brokerless import Brokerless

    threads = worker.concurrency if isinstance(worker.concurrency, int) else os.cpu_count() or 1
    THIS.brokerless = Brokerless(
        job_types=[name.removeprefix("jobs.") for name in worker.app.amqp.queues.consume_from],
        slots=threads if pool == "thread" else 1,
        perform=partial(tasks.perform, worker_name=worker.hostname),
    )
    if pool != "prefork":
        THIS.look_for_messages()


def _write_activity() -> None:
    """Start the thread that writes the counts of this process."""
    from jobs.engine.activity import WRITER

    WRITER.start()


@worker_process_init.connect
def _connect_ahead(**_: Any) -> None:
    """Connect before the first message, not while it waits. If the server is away, the claim retries later.

    The recorder of spans is imported here, too. On a machine that workers share with beats and servers, handlers may
    stand back: if they hold up the beat, no firing is on time.
    """
    from jobs.conf import engine_settings
    from jobs.engine import worker
    from jobs.engine.worker import draining
    from jobs.store import db
    from jobs.telemetry import traces

    os.nice(engine_settings().pool_niceness)
    draining.tell_on_signal()
    worker.be_expendable()
    db.connect_ahead()
    traces.recorder()
    worker.look_for_messages()
    _write_activity()
    collector.spare()


@worker_process_shutdown.connect
@worker_shutdown.connect
def _wait_for_the_rest(exitcode: int | None = None, **_: Any) -> None:
    """A process that is asked to end finishes its work first; one that a signal ends does not."""
    from jobs.engine import worker
    from jobs.engine.activity import WRITER

    if exitcode is None or exitcode >= 0:  # as billiard has it: minus 256 and the signal
        worker.wait_for_the_rest()
    WRITER.stop()


@worker_shutting_down.connect
def _let_the_pool_know(**_: Any) -> None:
    """Tell the pool's processes: they notice a SIGTERM only when they have no work left."""
    from jobs.engine import worker

    worker.drain()


@worker_ready.connect
def _say_that_we_are_there(sender: Any, **_: Any) -> None:
    """``-Q``, ``-X`` and remote control set the consumer's queues; without a connection it takes no messages."""
    from jobs.conf import engine_settings
    from jobs.engine.worker.presence import Presence, WorkerStatus

    without_broker = engine_settings().brokerless_fallback

    def status() -> WorkerStatus | None:
        if sender.connection is None and not without_broker:
            return None
        slots: int = sender.controller.concurrency
        # A message that was taken ahead counts as active to a pool of threads.
        busy = min(len(state.active_requests), slots)
        return WorkerStatus(list(sender.app.amqp.queues.consume_from), slots, busy)

    presence = Presence(name=sender.hostname, status=status)
    worker_shutting_down.connect(lambda **_: presence.leave(), weak=False)
    presence.start()


@beat_init.connect
def _prepare_to_lead(**_: Any) -> None:
    """Beats also carry out the operations that callers asked for by filter; the filters are the API's."""
    from jobs import limits
    from jobs.actions.bulk.runner import Runner

    _connected(go_past_pooler)
    tell_carriers()
    limits.counted_together(say=True)
    Runner(_select).start()
    _write_activity()
    collector.spare()


def _select(*asked: Any, **options: Any) -> Any:
    """``jobs.selection.walks.select``, imported at the first use."""
    from jobs.selection.walks import select

    return select(*asked, **options)


@app.on_after_finalize.connect
def _register_job_types(sender: Celery, **_: Any) -> None:
    from jobs.tasks import register

    names = register(sender)
    kind = settings.CARILLON.queue_type
    arguments = None if kind == "default" else {"x-queue-type": kind}
    sender.conf.task_queues = [
        Queue(name, exchange="", routing_key=name, queue_arguments=arguments) for name in names
    ]
