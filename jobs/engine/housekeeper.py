"""Housekeeping by the leader: tell of events, complete finished jobs, keep partitions and counts, purge old rows.

Every chore is a step of its own (``jobs.engine.steps``). It is bounded and may be repeated: the next pass takes the
work that one pass leaves.
"""

import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from jobs.core.instants import EARLIEST
from jobs.engine.notices import notify
from jobs.engine.outlook import Outlooks
from jobs.engine.steps.step import Step
from jobs.store import answers, events, operations, partitions, purge, trail, workflows
from jobs.store import jobs as jobs_store
from jobs.store.dispatch import breakers
from jobs.store.dispatch import messages as dispatch_messages
from jobs.store.insight import activity, rollup
from jobs.store.insight.series import samples
from jobs.store.trail import chain
from jobs.telemetry import get_logger
from jobs.wakeups import wake_beats
from tenants.clock import database_now
from tenants.vault.signing import retire_signing_secrets

log = get_logger()
#: Adding up the counts of all processes, as often as ``/metrics`` reads them; the largest part of the time it takes.
ADD_UP_EVERY_SECONDS, ADD_UP_SHARE = 5.0, 0.5
TELL_EVERY_SECONDS = 1.0
END_RUNS_EVERY_SECONDS = 1.0
COMPLETE_EVERY_SECONDS = 1.0
#: While on-time work fills whole batches, finished jobs wait at most this long: nothing depends on their status.
COMPLETE_AT_LAST_SECONDS = 10.0
PARTITIONS_EVERY_SECONDS = 3600.0
PURGE_EVERY_SECONDS = 60.0
SIGN_EVERY_SECONDS = 60.0
ROLL_UP_EVERY_SECONDS = NAME_EVERY_SECONDS = 60.0
#: The forecast. Between two of its slices the other steps of its thread have their turns.
FORECAST_EVERY_SECONDS, FORECAST_AGAIN_SECONDS = 900.0, 0.25
PURGE_SAMPLES_EVERY_SECONDS = 600.0
#: Budget of steps that may take longer than usual because they come seldom.
LONG = timedelta(minutes=1)
#: A full batch means more is waiting: come back soon, but let the others have their turn first.
PURGE_AGAIN_SECONDS = 0.2
BATCH = 1000
#: Runs of workflows cancelled in one pass, each by two transactions.
RUNS = 100
#: A message that lay in Postgres for this long has been overtaken by other messages of its triggers (``brokerless``).
UNTAKEN = timedelta(hours=1)
_START = UUID(int=0)


class Housekeeper:
    """Remembers how far the walks over finished jobs and timelines have come. ``busy``: on-time work fills batches.
    ``metric_tenants``: how many tenants have series of their own in ``/metrics``. ``archives``: the archivist
    drops partitions of history (``jobs.engine.steps.archivist``).
    """

    def __init__(
        self,
        *,
        retention: timedelta,
        trail_retention: timedelta,
        metric_tenants: int = 20,
        archives: bool = False,
        busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self._retention = retention
        self._archives = archives
        self._busy = busy
        self._after = _START
        self._completed_at = 0.0
        self._versions_after = purge.FIRST_ENTRY
        self._jobs_after = EARLIEST
        kept: dict[str, Any] = {"retention": retention, "limit": BATCH}
        self.steps = [
            Step("counts", self._add_up, every=ADD_UP_EVERY_SECONDS, share=ADD_UP_SHARE),
            Step("notices", self._tell, every=TELL_EVERY_SECONDS),
            Step("end runs", self._end_runs, every=END_RUNS_EVERY_SECONDS),
            Step("complete", self._complete, every=COMPLETE_EVERY_SECONDS),
            Step("partitions", self._partitions, every=PARTITIONS_EVERY_SECONDS, budget=LONG),
            Step("signing secrets", self._retire_secrets, every=PURGE_EVERY_SECONDS),
            Step("sign trail", self._sign_trail, every=SIGN_EVERY_SECONDS, again=PURGE_AGAIN_SECONDS),
            Step(
                "roll up", self._roll_up, every=ROLL_UP_EVERY_SECONDS, again=PURGE_AGAIN_SECONDS, budget=LONG
            ),
            Step(
                "forecast",
                Outlooks(busy=busy).step,
                every=FORECAST_EVERY_SECONDS,
                again=FORECAST_AGAIN_SECONDS,
            ),
            Step("sample queues", self._sample, every=samples.EVERY.total_seconds()),
            Step("purge samples", self._purge_samples, every=PURGE_SAMPLES_EVERY_SECONDS),
            Step("metric tenants", partial(self._name_tenants, metric_tenants), every=NAME_EVERY_SECONDS),
            Step(
                "purge activity", self._purge_activity, every=PURGE_EVERY_SECONDS, again=PURGE_AGAIN_SECONDS
            ),
            Step("expire", self._expire, every=PURGE_EVERY_SECONDS, again=PURGE_AGAIN_SECONDS),
            Step("purge jobs", self._purge_jobs, every=PURGE_EVERY_SECONDS, again=PURGE_AGAIN_SECONDS),
            _purge("triggers", partial(purge.triggers, **kept)),
            _purge("effects", partial(purge.effects, **kept)),
            _purge("results", partial(purge.results, **kept)),
            _purge("sessions", partial(purge.sessions, limit=BATCH)),
            _purge("catch-ups", partial(purge.catchups, **kept)),
            _purge("ranges", partial(purge.ranges, **kept)),
            _purge("workflow runs", partial(workflows.purge_runs, **kept)),
            _purge("workflows", partial(workflows.purge_deleted, **kept)),
            _purge("operations", partial(operations.purge, **kept)),
            _purge("answers", partial(answers.purge, limit=BATCH)),
            _purge("trail", partial(trail.purge, retention=trail_retention, limit=BATCH)),
            _purge("messages", partial(dispatch_messages.forget, older_than=UNTAKEN, limit=BATCH)),
            _purge("breakers", partial(breakers.purge, limit=BATCH)),
            Step("purge versions", self._purge_versions, every=PURGE_EVERY_SECONDS),
        ]

    def keep(self) -> None:
        """Do the chores that are due, one after another."""
        for step in self.steps:
            step.turn(None)

    @staticmethod
    def _add_up(_: Any) -> bool:
        return activity.fold()

    @staticmethod
    def _tell(_: Any) -> bool:
        notify()
        return False

    @staticmethod
    def _end_runs(_: Any) -> bool:
        ended = workflows.cancel_due(limit=RUNS)
        if ended:
            wake_beats()  # for work that waited for these
        return ended == RUNS

    def _complete(self, _: Any) -> bool:
        now = time.monotonic()
        if self._busy() and now < self._completed_at + COMPLETE_AT_LAST_SECONDS:
            return False
        self._completed_at = now
        last, completed = jobs_store.complete(after=self._after, limit=BATCH)
        self._after = last or _START
        if completed:
            log.debug("complete", jobs=completed)
        return False

    @staticmethod
    def _expire(_: Any) -> bool:
        looked_at, deleted = jobs_store.expire(limit=BATCH)
        if deleted:
            log.info("ended jobs deleted", jobs=deleted)
        return looked_at >= BATCH

    def _purge_jobs(self, _: Any) -> bool:
        self._jobs_after, dropped = jobs_store.purge(
            retention=self._retention, limit=BATCH, after=self._jobs_after
        )
        if dropped:
            log.debug("deleted jobs dropped", jobs=dropped)
        return self._jobs_after != EARLIEST

    def _partitions(self, _: Any) -> bool:
        for table in partitions.ALL:
            for name in partitions.ensure(table) + partitions.take_in(table):
                log.info("partition created", name=name)
        past = database_now() - self._retention
        dropped = [
            name
            for of in (() if self._archives else partitions.HISTORY)
            for name in partitions.drop(of, before=past)
        ]
        for name in dropped + rollup.drop(retention=self._retention):
            log.info("partition dropped", name=name)
        events.keep_marks(retention=self._retention)
        return False

    @staticmethod
    def _roll_up(_: Any) -> bool:
        return rollup.roll_up()

    def _purge_activity(self, _: Any) -> bool:
        return rollup.purge(retention=self._retention)

    @staticmethod
    def _sample(_: Any) -> bool:
        samples.take()
        return False

    @staticmethod
    def _purge_samples(_: Any) -> bool:
        samples.purge()
        return False

    @staticmethod
    def _name_tenants(places: int, _: Any) -> bool:
        rollup.name_tenants(places=places)
        return False

    @staticmethod
    def _retire_secrets(_: Any) -> bool:
        with trail.acting_as(trail.ENGINE):
            retire_signing_secrets()
        return False

    @staticmethod
    def _sign_trail(_: Any) -> bool:
        return chain.sign() >= chain.BATCH

    def _purge_versions(self, _: Any) -> bool:
        self._versions_after, _dropped = purge.versions(
            retention=self._retention, limit=BATCH, after=self._versions_after
        )
        return False


def _purge(what: str, delete: Callable[[], int]) -> Step:
    """A step that drops a batch of rows past retention."""
    return Step(
        f"purge {what}", lambda _: delete() >= BATCH, every=PURGE_EVERY_SECONDS, again=PURGE_AGAIN_SECONDS
    )
