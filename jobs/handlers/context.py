"""``Context``: the data that a handler gets about its attempt, and the calls by which it reports back.

Keeps true: a handler cannot reach the store. It reports progress and checkpoints through callbacks that the
engine gave, and learns of a cancel from an event that the engine sets. Its reports are checked here, so a
bad value fails the handler that gave it and nothing else. Cancellation is cooperative at first. A synchronous
handler that never asks is interrupted after a grace. Where it cannot be interrupted, it runs until its timeout.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from jobs.core.errors import InvalidInput
from jobs.core.json_rules import check_json, check_text
from jobs.core.workflows.flow import TaskContext
from jobs.handlers.outcome import BadReport, Cancelled, HandlerError, Permanent
from jobs.handlers.placeholders import may_be_sent, not_for
from jobs.telemetry.output import Output
from jobs.telemetry.traces.w3c import TraceContext

MAX_CHECKPOINT_BYTES = 65_536
MAX_STAGE_LENGTH = 200
MAX_EFFECT_KEY_LENGTH = 200


class Flag:
    """Set once and never unset. A ``threading.Event`` costs 2 us to make, and handlers rarely wait on one."""

    __slots__ = ("_set",)

    def __init__(self) -> None:
        self._set = False

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True


def _unheard(*_: object) -> None:
    """Progress or a checkpoint without a listener (tests, benchmarks)."""


def _first(*_: object) -> bool:
    """Without an engine, every effect is made for the first time."""
    return True


def _no_run(*_: object) -> UUID | None:
    """Without an engine, there is no workflow."""
    return None


async def _first_async(*_: object) -> bool:
    return True


@dataclass(slots=True, kw_only=True)
class Context:
    """One attempt, as its handler sees it.

    ``idempotency_key`` is the same for every attempt at one firing and for its replays; ``fence`` grows with
    every dispatch, so a remote side can refuse a late writer. ``deadline`` is wall-clock information; the engine
    enforces ``timeout`` (None: the job type's). ``secrets`` holds, by name, the values of the tenant's secrets that
    the payload refers to. A secret that cannot be read is None there; a secret that does not exist is not there.
    ``secret_hosts``: the hosts that each secret may be sent to.
    ``queues``: the queues that the tenant may write to beside its own, where the job type has ``sends_to``.
    ``trace``: the trace that the attempt is part of; send it on with requests to others
    (``ctx.trace.headers()``). None: the attempt is part of no trace.
    ``workflow``: the workflow run whose task this attempt serves; None: it serves a plain firing.
    """

    tenant: str
    job_id: UUID
    job_name: str
    trigger_id: UUID
    attempt_id: UUID
    scheduled_for: datetime
    attempt_number: int
    idempotency_key: str
    fence: int
    deadline: datetime
    timeout: timedelta | None = None
    resume_from: dict[str, Any] | None = None
    secrets: Mapping[str, str | None] = field(default_factory=dict, repr=False)
    secret_hosts: Mapping[str, Sequence[str]] = field(default_factory=dict, repr=False)
    queues: Sequence[str] = ()
    trace: TraceContext | None = None
    workflow: TaskContext | None = None
    output: Output = field(default_factory=Output, repr=False)
    cancel_event: Flag = field(default_factory=Flag, repr=False)
    on_progress: Callable[[float, str], None] = field(default=_unheard, repr=False)
    on_checkpoint: Callable[[dict[str, Any]], None] = field(default=_unheard, repr=False)
    on_sign: Callable[[], str] = field(default=str, repr=False)
    on_once: Callable[[str, Any], bool] = field(default=_first, repr=False)
    on_begin_run: Callable[[Any], UUID | None] = field(default=_no_run, repr=False)
    on_begin_inner: Callable[[str, Any], UUID | None] = field(default=_no_run, repr=False)
    on_once_async: Callable[[str, Any], Awaitable[bool]] = field(default=_first_async, repr=False)

    @property
    def trace_id(self) -> str:
        """The trace's id, in hexadecimal digits; empty where there is no trace."""
        return self.trace.trace_id if self.trace is not None else ""

    @property
    def signing_secret(self) -> str:
        """The tenant's webhook secrets, ``whsec_…``, separated by a blank while one replaces another.

        Raises ``HandlerError`` (``secret_unreadable``) when no key of this process opens them.
        """
        return self.on_sign()

    def secret(self, name: str, *, host: str = "") -> str:
        """The value of a secret that the payload refers to, for sending to ``host`` (``host:port`` if the port is not
        the scheme's own). Without a host, only a secret that may go anywhere is given.

        Raises ``Permanent`` when there is no such secret (``secret_missing``) or it is bound to other hosts
        (``secret_host``), ``HandlerError`` (``secret_unreadable``) when no key of this process opens it.
        """
        if name not in self.secrets:
            raise Permanent(f"There is no secret {name!r}; put it back, then replay.", code="secret_missing")
        hosts = self.secret_hosts.get(name, ())
        if not may_be_sent(host, hosts=hosts):
            raise Permanent(not_for(host or "every host", name=name, hosts=hosts), code="secret_host")
        value = self.secrets[name]
        if value is None:
            raise unreadable(f"The secret {name!r}")
        return value

    def cancelled(self) -> bool:
        """True once this trigger was cancelled or taken over: stop soon, and start nothing new."""
        return self.cancel_event.is_set()

    def raise_if_cancelled(self) -> None:
        """End the attempt as ``cancelled`` if so asked; call it between steps."""
        if self.cancel_event.is_set():
            raise Cancelled

    def progress(self, fraction: float, stage: str = "") -> None:
        """Report that ``fraction`` (0 to 1) of the work is done, in a stage named in at most 200 characters.

        Raises ``InvalidInput``. Unless it is caught, the attempt fails as ``bad_progress``.
        """
        with _refused_as("bad_progress"):
            if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 <= fraction <= 1:
                raise InvalidInput(
                    {"progress": f"{fraction!r:.100} is not a share of the work; give a number from 0 to 1."}
                )
            if not isinstance(stage, str) or len(stage) > MAX_STAGE_LENGTH:
                raise InvalidInput({"stage": f"A stage is a text of at most {MAX_STAGE_LENGTH} characters."})
            check_json(stage, field="stage", max_bytes=4 * MAX_STAGE_LENGTH + 2)
        self.on_progress(float(fraction), stage)

    def checkpoint(self, state: dict[str, Any]) -> None:
        """Keep ``state`` (JSON, at most 64 KiB) so that the next attempt finds it in ``resume_from``.

        Raises ``InvalidInput``. Unless it is caught, the attempt fails as ``bad_checkpoint``; the previous checkpoint
        stays. The last checkpoint wins.
        """
        with _refused_as("bad_checkpoint"):
            if not isinstance(state, dict):
                raise InvalidInput(
                    {"checkpoint": "A checkpoint is a JSON object; put the value under a name."}
                )
            check_json(state, field="checkpoint", max_bytes=MAX_CHECKPOINT_BYTES)
        self.on_checkpoint(state)

    def log(self, message: object) -> None:
        """Keep a line with the attempt, where API and console show it, and nowhere else. From any thread.

        If an attempt logs more than 64 KiB, the middle is left out. Lines logged after the handler's end are dropped.
        """
        self.output.line(str(message))

    def once(self, key: str, using: Any = None) -> bool:
        """Whether to make the effect that ``key`` names: True once for this firing, over all attempts and replays.

        Records the key in the open transaction of ``using``, which must be the one that makes the effect: a psycopg
        connection, a Django connection or its name, or None for Django's default. If the transaction is rolled back,
        so is the record. Waits for another execution that is making the same effect. Raises ``InvalidInput`` for a key
        that is not a text of 1 to 200 characters, and ``NoTransaction`` where no transaction is open.
        """
        return self.on_once(_checked_key(key), using)

    async def aonce(self, key: str, using: Any) -> bool:
        """``once`` for an ``AsyncConnection`` of psycopg."""
        return await self.on_once_async(_checked_key(key), using)


def unreadable(what: str) -> HandlerError:
    """The retried failure of a handler while this process lacks the key under which ``what`` was sealed."""
    return HandlerError(
        f"{what} cannot be opened with the worker's CARILLON_ENCRYPTION_KEYS.", code="secret_unreadable"
    )


@contextmanager
def _refused_as(code: str) -> Iterator[None]:
    try:
        yield
    except InvalidInput as problem:
        raise BadReport(problem, code=code) from None


def _checked_key(key: str) -> str:
    check_text(key, field="key", max_length=MAX_EFFECT_KEY_LENGTH)
    if not key:
        raise InvalidInput({"key": "An effect needs a name, such as charge or invoice-17."})
    return key
