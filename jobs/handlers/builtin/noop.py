"""``noop``: does nothing, or as little as asked. For benchmarks and tests of the engine, where a setting allows it.

Its sleep blocks a worker process, so any tenant could keep the workers of all tenants from their work. Where it is
switched off, the triggers of its jobs end at once as ``dead``.
"""

import time
from typing import Annotated

from pydantic import Field

from jobs.conf import engine_settings
from jobs.handlers.builtin.payload import BuiltInPayload
from jobs.handlers.context import Context
from jobs.handlers.outcome import HandlerError
from jobs.handlers.registry import job_type


class NoopPayload(BuiltInPayload):
    """Pause for ``sleep_ms``, then succeed, or fail when ``fail`` is set."""

    sleep_ms: Annotated[int, Field(ge=0, le=60_000)] = 0
    fail: bool = False


def _enabled() -> bool:
    return engine_settings().noop_enabled


@job_type("noop", timeout_seconds=90, batch_size=200, payload=NoopPayload, offered=_enabled)
def noop(ctx: Context, payload: NoopPayload) -> None:
    """Do nothing; optionally pause or fail."""
    if payload.sleep_ms:
        time.sleep(payload.sleep_ms / 1000)
    if payload.fail:
        raise HandlerError("The payload asked this noop to fail.", code="asked_to_fail")
