"""Handlers that take their whole process with them when their payload says so, loaded by the tests."""

import asyncio
import ctypes
import os
import signal

from jobs.handlers import Context, job_type

WAYS = {
    "segfault": lambda: ctypes.string_at(0),
    "exit": lambda: os._exit(9),
    # The kernel does this to a process that has eaten all memory.
    "oom": lambda: os.kill(os.getpid(), signal.SIGKILL),
}


def _die(payload: dict) -> None:
    if "dies_by" in payload:
        WAYS[payload["dies_by"]]()


@job_type("poison.serial", batch_size=100)
def serial(ctx: Context, payload: dict) -> None:
    _die(payload)


@job_type("poison.at_once", batch_size=100)
async def at_once(ctx: Context, payload: dict) -> None:
    await asyncio.sleep(0.01)  # less than after which a process leaves its message
    _die(payload)
