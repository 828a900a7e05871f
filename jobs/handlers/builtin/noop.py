"""``noop``: does nothing, or as little as asked. For benchmarks, demonstrations and tests of the engine."""

import time
from typing import Annotated

from pydantic import Field

from jobs.handlers.builtin.payload import BuiltInPayload
from jobs.handlers.context import Context
from jobs.handlers.outcome import HandlerError
from jobs.handlers.registry import job_type


class NoopPayload(BuiltInPayload):
    """``sleep_ms`` of pause, then success, or failure when ``fail`` is set."""

    sleep_ms: Annotated[int, Field(ge=0, le=60_000)] = 0
    fail: bool = False


@job_type("noop", timeout_seconds=90, batch_size=200, payload=NoopPayload)
def noop(ctx: Context, payload: NoopPayload) -> None:
    """Do nothing; optionally pause or fail."""
    if payload.sleep_ms:
        time.sleep(payload.sleep_ms / 1000)
    if payload.fail:
        raise HandlerError("The payload asked this noop to fail.", code="asked_to_fail")
