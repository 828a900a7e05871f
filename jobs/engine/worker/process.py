"""A worker process: the objects its batches share, and how it performs a message (DESIGN §7).

If the process is killed at any point, its leases run out, and reap retries the triggers that it had claimed. If it is
frozen and wakes later, the fences have moved on, and every write of it comes back stale. A second copy of a message
claims nothing.
"""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from functools import partial
from typing import Any

from jobs.conf import EngineSettings, engine_settings
from jobs.crash_points import crash_point
from jobs.engine.endings import tell_the_rest
from jobs.engine.worker.batch import Batch
from jobs.engine.worker.brokerless import Brokerless
from jobs.engine.worker.leases.guard import Guard
from jobs.engine.worker.leases.hands import Hands
from jobs.engine.worker.leases.renewer import LeaseRenewer
from jobs.handlers import registry
from jobs.handlers.async_runner import AsyncRunner
from jobs.handlers.registry import JobType
from jobs.handlers.shares.places import PlaceUsage
from jobs.models.fields import new_ids
from jobs.store import db, execution
from jobs.store.execution import Claimed, ClaimToken, Crowding
from jobs.telemetry import bound, get_logger

log = get_logger()
#: Triggers of a crowded tenant that are handed back are dispatched again this much later.
CROWDED_SECONDS = 5.0


class WorkerProcess:
    """One for each process. Its children inherit the values that are set before a fork.

    ``runner``: the runner of its asynchronous handlers. ``expendable``: the process has nothing but its messages, and
    another one replaces it, so it may end itself to stop a handler. ``brokerless``: takes messages from Postgres, where
    that is allowed; children that are forked later start it for themselves.
    """

    def __init__(self) -> None:
        self.runner = AsyncRunner()
        self.expendable = False
        self.brokerless: Brokerless | None = None
        self._hands: Hands | None = None
        self._renewer: LeaseRenewer | None = None
        self._making = threading.Lock()

    @property
    def renewer(self) -> LeaseRenewer:
        """Renews the leases; made with the first batch, when all about the process is known."""
        with self._making:  # the first messages of a pool of threads come at once
            if self._renewer is None:
                self._renewer = self._make_renewer()
            return self._renewer

    def _make_renewer(self) -> LeaseRenewer:
        settings = engine_settings()
        return LeaseRenewer(
            lease=settings.worker_lease,
            flush_seconds=settings.finish_flush_ms / 1000,
            grace=timedelta(seconds=settings.stop_grace_seconds),
            drain=timedelta(seconds=settings.drain_seconds),
            expendable=self.expendable,
            hands=self._hands,
            loop_failed=self.runner.failed,
        )

    def be_expendable(self) -> None:
        self.expendable = True

    def begin_guarding(self, *, beside: bool) -> Callable[[], None]:
        """Guard the triggers that this process and those forked from it have claimed.

        ``beside``: handlers run in this very process; the guard starts now, in a process of its own. Otherwise it
        starts when the returned function is called.
        """
        settings = engine_settings()
        self._hands = Hands()
        guarding = Guard(
            self._hands, lease=settings.worker_lease, grace=timedelta(seconds=settings.stop_grace_seconds)
        )
        if not beside:
            return guarding.start
        guarding.start_beside()
        return lambda: None

    def perform(
        self, *, job_type: str, tokens: Sequence[ClaimToken], worker: str, celery_task_id: str
    ) -> dict[str, int] | None:
        """Claim a message's triggers and run each until it has an outcome.

        Returns how many ended in which state or go on (``lingering``), how many were dropped as stale or unknown, and
        how many effects were not made twice; or None when nothing was left to claim. If the database is away, waits for
        it as long as the lease, since both claim and finish may be repeated.
        """
        kind, settings = registry.get(job_type), engine_settings()
        with bound(worker=worker):
            sure_until = time.monotonic() + settings.worker_lease_seconds
            rows = self._claim(kind, tokens, settings, worker=worker, celery_task_id=celery_task_id)
            if not rows:
                return None
            renewer = self.renewer
            batch = Batch(
                kind, rows, settings=settings, runner=self.runner, renewer=renewer, sure_until=sure_until
            )
            with renewer.renewing(batch):
                batch.execute()
            return batch.summary()

    def slot(self) -> AbstractContextManager[Any]:
        """A slot of this process for one message; there is no wait where messages come only from the broker."""
        return nullcontext() if self.brokerless is None else self.brokerless.slot()

    def look_for_messages(self) -> None:
        """Take messages from Postgres too, if this process may."""
        if self.brokerless is not None:
            self.brokerless.start()

    def wait_for_the_rest(self) -> None:
        """Take no more messages from Postgres, and wait for the handlers that go on in this process although their
        messages are done with.
        """
        if self.brokerless is not None:
            self.brokerless.stop()
        self.renewer.wait_for_the_rest()
        tell_the_rest()

    def _claim(
        self,
        kind: JobType,
        tokens: Sequence[ClaimToken],
        settings: EngineSettings,
        *,
        worker: str,
        celery_task_id: str,
    ) -> Claimed:
        usage = self.runner.usage() if kind.is_async else PlaceUsage()
        crash_point("claim.before_commit", [kind.name])
        claim = partial(
            execution.claim,
            tokens=tokens,
            job_types=[kind.name],
            worker=worker,
            celery_task_id=celery_task_id,
            lease=settings.worker_lease,
            attempt_ids=new_ids(len(tokens)),
            crowding=Crowding(usage.crowded, usage.waiting, timedelta(seconds=CROWDED_SECONDS)),
        )
        rows = db.until_connected(claim, patience_seconds=settings.worker_lease_seconds, what="claim")
        crash_point("claim.after_commit", (row.job_type for row in rows))
        if rows.dropped:
            # Pull workers may have been faster, where they serve the type too.
            tell = log.debug if kind.pull else log.warning
            tell("message dropped", triggers=rows.dropped, of=len(tokens), error="unknown, or another fence")
        return rows


THIS = WorkerProcess()
