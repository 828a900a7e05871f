"""One turn of a beat: lead, materialize, dispatch, catch up, reap, keep house; then say how long to sleep (DESIGN §6).

Steps are bounded in rows, and the database bounds each statement in time, so a turn is far shorter than the lease.
When the database goes away the turn ends, leadership is forgotten and the next turn starts afresh.
"""

import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from uuid import UUID

from django.db import connection

from jobs.conf import EngineSettings
from jobs.engine.dispatcher import Lane, Message, dispatch
from jobs.engine.firing.agenda import Agenda
from jobs.engine.firing.catchup import CatchUps
from jobs.engine.firing.crowd import Crowd
from jobs.engine.firing.materializer import materialize
from jobs.engine.firing.pace import Pace
from jobs.engine.housekeeper import Housekeeper
from jobs.engine.leader import Leader
from jobs.engine.reaper import reap
from jobs.limits import Rates, shared_buckets
from jobs.store import db
from jobs.store import dispatch as dispatch_store
from jobs.store.insight.clocks import Drift
from jobs.store.leases import Reign
from jobs.telemetry import get_logger

log = get_logger()

#: A due trigger that may not start yet (a cap, a full window) is looked at again this soon.
BLOCKED_SECONDS = 0.05
#: Unless it waits for queues that hold enough for their workers until then: a look costs as much for few as for many.
AMPLE_SECONDS = 0.15
REAP_EVERY_SECONDS = 1.0
AWAY_SECONDS = 1.0
#: A new leader takes back what its predecessor queued longer ago than this and nobody claimed: it may have died between
#: commit and publish, and the usual deadline would make that firing later than a change of leaders may.
TAKEOVER_DEADLINE = timedelta(seconds=5)
REAP_BATCH = 500
#: How long a turn may keep on-time work waiting for the sake of the past.
CATCH_UP_BUDGET = timedelta(milliseconds=75)
RELEASE_JOBS = 500
START = UUID(int=0)


class Cycle:
    """A beat's work without Celery: ``tick()`` does one turn, so that tests can step it by hand.

    ``ready`` says whether the broker can be reached: while it cannot, nothing is marked as queued. ``abreast`` lets a
    crowd be materialized beside dispatch, in a thread.
    """

    def __init__(
        self,
        *,
        settings: EngineSettings,
        lanes: Callable[[], Mapping[str, Lane]],
        publish: Callable[[Sequence[Message]], None],
        ready: Callable[[], bool] = lambda: True,
        abreast: bool = False,
    ) -> None:
        self._settings = settings
        self._lanes = lanes
        self._publish = publish
        self._ready = ready
        self.leader = Leader(
            lease=settings.leader_lease, election=settings.leader_election, shards=settings.beat_shards
        )
        self._pace = Pace()
        self._agenda = Agenda()
        self._crowd = Crowd(self._materialize) if abreast else None
        self._crowded = False
        self._catch_ups = CatchUps(pace=self._pace)
        self._housekeeper = Housekeeper(
            retention=timedelta(days=settings.history_days),
            trail_retention=timedelta(days=settings.audit_days),
        )
        self._reap_at = 0.0
        self._parked_after = START
        buckets = shared_buckets()
        self._rates = Rates(buckets)
        self._window = dispatch_store.Window(
            first=settings.queue_window_first,
            lowest=settings.queue_window_lowest,
            highest=settings.queue_window_highest,
            wait=timedelta(milliseconds=settings.queue_wait_ms),
        )
        self._inheritances = 0
        self._drift = Drift(
            name=f"beat@{socket.gethostname()}:{os.getpid()}", let_through=lambda: buckets.let_through
        )
        #: Whether the last turn was a leader's, and came to its end.
        self.leading = False

    def tick(self) -> float:
        """Do one turn. Returns the seconds to sleep before the next; 0 when more work waits."""
        self.leading = False
        try:
            self._bound_waits()
            reign = self.leader.lead()
            self._drift.measure_if_due()
            if reign is None:
                return self.leader.standby_seconds()
            seconds = self._lead(reign)
            self.leading = True
            return seconds
        except db.DISCONNECTED as error:
            log.warning("database away", error=str(error).strip().splitlines()[:1])
            self.leader.step_down()
            db.disconnect()
            return AWAY_SECONDS

    def _lead(self, reign: Reign) -> float:
        if self.leader.inheritances != self._inheritances:
            reap(
                reign=reign,
                deadline=min(TAKEOVER_DEADLINE, self._settings.dispatch_deadline),
                limit=REAP_BATCH,
            )
            self._inheritances = self.leader.inheritances
        keeping_house = time.monotonic() >= self._reap_at
        lanes = self._lanes()
        if keeping_house:
            dispatch_store.open_queues(lanes, self._window)
        if self._crowd and self._crowded:
            self._crowded, result = self._crowd.beside(reign, partial(self._dispatch, reign, lanes))
            # What came beside it, dispatch may not have seen.
            more = True
        else:
            self._crowded = self._materialize(reign)
            result = self._dispatch(reign, lanes)
            more = self._crowded or result.count >= self._settings.dispatch_batch
        # While on-time work fills whole batches, the past waits.
        catching_up = not more and self._catch_ups.step(reign=reign, budget=CATCH_UP_BUDGET)
        if keeping_house:
            self._reap_at = time.monotonic() + REAP_EVERY_SECONDS
            reap(reign=reign, deadline=self._settings.dispatch_deadline, limit=REAP_BATCH)
            self._housekeeper.keep(busy=more)
        if more:
            return 0.0
        longest = self._settings.max_sleep_ms / 1000
        if result.blocked or catching_up:
            longest = min(longest, AMPLE_SECONDS) if result.ample and not catching_up else BLOCKED_SECONDS
        upcoming = result.seconds_to_next
        return longest if upcoming is None else min(longest, max(0.0, upcoming))

    def _dispatch(self, reign: Reign, lanes: Mapping[str, Lane]) -> dispatch_store.Dispatched:
        self._parked_after = dispatch_store.release(after=self._parked_after, limit=RELEASE_JOBS) or START
        dispatch_store.unpark(limit=self._settings.dispatch_batch)
        # Without a broker, what pull workers serve goes on.
        served = lanes if self._ready() else {name: lane for name, lane in lanes.items() if lane.pull}
        return dispatch(
            reign=reign,
            lanes=served,
            window=self._window,
            limit=self._settings.dispatch_batch,
            rates=self._rates,
            publish=self._publish,
        )

    def _materialize(self, reign: Reign) -> bool:
        self._bound_waits()
        limit = self._settings.materialize_batch
        taken = materialize(
            reign=reign,
            look_ahead=self._settings.look_ahead,
            limit=limit,
            pace=self._pace,
            agenda=self._agenda,
        )
        return taken == limit

    @staticmethod
    def _bound_waits() -> None:
        """A frozen beat must not keep tenants locked: the database ends its idle transaction after 5 s."""
        if connection.connection is None:
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT set_config('idle_in_transaction_session_timeout', '5s', false), "
                    "set_config('statement_timeout', '5s', false)"
                )

    def close(self) -> None:
        """Hand the lease over, if the database can be reached; otherwise it expires by itself."""
        try:
            self.leader.hand_over()
        except db.DISCONNECTED as error:
            log.warning("lease left to expire", error=str(error).strip())
        db.disconnect()
