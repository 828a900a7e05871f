"""A batch from message to outcomes: claim, hold, call the handlers, finish (DESIGN §7).

Killed anywhere, the leases run out and reap retries what was in hand. Frozen and woken, the fences have moved on and
every write here comes back stale. A second copy of the message claims nothing.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any
from uuid import UUID

from jobs.conf import engine_settings
from jobs.core.states import AttemptState, TriggerState
from jobs.crash_points import crash_point
from jobs.engine.reaper import judge
from jobs.engine.worker.finisher import Finisher
from jobs.engine.worker.keeper import Held, Hold, Keeper
from jobs.engine.worker.secrets import NO_SECRETS, secrets_of, signing_secret
from jobs.handlers import registry
from jobs.handlers.async_runner import AsyncRunner
from jobs.handlers.context import Context, Flag
from jobs.handlers.execution import alarms, interrupt, run_sync
from jobs.handlers.outcome import Outcome
from jobs.handlers.placeholders import hide
from jobs.handlers.registry import JobType
from jobs.store import db, effects, execution, reap
from jobs.store.execution import Grip
from jobs.store.reap import Surrender, Verdict
from jobs.telemetry import bound, get_logger

log = get_logger()
#: A message of asynchronous handlers is done with after this, and its process free for the next one, while the slow
#: ones among them go on: a target that hangs must not hold up what has nothing to do with it.
LEAVE_AFTER_SECONDS = 0.25
#: Unless so many triggers go on in the process already.
MOST_LINGERING = 200
#: How long a handler's report may wait for a database that is away.
NOTE_PATIENCE_SECONDS = 5.0
_notes = ThreadPoolExecutor(1, "carillon-notes")
_async_runner = AsyncRunner()
_keeper: Keeper | None = None
_expendable = False


def perform(
    *, job_type: str, grips: Sequence[Grip], worker: str, celery_task_id: str
) -> dict[str, int] | None:
    """Claim a message's triggers and see each through to an outcome.

    Returns how many ended in which state or go on (``lingering``), how many were dropped as stale or unknown and how
    many effects were not made twice; or None when nothing was left to claim. Waits out a database that is away for as
    long as the lease, since both claim and finish may be repeated.
    """
    settings = engine_settings()
    patience = settings.worker_lease_seconds
    sure_until = time.monotonic() + settings.worker_lease_seconds
    with bound(worker=worker):
        crash_point("claim.before_commit")
        rows = db.until_connected(
            lambda: execution.claim(
                grips=grips, worker=worker, celery_task_id=celery_task_id, lease=settings.worker_lease
            ),
            patience_seconds=patience,
            what="claim",
        )
        crash_point("claim.after_commit")
        if rows.dropped:
            # Pull workers may have been faster, where they serve the type too.
            tell = log.debug if registry.get(job_type).pull else log.warning
            tell("message dropped", triggers=rows.dropped, of=len(grips), error="unknown, or another fence")
        if not rows:
            return None
        batch = Batch(registry.get(job_type), rows, flush_seconds=settings.finish_flush_ms / 1000)
        batch.hold.sure_until = sure_until
        batch.finisher.counts["dropped"] = rows.dropped
        with _the_keeper().holding(batch.hold):
            batch.call_handlers(may_linger=_the_keeper().lingering() < MOST_LINGERING)
            db.until_connected(batch.finisher.flush, patience_seconds=patience, what="finish")
        return batch.summary()


def wait_for_the_rest() -> None:
    """Wait for what goes on in this process though its messages are done with."""
    _the_keeper().wait_for_the_rest()


def be_expendable() -> None:
    """This process has nothing but its messages, and somebody replaces it: it may end itself to stop a handler."""
    global _expendable
    _expendable = True


def _the_keeper() -> Keeper:
    global _keeper
    if _keeper is None:
        settings = engine_settings()
        _keeper = Keeper(
            lease=settings.worker_lease,
            flush_seconds=settings.finish_flush_ms / 1000,
            grace=timedelta(seconds=settings.stop_grace_seconds),
            drain=timedelta(seconds=settings.drain_seconds),
            expendable=_expendable,
        )
    return _keeper


class Batch:
    """The claimed triggers of one message and what is known of them while they are in hand."""

    def __init__(self, job_type: JobType, rows: Sequence[Any], *, flush_seconds: float) -> None:
        self.job_type = job_type
        self.rows: dict[UUID, Any] = {row.id: row for row in rows}
        self.finisher = Finisher(flush_seconds=flush_seconds)
        self.hold = Hold(
            held={row.id: Held(Grip(row.id, row.fence), Flag()) for row in rows},
            flush_if_due=self.finisher.flush_if_due,
            flush=self.finisher.flush,
            rescue=self._rescue,
            hand_back=self._hand_back,
            interrupt=self._interrupt,
        )
        self._at_work: Context | None = None
        self._secrets = secrets_of(job_type, rows)
        # Opened once for the whole batch, and forgotten with it.
        self._signing_secret = cache(signing_secret)

    def call_handlers(self, *, may_linger: bool) -> None:
        """Asynchronous handlers all at once, synchronous ones one after another.

        Returns when all have ended, or, where that may be, leaves the slow ones of the asynchronous ones to the keeper.
        """
        if log.isEnabledFor(logging.DEBUG):
            for row in self.rows.values():
                log.debug(
                    "claim",
                    trigger_id=str(row.id),
                    job_id=str(row.job_id),
                    tenant=row.tenant,
                    fence=row.fence,
                )
        now = datetime.now(UTC)
        contexts = [(self._context(row, now), row.payload) for row in self.rows.values()]
        if self.job_type.is_async:
            self._make_sure()
            for ctx, _ in contexts:
                self._allow(ctx, rounds=math.ceil(len(contexts) / _async_runner.max_concurrent))
            self.hold.lingers = not _async_runner.run(
                [(self.job_type, ctx, payload) for ctx, payload in contexts],
                self._on_outcome,
                on_idle=lambda: None,
                leave_after=LEAVE_AFTER_SECONDS if may_linger else None,
                on_last=self._end,
            )
            return
        with alarms():
            for ctx, payload in contexts:
                self._call(ctx, payload)

    def summary(self) -> dict[str, int]:
        """What has become of the batch so far, for the message's Celery result."""
        lingering = len(self.rows) - len(self.hold.done)
        return dict(+self.finisher.counts) | ({"lingering": lingering} if lingering else {})

    def _end(self) -> None:
        self.hold.ended_at = time.monotonic()

    def _make_sure(self) -> None:
        """Frozen since the claim and woken, this process must not start what others have started meanwhile."""
        if time.monotonic() >= self.hold.sure_until:
            db.until_connected(
                partial(_the_keeper().make_sure, self.hold),
                patience_seconds=engine_settings().worker_lease_seconds,
                what="renew",
            )

    def _call(self, ctx: Context, payload: dict[str, Any]) -> None:
        self._make_sure()
        held = self.hold.held[ctx.trigger_id]
        if held.lost:
            self._on_outcome(
                ctx, Outcome("failed", error_code="lease_lost", error_message="The lease was lost.")
            )
            return
        if ctx.cancelled():
            self._on_outcome(ctx, Outcome("cancelled", error_message="Cancelled before its handler started."))
            return
        self._allow(ctx)
        self._at_work = ctx
        outcome = run_sync(self.job_type, ctx, payload)
        self._at_work = None
        self._on_outcome(ctx, outcome)

    def _interrupt(self, trigger_id: UUID) -> None:
        ctx = self._at_work
        if ctx is not None and ctx.trigger_id == trigger_id and interrupt(ctx):
            log.warning("interrupt", trigger_id=str(trigger_id), fence=ctx.fence)

    def _allow(self, ctx: Context, *, rounds: int = 1) -> None:
        """From here on the handler counts as started, and as stuck once its time is well over."""
        seconds = (ctx.timeout or self.job_type.timeout).total_seconds()
        self.hold.held[ctx.trigger_id].deadline = time.monotonic() + rounds * seconds

    def _on_outcome(self, ctx: Context, outcome: Outcome) -> None:
        held = self.hold.held[ctx.trigger_id]
        held.deadline = None
        if ctx.secrets:
            outcome = hide(outcome, {name: value for name, value in ctx.secrets.items() if value})
        self.finisher.add(self.rows[ctx.trigger_id], outcome)
        self.hold.done.add(ctx.trigger_id)

    def _context(self, row: Any, now: datetime) -> Context:
        grip = Grip(row.id, row.fence)
        return Context(
            tenant=row.tenant,
            job_id=row.job_id,
            job_name=row.job_name,
            trigger_id=row.id,
            attempt_id=row.attempt_id,
            scheduled_for=row.scheduled_for,
            attempt_number=row.attempt_count,
            idempotency_key=row.idempotency_key,
            fence=row.fence,
            deadline=now + row.timeout,
            timeout=row.timeout,
            resume_from=row.checkpoint,
            secrets=self._secrets.get(row.id, NO_SECRETS),
            on_sign=partial(self._signing_secret, row.tenant_id, row.webhook_secret),
            cancel_event=self.hold.held[row.id].cancel_event,
            on_progress=partial(_note_progress, grip),
            on_checkpoint=partial(_note_checkpoint, grip),
            on_once=partial(self._once, grip),
            on_once_async=partial(self._once_async, grip),
        )

    def _once(self, grip: Grip, key: str, using: Any) -> bool:
        return self._count(effects.record(trigger_id=grip.id, fence=grip.fence, key=key, using=using))

    async def _once_async(self, grip: Grip, key: str, using: Any) -> bool:
        return self._count(
            await effects.record_async(trigger_id=grip.id, fence=grip.fence, key=key, using=using)
        )

    def _count(self, first: bool) -> bool:
        self.finisher.counts["duplicates_prevented"] += not first
        return first

    def _rescue(self, alone: bool) -> None:
        """Before this process is given up: write what is known, and give back what it has in hand."""
        self.finisher.flush()
        surrenders = [
            _surrender(
                self.rows[held.grip.id],
                started=bool(held.deadline),
                alone=alone,
                cancelled=held.asked_at is not None,
            )
            for held in self.hold.waiting()
        ]
        _give_up(surrenders)

    def _hand_back(self) -> None:
        """Before this process ends because its worker was told to: nobody is to wait for a lease to run out."""
        self.finisher.flush()
        _give_up(
            [_return(self.rows[held.grip.id], started=bool(held.deadline)) for held in self.hold.waiting()]
        )


def _give_up(surrenders: Sequence[Surrender]) -> None:
    for row in reap.give_up(surrenders) if surrenders else ():
        log.warning("give up", trigger_id=str(row.id), state=row.state, reason=row.reason)


def _return(row: Any, *, started: bool) -> Surrender:
    """It goes to another worker at once and uncharged, unless it started and may not be started twice."""
    verdict = judge(row, charged=False) if started else None
    if verdict is None or verdict.state is TriggerState.RETRYING:
        verdict = Verdict(Grip(row.id, row.fence), TriggerState.RETRYING, "", timedelta(), charged=False)
    message = "Its worker was told to stop, and this had not ended CARILLON_DRAIN_SECONDS later."
    return Surrender(verdict, False, AttemptState.LOST, "handed_back", message)


def _surrender(row: Any, *, started: bool, alone: bool, cancelled: bool) -> Surrender:
    """What becomes of a trigger of a process that is stuck. One handler alone is to blame; of several any may be.

    The wish to cancel that ``cancelled`` tells of is on record, and beats the retry.
    """
    grip = Grip(row.id, row.fence)
    if started and cancelled:
        verdict = Verdict(grip, TriggerState.RETRYING, "", timedelta(), charged=False)
        message = "The handler did not heed the cancel: process ended."
        return Surrender(verdict, False, AttemptState.CANCELLED, "cancelled", message)
    if not started:
        verdict = Verdict(grip, TriggerState.RETRYING, "", timedelta(), charged=False)
        message = "Another trigger of the same batch got stuck; this one had not started."
        return Surrender(verdict, False, AttemptState.LOST, "batch_abandoned", message)
    verdict = judge(row, charged=alone)
    if not alone:
        message = (
            "One of the handlers that ran at once got stuck, perhaps this one. It travels alone from now on."
        )
        return Surrender(verdict, True, AttemptState.LOST, "batch_abandoned", message)
    message = f"The handler ignored its timeout of {row.timeout.total_seconds():g} s: process ended."
    return Surrender(verdict, True, AttemptState.TIMED_OUT, "timeout", message)


def _note_progress(grip: Grip, fraction: float, stage: str) -> None:
    _note(partial(execution.note_progress, grip=grip, progress={"fraction": fraction, "stage": stage}))


def _note_checkpoint(grip: Grip, state: dict[str, Any]) -> None:
    _note(partial(execution.note_progress, grip=grip, checkpoint=state))


def _note(write: Callable[[], bool]) -> None:
    """Write now; an asynchronous handler calls from its event loop, where Django refuses, so a thread does it there."""
    keep = partial(db.until_connected, write, patience_seconds=NOTE_PATIENCE_SECONDS, what="note progress")
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        keep()
    else:
        _notes.submit(keep).result()
