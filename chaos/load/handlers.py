"""Handlers that tell the receiver of each execution, then make an effect or end their process.

Imported by the workers of the stage alone: importing registers them.
"""

import ctypes
import os
import resource
import time
import urllib.request
from typing import Any

from chaos.load import effects
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


def _report(ctx: Context, url: str) -> None:
    headers = {
        "X-Carillon-Job": str(ctx.job_id),
        "X-Carillon-Trigger": str(ctx.trigger_id),
        "X-Carillon-Scheduled-For": ctx.scheduled_for.isoformat(),
        "X-Carillon-Attempt": str(ctx.attempt_number),
        "X-Fence-Token": str(ctx.fence),
        "X-Execution-Id": str(ctx.attempt_id),
        "Idempotency-Key": ctx.idempotency_key,
    }
    request = urllib.request.Request(url, data=b"", headers=headers, method="POST")
    with urllib.request.urlopen(request, timeout=5) as answer:
        answer.read()
