"""Handlers that tell the receiver of each execution, then make an effect or end their process.

Imported by the workers of the stage alone: importing registers them.
"""

import ctypes
import os
import resource
import time
from typing import Any

from chaos.load import effects
from chaos.load.reports import report
from jobs.handlers import Context, job_type

#: Long enough to be killed at.
WORK_SECONDS = 0.2


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
    """An effect in a table, made once whoever is killed at it."""
    from django.db import connection, transaction

    _report(ctx, payload["url"])
    time.sleep(WORK_SECONDS)
    with transaction.atomic():
        if ctx.once("effect"):
            with connection.cursor() as cursor:
                cursor.execute(effects.INSERT, [ctx.job_id, ctx.scheduled_for])


@job_type("chaos.shared", pull=True)
def shared(ctx: Context, payload: dict[str, Any]) -> None:
    """What pull workers do too: ``chaos.load.pull_worker``."""
    _report(ctx, payload["url"])


def _report(ctx: Context, url: str) -> None:
    report(
        url,
        job_id=str(ctx.job_id),
        trigger_id=str(ctx.trigger_id),
        scheduled_for=ctx.scheduled_for.isoformat(),
        attempt=ctx.attempt_number,
        fence=ctx.fence,
        execution_id=str(ctx.attempt_id),
        key=ctx.idempotency_key,
    )
