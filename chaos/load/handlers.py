"""Handlers that tell the receiver of each execution, then make an effect or end their process.

Imported by the workers of the stage alone: importing registers them.
"""

import ctypes
import os
import resource
import signal
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

from chaos.load import effects
from chaos.load.reports import report
from jobs.handlers import Context, job_type

#: Long enough to be killed during it.
WORK_SECONDS = 0.2
#: Twice as long as a lease.
GIL_SECONDS = 60.0
#: The number of files that a process may hold; all that were open before are below it.
DESCRIPTORS = 4_096
MEMORY_BYTES = 1 << 30
BLOCK_BYTES = 1 << 20


@job_type("chaos.segfault")
def segfault(ctx: Context, payload: dict[str, Any]) -> None:
    _report(ctx, payload["url"])
    ctypes.string_at(0)


@job_type("chaos.memory")
def memory(ctx: Context, payload: dict[str, Any]) -> None:
    """As the kernel's killer would end it: at the limit, without a word."""
    _report(ctx, payload["url"])
    resource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))
    try:
        bytearray(1 << 30)
    except MemoryError:
        os._exit(137)


@job_type("chaos.once")
def once(ctx: Context, payload: dict[str, Any]) -> None:
    """An effect in a table, made once even if its worker is killed at it."""
    from django.db import connection, transaction

    _report(ctx, payload["url"])
    time.sleep(WORK_SECONDS)
    with transaction.atomic():
        if ctx.once("effect"):
            with connection.cursor() as cursor:
                cursor.execute(effects.INSERT, [ctx.job_id, ctx.scheduled_for])


@job_type("chaos.shared", pull=True)
def shared(ctx: Context, payload: dict[str, Any]) -> None:
    """The work that pull workers do too: ``chaos.load.pull_worker``."""
    _report(ctx, payload["url"])


@job_type("chaos.task")
def task(ctx: Context, payload: dict[str, Any]) -> Any:
    """A task of a workflow: its result is the receiver's answer."""
    return _report(ctx, payload["url"], body=payload["body"])


@job_type("chaos.gil", timeout_seconds=600)
def gil(ctx: Context, payload: dict[str, Any]) -> None:
    """Like a regular expression that backtracks for a minute: no other thread of the process runs."""
    _report(ctx, payload["url"])
    asked = parse_qs(urlsplit(payload["url"]).query).get("hold")
    # PyDLL, unlike CDLL, keeps the interpreter's lock.
    ctypes.PyDLL(None).usleep(int(float(asked[0] if asked else GIL_SECONDS) * 1_000_000))


@job_type("chaos.transaction")
def transaction_left_open(ctx: Context, payload: dict[str, Any]) -> None:
    from django.db import connection

    _report(ctx, payload["url"])
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute(effects.INSERT, [ctx.job_id, ctx.scheduled_for])


@job_type("chaos.forks")
def forks(ctx: Context, payload: dict[str, Any]) -> None:
    """The child outlives its handler by far, with everything its parent had open."""
    _report(ctx, payload["url"])
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        time.sleep(GIL_SECONDS)
        os._exit(0)


@job_type("chaos.descriptors")
def descriptors(ctx: Context, payload: dict[str, Any]) -> None:
    """Closes everything: connections to Postgres and Redis, pipes to the parent."""
    _report(ctx, payload["url"])
    os.closerange(3, DESCRIPTORS)


@job_type("chaos.hoard")
def hoard(ctx: Context, payload: dict[str, Any]) -> None:
    """Fills memory until there is no more."""
    _report(ctx, payload["url"])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_address_space() + MEMORY_BYTES, hard))
    blocks = []
    try:
        while True:
            blocks.append(bytearray(b"x") * BLOCK_BYTES)
    except MemoryError:
        time.sleep(WORK_SECONDS)
    finally:
        blocks.clear()
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _address_space() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[0]) * resource.getpagesize()


@job_type("chaos.victim")
def victim(ctx: Context, payload: dict[str, Any]) -> None:
    """A type that one tenant alone uses, so that its queue is that tenant's."""
    _report(ctx, payload["url"])


@job_type("chaos.nothing")
def nothing(ctx: Context, payload: dict[str, Any]) -> None:
    """The type of a backlog's jobs (``chaos.load.backlog``): they exist to be dispatched."""


def _report(ctx: Context, url: str, *, body: Any = None) -> Any:
    return report(
        url,
        job_id=str(ctx.job_id),
        trigger_id=str(ctx.trigger_id),
        scheduled_for=ctx.scheduled_for.isoformat(),
        attempt=ctx.attempt_number,
        fence=ctx.fence,
        execution_id=str(ctx.attempt_id),
        key=ctx.idempotency_key,
        body=body,
    )
