"""Handlers that misbehave, loaded through CARILLON_HANDLER_MODULES by the tests."""

import ctypes
import os
import re
import signal
import time

from jobs.handlers import Context, job_type


@job_type("test.raises")
def raises(ctx: Context, payload: dict) -> None:
    raise RuntimeError("deliberate")


@job_type("test.raises_late")
def raises_late(ctx: Context, payload: dict) -> None:
    time.sleep(0.3)
    raise RuntimeError("deliberate")


@job_type("test.hangs", timeout_seconds=1)
def hangs(ctx: Context, payload: dict) -> None:
    while True:
        time.sleep(0.05)


@job_type("test.heedless", timeout_seconds=600)
def heedless(ctx: Context, payload: dict) -> None:
    while True:
        time.sleep(0.05)


@job_type("test.unreachable", timeout_seconds=600)
def unreachable(ctx: Context, payload: dict) -> None:
    # Like a C call that never returns to the interpreter.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    time.sleep(600)


@job_type("test.hogs", timeout_seconds=600)
def hogs(ctx: Context, payload: dict) -> None:
    """Hold the interpreter for some ``seconds``: each further letter doubles the time that the expression takes."""
    length, took = 18, 0.0
    while took < 0.2:
        length += 1
        took = _match(length)
    while took < payload["seconds"]:
        length, took = length + 1, took * 2
    _match(length)


def _match(length: int) -> float:
    since = time.monotonic()
    re.match(r"(a+)+$", "a" * length + "b")
    return time.monotonic() - since


@job_type("test.hogs_for_ever", timeout_seconds=2)
def hogs_for_ever(ctx: Context, payload: dict) -> None:
    # Like a C extension that never releases the interpreter, and that no signal reaches.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    ctypes.PyDLL(None).sleep(600)


@job_type("test.returns_nonsense")
def returns_nonsense(ctx: Context, payload: dict) -> object:
    return object()


@job_type("test.dies")
def dies(ctx: Context, payload: dict) -> None:
    os._exit(9)


@job_type("test.works")
def works(ctx: Context, payload: dict) -> dict:
    return {"attempt": ctx.attempt_number}


@job_type("test.echoes")
def echoes(ctx: Context, payload: dict) -> dict:
    return payload


@job_type("test.yields", timeout_seconds=600)
def yields(ctx: Context, payload: dict) -> None:
    """Works until it is asked to stop."""
    while True:
        ctx.raise_if_cancelled()
        time.sleep(0.05)
