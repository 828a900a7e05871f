"""A beat's turn: lead, and dispatch before all other steps; then say how long to sleep (DESIGN §6).

The other work of a leader is done by separate steps (``jobs.engine.steps``). With ``abreast`` they run beside dispatch,
on threads with a connection each. Stepped by hand, they run before and after dispatch. A step that fails or is slow
does not affect the others. When the database goes away, the turn ends, leadership is forgotten, and the next turn
starts from the beginning.
"""

import math
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from jobs.conf import EngineSettings
from jobs.core.backlog import News
from jobs.engine.dispatcher import Message, QueueConfig, dispatch
from jobs.engine.firing.catchup import CatchUps
from jobs.engine.firing.materializer import materialize
from jobs.engine.firing.order import CatchUpOrder
from jobs.engine.firing.pace import Pace
from jobs.engine.firing.zones import ZoneRules
from jobs.engine.housekeeper import Housekeeper
from jobs.engine.leader import Leader
from jobs.engine.reaper import Patience, reap_leases, reap_messages
from jobs.engine.steps.abreast import AWAY_SECONDS, Abreast
from jobs.engine.steps.archivist import Archivist
from jobs.engine.steps.step import Step
from jobs.limits import Rates, shared_buckets
from jobs.store import db
from jobs.store import dispatch as dispatch_store
from jobs.store.insight.clocks import Drift
from jobs.store.leases import Leadership
from jobs.telemetry import get_logger
from tenants.clock import database_now

log = get_logger()

#: Look again this soon at a due trigger that may not start yet (a cap, a full window).
BLOCKED_SECONDS = 0.05
#: Used instead while all such triggers wait for queues that hold enough for their workers until then: a look costs as
#: much for few triggers as for many.
AMPLE_SECONDS = 0.15
#: The first turn of a burst takes no more triggers than this, and each full one lets the next be larger. What falls due
#: during a turn waits for the next, so a burst of one tenant must not make a turn long at once. A burst is over when no
#: turn has been full for ``BURST_SECONDS``.
FIRST_TURN, TURN_GROWTH, BURST_SECONDS = 100, 4, 1.0
REAP_EVERY_SECONDS = 1.0
#: A leader that could not dispatch for this long lets another beat try.
GIVE_UP_SECONDS = 10.0
#: A new leader takes back triggers that were queued longer ago than this and not claimed: the old leader may have died
#: between commit and publish. The usual deadline would make these triggers later than a change of leaders may make
#: them.
TAKEOVER_DEADLINE = timedelta(seconds=5)
REAP_BATCH = 500
MISSED_EVERY_SECONDS = 0.25
#: Time between two looks for jobs that enter the look-ahead window, and between two looks for catch-up. A few large
#: looks a second cost half as much as a look beside each turn.
LOOK_SECONDS = 0.1
MISSED_BATCH = 1000
#: How long catch-up may keep other steps of its thread waiting.
CATCH_UP_BUDGET = timedelta(milliseconds=75)
RELEASE_JOBS = 500
START = UUID(int=0)
#: Time limit for the statements of steps that must not fail because they have much to do.
MAX_STEP = timedelta(seconds=5)


class Cycle:
    """A beat's work without Celery: ``tick()`` does one turn, so that tests can step it by hand.

    ``ready`` says whether the broker can be reached: while it cannot, only triggers of pull types are queued. ``slow``
    says whether the broker takes long for messages: dispatch then sends fewer and larger ones. ``forgot`` says once
    that the broker lost all messages: their triggers are dispatched again.

    ``abreast``: all steps except dispatch and leading run in threads. These threads call ``wake`` when there is
    something new to dispatch.
    """

    def __init__(
        self,
        *,
        settings: EngineSettings,
        configs: Callable[[], Mapping[str, QueueConfig]],
        publish: Callable[[Sequence[Message]], None],
        ready: Callable[[], bool] = lambda: True,
        slow: Callable[[], bool] = lambda: False,
        forgot: Callable[[], bool] = lambda: False,
        abreast: bool = False,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._configs = configs
        self._known: Mapping[str, QueueConfig] = {}
        self._opened: set[str] = set()
        self._publish, self._ready, self._wake = publish, ready, wake
        self._slow, self._forgot = slow, forgot
        #: When the broker was found to have lost its messages, by the database's clock; None once all are taken back.
        self._forgot_at: datetime | None = None
        self.leader = Leader(lease=settings.leader_lease, election=settings.leader_election)
        self._pace, self._order = Pace(), CatchUpOrder()
        self._zone_rules = ZoneRules()
        self._catch_ups = CatchUps(pace=self._pace)
        self._parked_after = START
        buckets = shared_buckets()
        self._rates = Rates(buckets)
        self._window = dispatch_store.Window(
            urgent=settings.urgent_window,
            initial=settings.queue_window_initial,
            minimum=settings.queue_window_min,
            maximum=settings.queue_window_max,
            wait=timedelta(milliseconds=settings.queue_wait_ms),
        )
        self._memory = dispatch_store.Memory()
        self._following, self._releasing = dispatch_store.Following(), dispatch_store.Releasing()
        self._inheritances = self._patient_since = 0
        self._patience = Patience(lease=settings.worker_lease)
        self._busy = False
        self._result = dispatch_store.Dispatched()
        #: How many triggers the next turn may take, and when a turn last took all it might.
        self._places, self._full_at = FIRST_TURN, -math.inf
        self._drift = Drift(
            name=f"beat@{socket.gethostname()}:{os.getpid()}",
            rate_limit_bypassed=lambda: buckets.counted_alone,
        )
        url, retention = settings.archive_url, timedelta(days=settings.history_days)
        housekeeper = Housekeeper(
            retention=retention,
            trail_retention=timedelta(days=settings.audit_days),
            metric_tenants=settings.metrics_tenants,
            archives=bool(url),
            busy=lambda: self._busy,
        )
        second = timedelta(seconds=1)
        lead = Step("lead", self._lead, budget=second, longest_rest=1.0)
        inherit = Step("inherit", self._inherit)
        dispatching = Step("dispatch", self._dispatch, budget=MAX_STEP, longest_rest=1.0)
        # Stepped by hand, each step runs in each turn.
        looks, blocked = (LOOK_SECONDS, BLOCKED_SECONDS) if abreast else (0.0, 0.0)
        firing = [
            Step("queues", self._open_queues, every=1.0, budget=second),
            Step("release", self._release, budget=second),
            Step("unpark", self._unpark, every=blocked, budget=second, share=1.0),
            Step(
                "targets",
                self._release_targets,
                every=blocked,
                share=1.0,
                again=BLOCKED_SECONDS,
                budget=second,
            ),
            Step("materialize", self._materialize, every=looks, budget=MAX_STEP, share=1.0),
        ]
        catching_up = Step("catch-up", self._catch_up, every=looks, share=1.0)
        upkeep = [
            Step("clock", self._measure),
            Step("missed", self._end_missed, every=MISSED_EVERY_SECONDS, budget=MAX_STEP),
            Step("reap leases", self._reap_leases, every=REAP_EVERY_SECONDS),
            Step("reap messages", self._reap_messages, every=REAP_EVERY_SECONDS),
            Step("broker memory", self._take_back_forgotten, every=REAP_EVERY_SECONDS),
            *housekeeper.steps,
        ]
        archiving = [Archivist(url, retention=retention).step] if url else []
        self._before, self._after = [inherit, *firing], [catching_up, *upkeep, *archiving]
        self.steps = {step.name: step for step in (lead, dispatching, *self._before, *self._after)}
        groups = {"firing": [*firing, catching_up], "upkeep": [inherit, *upkeep], "archive": archiving}
        self._threads = [
            Abreast(name, steps, leadership=lambda: self.leader.leadership)
            for name, steps in groups.items()
            if abreast and steps
        ]
        #: Whether the last turn was a leader's and ran to its end.
        self.leading = False

    def tick(self) -> float:
        """Do one turn. Returns the seconds to sleep before the next; 0 when more work waits."""
        self.leading = False
        try:
            db.bound(statements=MAX_STEP)
            self.steps["lead"].turn(self.leader.leadership)
            leadership = self.leader.leadership
            if leadership is None:
                self.steps["clock"].turn(None)
                return self.leader.standby_seconds()
            seconds = self._turn(leadership)
            if self._leads_in_vain():
                return self.leader.standby_seconds()
            self.leading = True
            return seconds
        except db.DISCONNECTED as error:
            db.note_away(error, what="beat")
            self.leader.step_down()
            db.disconnect()
            return AWAY_SECONDS

    def _turn(self, leadership: Leadership) -> float:
        """Dispatch. The other steps run beside it, or before and after it where there are no threads."""
        for thread in self._threads:
            thread.poke()
        if not self._threads:
            self._take_turns(self._before, leadership)
        dispatching = self.steps["dispatch"]
        done = dispatching.turn(leadership)
        self._busy = (done and dispatching.more) or self.steps["materialize"].more
        if not self._threads:
            self._take_turns(self._after, leadership)
        if not done:
            return dispatching.seconds_until_due()
        return self._seconds_to_sleep()

    @staticmethod
    def _take_turns(steps: Sequence[Step], leadership: Leadership) -> None:
        for step in steps:
            step.turn(leadership)

    def _seconds_to_sleep(self) -> float:
        # Steps beside dispatch wake the beat.
        if self.steps["dispatch"].more or (self._busy and not self._threads):
            return 0.0
        result, catching_up = self._result, self.steps["catch-up"].more
        longest = self._settings.max_sleep_ms / 1000
        if result.blocked or catching_up:
            longest = min(longest, AMPLE_SECONDS) if result.ample and not catching_up else BLOCKED_SECONDS
        upcoming = result.seconds_to_next
        return longest if upcoming is None else min(longest, max(0.0, upcoming))

    def _leads_in_vain(self) -> bool:
        """Whether dispatch has failed for so long that the lease should go to another beat."""
        dispatching = self.steps["dispatch"]
        if not self._settings.leader_election or dispatching.failing_seconds < GIVE_UP_SECONDS:
            return False
        log.error("give up", failing_seconds=round(dispatching.failing_seconds))
        dispatching.forget()
        try:
            self.leader.give_up()
        except db.StatementFailed:
            self.leader.step_down()  # the lease then expires
        return True

    def _lead(self, _: Leadership | None) -> bool:
        self.leader.lead()
        return False

    def _inherit(self, leadership: Leadership) -> bool:
        seen = self.leader.inheritances
        if seen != self._inheritances:
            deadline = min(TAKEOVER_DEADLINE, self._settings.dispatch_deadline)
            reap_messages(leadership=leadership, deadline=deadline, limit=REAP_BATCH)
            self._inheritances = seen
        return False

    def _open_queues(self, _: Leadership) -> bool:
        """Open new queues before anything is dispatched into them."""
        # Dispatch, which runs beside this step, has read the configurations already.
        configs = self._known if self._threads else self._configs()
        dispatch_store.open_queues(configs, self._window)
        if configs.keys() != self._opened:
            self._opened = set(configs)
            self._wake()
        return False

    def _dispatch(self, leadership: Leadership) -> bool:
        # Without a broker, dispatch goes on for the types that pull workers serve.
        self._known = configs = self._configs()
        served = (
            configs if self._ready() else {name: config for name, config in configs.items() if config.pull}
        )
        if time.monotonic() - self._full_at > BURST_SECONDS:
            self._places = FIRST_TURN
        limit = min(self._settings.dispatch_batch, self._places)
        self._result = dispatch(
            memory=self._memory,
            leadership=leadership,
            configs=served,
            window=self._window,
            limit=limit,
            rates=self._rates,
            publish=self._publish,
            slow=self._slow(),
        )
        full = self._result.count >= limit
        if full:
            self._full_at, self._places = time.monotonic(), TURN_GROWTH * limit
        return full or self._result.cut_short

    def _end_missed(self, _: Leadership) -> bool:
        """End missed firings as sets, for the jobs that dispatch noted."""
        ended = self._memory.missed.end(limit=MISSED_BATCH)
        if ended:
            log.info("skip", reason="missed", triggers=len(ended))
        return len(ended) == MISSED_BATCH

    def _release(self, _: Leadership) -> bool:
        released = dispatch_store.release(after=self._parked_after, limit=RELEASE_JOBS)
        self._parked_after = released.after or START
        return self._tell(released.shown)

    def _unpark(self, _: Leadership) -> bool:
        return self._tell(dispatch_store.unpark(limit=self._settings.dispatch_batch))

    def _release_targets(self, _: Leadership) -> bool:
        """Make triggers that wait for a target visible again, once dispatch knows the rules."""
        rules = self._memory.rules
        if rules.version < 0:
            return False
        shown, more = self._following.step(
            version=rules.version, limit=self._settings.dispatch_batch, forget=self._rates.forget_turns
        )
        released, waits = self._releasing.step(rules=rules, limit=RELEASE_JOBS)
        self._tell(shown + released)
        return waits or more

    def _tell(self, shown: int) -> bool:
        """Wake dispatch if triggers are visible to it again."""
        if shown:
            self._wake()
        return False

    def _materialize(self, leadership: Leadership) -> bool:
        limit = self._settings.materialize_batch
        taken = materialize(
            leadership=leadership,
            look_ahead=self._settings.look_ahead,
            limit=limit,
            pace=self._pace,
            order=self._order,
            tell=self._note,
            zoned=self._zone_rules.settled(leadership),
        )
        return taken == limit

    def _note(self, news: Sequence[News], now: datetime) -> None:
        """Tell dispatch of new triggers, and wake it if one of them falls due before its longest sleep ends."""
        self._memory.note(news)
        longest_sleep = timedelta(milliseconds=self._settings.max_sleep_ms)
        if any(one.floor < now + longest_sleep for one in news):
            self._wake()

    def _catch_up(self, leadership: Leadership) -> bool:
        # While on-time work fills whole batches, past firings wait.
        return not self._busy and self._catch_ups.step(leadership=leadership, budget=CATCH_UP_BUDGET)

    def _measure(self, _: Leadership | None) -> bool:
        self._drift.measure_if_due()
        return False

    def _reap_leases(self, leadership: Leadership) -> bool:
        known, self._patient_since = self._patient_since, self.leader.inheritances
        unattended = None if known == self._patient_since else self.leader.unattended_seconds
        if not self._patience.allows(now=database_now(), unattended_seconds=unattended):
            return False
        return reap_leases(leadership=leadership, limit=REAP_BATCH) == REAP_BATCH

    def _reap_messages(self, leadership: Leadership) -> bool:
        deadline = self._settings.dispatch_deadline
        return reap_messages(leadership=leadership, deadline=deadline, limit=REAP_BATCH) == REAP_BATCH

    def _take_back_forgotten(self, leadership: Leadership) -> bool:
        """Take back queued triggers after the broker was emptied: they have no message any more. Messages that got
        through since carry a spent fence."""
        if self._forgot():
            self._forgot_at = database_now()
            log.warning("broker forgot", cause="it was emptied, or came back without its data")
        if self._forgot_at is None:
            return False
        since = database_now() - self._forgot_at
        taken = reap_messages(leadership=leadership, deadline=since, limit=REAP_BATCH)
        if taken:
            self._wake()
        if taken < REAP_BATCH:
            self._forgot_at = None
        return taken == REAP_BATCH

    def close(self) -> None:
        """Hand over the lease, if the database can be reached; otherwise the lease expires by itself."""
        for thread in self._threads:
            thread.close()
        try:
            self.leader.hand_over()
        except db.TRANSIENT as error:
            log.warning("lease left to expire", error=str(error).strip())
        db.disconnect()
