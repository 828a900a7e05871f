"""A batch: the claimed triggers of one message, run until each has an outcome (DESIGN §7).

Its steps read in order: ``execute`` makes the contexts, refuses triggers of types that are switched off, runs the
handlers at once or one after another, and writes the remaining outcomes. The steps of each handler also read in order:
make sure of the lease, see whether it may start, allow it its time, call it, take its outcome.
"""

import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from threading import RLock
from typing import Any
from uuid import UUID

from jobs.activity import activity
from jobs.conf import EngineSettings
from jobs.core.policies import Delivery
from jobs.core.workflows.flow import Unresolved
from jobs.engine.traces import trace_of
from jobs.engine.worker.finisher import Finisher
from jobs.engine.worker.leases.release import abandoned, absolve, give_up, handed_back
from jobs.engine.worker.leases.renewer import Held, Hold, LeaseRenewer
from jobs.engine.worker.queues import queues_of
from jobs.engine.worker.reports import begin_inner, begin_run, note_checkpoint, note_progress
from jobs.engine.worker.secrets import NO_SECRETS, secrets_of, signing_secret
from jobs.handlers.async_runner import AsyncRunner
from jobs.handlers.context import Context, Flag
from jobs.handlers.execution import alarms, interrupt, run_sync
from jobs.handlers.outcome import Outcome, left_open, switched_off, unresolved
from jobs.handlers.placeholders import hide, hide_in
from jobs.handlers.registry import JobType
from jobs.store import db, effects
from jobs.store.execution import Claimed, ClaimToken
from jobs.store.reap import Release
from jobs.telemetry import carrying, get_logger
from jobs.telemetry.output import Output, Said, stored
from tenants.vault.secrets import Opened

log = get_logger()
#: After this time a message of asynchronous handlers is done with, and its process is free for the next one, while the
#: slow handlers go on: a target that hangs must not hold up unrelated triggers. Targets far away are slow, too.
LEAVE_AFTER_SECONDS = 0.05
#: A suspect has its process to itself for longer. If it ends its process, others that linger there are charged as well.
LEAVE_SUSPECT_AFTER_SECONDS = 0.25


@dataclass(slots=True)
class _InHand:
    """A claimed row and its state. ``began``: how long after the claim its handler began, if its attempt is traced.
    ``said``: the output of its handler until it was given up; giving up may be tried twice.
    """

    row: Any
    held: Held
    output: Output
    secrets: Mapping[str, Opened]
    began: float = 0.0
    said: Said | None = None


#: The context that a handler is given, and the trigger it works for.
_Call = tuple[Context, _InHand]


class Batch:
    """The claimed triggers of one message and their state while they run (``renewer.LeasedBatch``)."""

    def __init__(
        self,
        job_type: JobType,
        rows: Claimed,
        *,
        settings: EngineSettings,
        runner: AsyncRunner,
        renewer: LeaseRenewer,
        sure_until: float = math.inf,
    ) -> None:
        self.job_type = job_type
        held = {row.id: Held(ClaimToken(row.id, row.fence), Flag(), tenant=row.tenant) for row in rows}
        self.hold = Hold(held, sure_until=sure_until)
        secrets = secrets_of(job_type, rows)
        # Reentrant: a time-out strikes the thread that holds the lock, and that thread then closes the output.
        lock = RLock()
        self._in_hand = {
            held.token.id: _InHand(row, held, Output(lock), secrets.get(held.token.id, NO_SECRETS))
            for row, held in zip(rows, held.values(), strict=True)
        }
        self._claimed_at = time.monotonic()
        self._patience_seconds = settings.worker_lease_seconds
        self._finisher = Finisher(
            flush_seconds=settings.finish_flush_ms / 1000, on_stale=partial(_on_stale, held)
        )
        self._finisher.counts["dropped"] = rows.dropped
        self._runner = runner
        self._renewer = renewer
        self._at_work: Context | None = None
        self._queues = queues_of(job_type, rows)
        # Each value is worked out once for the batch, and forgotten with it.
        self._signing_secret = cache(signing_secret)
        self._bounded = cache(job_type.bounded)

    def execute(self) -> None:
        """Return when all handlers have ended, or leave slow asynchronous handlers to the renewer."""
        self._tell_of_claims()
        calls = self._without_refused(self._calls())
        if calls and self.job_type.is_async:
            self._run_at_once(calls)
        elif calls:
            self._run_one_by_one(calls)
        self._write_outcomes()

    def _tell_of_claims(self) -> None:
        if not log.isEnabledFor(logging.DEBUG):
            return
        for one in self._in_hand.values():
            log.debug(
                "claim",
                trigger_id=str(one.row.id),
                job_id=str(one.row.job_id),
                tenant=one.row.tenant,
                fence=one.row.fence,
            )

    def _calls(self) -> list[_Call]:
        now = datetime.now(UTC)
        return [(self._context(one, now), one) for one in self._in_hand.values()]

    def _without_refused(self, calls: list[_Call]) -> list[_Call]:
        """The calls without those of a type that is switched off, and those whose payload was not resolved."""
        off_for_all = self.job_type.is_switched_off
        left = []
        for ctx, one in calls:
            if off_for_all or one.row.switched_off:
                self._take_outcome(ctx, one, switched_off(self.job_type.name))
            elif isinstance(one.row.payload, Unresolved):
                self._take_outcome(ctx, one, unresolved(one.row.payload))
            else:
                left.append((ctx, one))
        return left

    def _run_at_once(self, calls: list[_Call]) -> None:
        """Run asynchronous handlers, as far as their tenants have places."""
        self._make_sure()
        # Triggers that may be started only once go first: one that waits in a process that dies would be lost
        # unstarted.
        calls.sort(key=lambda call: call[1].row.delivery != Delivery.AT_MOST_ONCE)
        suspect = any(one.row.suspect for one in self._in_hand.values())
        self.hold.lingers = not self._runner.run(
            [(self.job_type, ctx, one.row.payload) for ctx, one in calls],
            lambda ctx, outcome: self._take_outcome(ctx, self._in_hand[ctx.trigger_id], outcome),
            on_idle=lambda: None,
            leave_after=LEAVE_SUSPECT_AFTER_SECONDS if suspect else LEAVE_AFTER_SECONDS,
            on_last=self._end,
            on_start=lambda ctx: self._allow(ctx, self._in_hand[ctx.trigger_id]),
            may_start=self._is_sure,
        )

    def _run_one_by_one(self, calls: list[_Call]) -> None:
        ours = db.in_transaction()  # the caller's, as in tests that are rolled back; never in a worker
        with alarms():
            for ctx, one in calls:
                self._make_sure()
                self._take_outcome(ctx, one, self._refusal(ctx, one) or self._call(ctx, one, ours=ours))

    def _write_outcomes(self) -> None:
        db.until_connected(self._finisher.flush, patience_seconds=self._patience_seconds, what="finish")

    def summary(self) -> dict[str, int]:
        """The results of the batch so far, for the message's Celery result."""
        lingering = sum(not held.done for held in self.hold.held.values())
        return dict(+self._finisher.counts) | ({"lingering": lingering} if lingering else {})

    def _end(self) -> None:
        self.hold.ended_at = time.monotonic()
        self._renewer.note_end()

    def _is_sure(self) -> bool:
        return time.monotonic() < self.hold.sure_until

    def _make_sure(self) -> None:
        """A process that was frozen since the claim must not start triggers that others have started meanwhile."""
        if not self._is_sure():
            db.until_connected(
                partial(self._renewer.make_sure, self.hold),
                patience_seconds=self._patience_seconds,
                what="renew",
            )

    def _refusal(self, ctx: Context, one: _InHand) -> Outcome | None:
        """Why a handler whose turn has come must not start any more."""
        if one.held.lost:
            return Outcome("failed", error_code="lease_lost", error_message="The lease was lost.")
        if ctx.cancelled():
            return Outcome("cancelled", error_message="Cancelled before its handler started.")
        return None

    def _call(self, ctx: Context, one: _InHand, *, ours: bool) -> Outcome:
        self._allow(ctx, one)
        self._at_work = ctx
        with carrying(ctx):
            outcome = run_sync(self.job_type, ctx, one.row.payload)
        self._at_work = None
        return left_open(outcome) if not ours and db.end_leftovers() else outcome

    def interrupt(self, trigger_id: UUID) -> None:
        """Stop a trigger's handler, if it can be reached."""
        ctx = self._at_work
        if ctx is not None and ctx.trigger_id == trigger_id and interrupt(ctx):
            log.warning("interrupt", trigger_id=str(trigger_id), fence=ctx.fence)

    def _allow(self, ctx: Context, one: _InHand) -> None:
        """From here on the handler counts as started, and as stuck once its time is well over."""
        seconds = (ctx.timeout or self.job_type.timeout).total_seconds()
        now = time.monotonic()
        if ctx.trace is not None and ctx.trace.is_sampled:
            one.began = now - self._claimed_at
        self._renewer.set_deadline(one.held, now + seconds)

    def _take_outcome(self, ctx: Context, one: _InHand, outcome: Outcome) -> None:
        self._renewer.set_deadline(one.held, None)
        if said := ctx.output.close():
            outcome = replace(outcome, said=said)
        if ctx.secrets:
            outcome = hide(outcome, {name: value for name, value in ctx.secrets.items() if value})
        seconds = time.monotonic() - self._claimed_at
        self._finisher.add(one.row, outcome, seconds=seconds, began=one.began, trace=ctx.trace)
        one.held.done = True

    def _context(self, one: _InHand, now: datetime) -> Context:
        row, token, secrets = one.row, one.held.token, one.secrets
        timeout = self._bounded(row.timeout)
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
            deadline=now + timeout,
            timeout=timeout,
            resume_from=row.checkpoint,
            secrets={name: opened.value for name, opened in secrets.items()},
            secret_hosts={name: opened.hosts for name, opened in secrets.items()},
            queues=self._queues.get(row.tenant_id, ()),
            trace=trace_of(row),
            workflow=row.workflow,
            on_sign=partial(self._signing_secret, row.tenant_id, row.webhook_secret),
            output=one.output,
            cancel_event=one.held.cancel_event,
            on_progress=partial(note_progress, token),
            on_checkpoint=partial(note_checkpoint, token),
            on_begin_run=partial(begin_run, token),
            on_begin_inner=partial(begin_inner, token),
            on_once=partial(self._once, token),
            on_once_async=partial(self._once_async, token),
        )

    def _once(self, token: ClaimToken, key: str, using: Any) -> bool:
        first = effects.record(trigger_id=token.id, fence=token.fence, key=key, using=using)
        return self._count(token, first)

    async def _once_async(self, token: ClaimToken, key: str, using: Any) -> bool:
        first = await effects.record_async(trigger_id=token.id, fence=token.fence, key=key, using=using)
        return self._count(token, first)

    def _count(self, token: ClaimToken, first: bool) -> bool:
        if not first:
            self._finisher.counts["duplicates_prevented"] += 1
            activity.add((self._in_hand[token.id].row.tenant_id, self.job_type.name), "duplicates_prevented")
        return first

    def flush_if_due(self) -> None:
        self._finisher.flush_if_due()

    def flush(self) -> None:
        self._finisher.flush()

    def rescue(self, alone: bool) -> None:
        """Before this process is given up, write the known outcomes and give back the claimed triggers."""
        self._finisher.flush()
        releases = [
            abandoned(
                self._in_hand[held.token.id].row,
                started=bool(held.deadline),
                alone=alone,
                cancelled=held.asked_at is not None,
            )
            for held in self.hold.waiting()
        ]
        give_up([self._with_output(release) for release in releases])

    def hand_back(self) -> None:
        """The worker was told to stop: hand back before the process ends, so no other waits for a lease to run out."""
        self._finisher.flush()
        give_up(
            [
                self._with_output(handed_back(self._in_hand[held.token.id].row, started=bool(held.deadline)))
                for held in self.hold.waiting()
            ]
        )

    def _with_output(self, release: Release) -> Release:
        """The release with the handler's output so far: its end will tell nothing more."""
        one = self._in_hand[release.recovery.token.id]
        one.said = one.said or one.output.close()
        values = {name: opened.value for name, opened in one.secrets.items() if opened.value}
        return replace(release, output=stored(hide_in(one.said, values)))


def _on_stale(held: dict[UUID, Held], tokens: Sequence[ClaimToken]) -> None:
    """Say that this process lives, though ``tokens`` lost their leases. The renewer has said so of those it knows."""
    # A trigger whose worker was told to stop was not charged.
    unknown = [token for token in tokens if not (held[token.id].lost or held[token.id].stopping)]
    for token in unknown:
        held[token.id].lost = True
    absolve(unknown)
