"""The memory of one dispatcher from turn to turn, and how it is kept true: news, sweeps, and tenants' settings.

The memory may be wrong, and then costs a look or a delay: every choice is made again in the transaction, on locked
rows. When a new leadership begins, all is forgotten.
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from datetime import UTC, datetime, timedelta
from typing import Any

from jobs.core.backlog import Backlog, News
from jobs.core.levers.targets import Rules
from jobs.store import db
from jobs.store.dispatch import targets
from jobs.store.dispatch.in_flight import InFlight
from jobs.store.dispatch.missed import Missed, Patrol
from jobs.store.leases import Leadership
from jobs.telemetry import get_logger

log = get_logger()
_SQL = db.queries("dispatch")

#: An announcement is stamped before its transaction commits. So announcements are read again for this long, and now and
#: then for as long as nearly all transactions take. The sweep finds announcements that commit still later.
#: After tens of thousands of announcements a reading takes long. So it takes no more than this part of the dispatcher's
#: time; in between, only those of the last tenth of a second are read again.
OVERLAP, READING_SHARE = timedelta(seconds=2), 0.2
SHORT_OVERLAP = timedelta(seconds=0.1)
LONG_OVERLAP = timedelta(seconds=60)
LONG_OVERLAP_EVERY_SECONDS = 5.0
#: A sweep looks at this many lanes at a time, takes this part of the dispatcher's time, and rests after it failed.
SWEEP_LANES = 200
SWEEP_SHARE = 0.05
SWEEP_TIMEOUT_MS = 500
SWEEP_REST_SECONDS = 30.0
#: Settings of tenants that may not be served are read again this often.
READ_AGAIN_SECONDS = 1.0
_START = News(-1, "", 0, datetime.min.replace(tzinfo=UTC))


class Memory:
    """The backlog, and the settings of tenants with due work. Belongs to one dispatcher; all threads may use ``note``,
    ``missed`` and ``rules``."""

    def __init__(self) -> None:
        self.backlog = Backlog()
        self.in_flight = InFlight()
        self.patrol = Patrol()
        self.missed = Missed()
        #: The rules for targets, once dispatch has looked.
        self.rules = Rules(version=-1)
        #: How long the last dispatch took.
        self.turn_seconds = 0.0
        self._leadership: Leadership | None = None
        self._forget()

    def _forget(self) -> None:
        self.backlog.forget()
        self.in_flight.forget()
        self.tenants: dict[int, Any] = {}
        self._rated: set[int] = set()
        self._read_at: dict[int, float] = {}
        self._just_read: list[int] = []
        self._heard_to: datetime | None = None
        self._listen_at = self._listen_long_at = 0.0
        self._sweep_from = _START
        self._sweep_at = 0.0
        self._swept = False
        self._counted_at = 0.0
        #: Whether operators had stopped dispatch at the last look.
        self.stopped = False

    def note(self, news: Iterable[News]) -> None:
        """Note triggers that this process committed as pending."""
        self.backlog.note(news)

    def look(self, leadership: Leadership) -> datetime:
        """Learn the news. Returns the database's time, at which the due lanes stand in line."""
        if leadership != self._leadership:
            self._forget()
            self._leadership = leadership
        now = self._hear()
        if not self._swept:
            while not self._swept:
                self._sweep()
        elif time.monotonic() >= self._sweep_at:
            self._sweep_a_little()
        self.backlog.learn(())
        self.backlog.advance(now)
        self._read_tenants()
        return now

    def _hear(self) -> datetime:
        heard_to, moment = self._heard_to, time.monotonic()
        overlap = OVERLAP if moment >= self._listen_at else SHORT_OVERLAP
        if moment >= self._listen_long_at:
            self._listen_long_at, overlap = moment + LONG_OVERLAP_EVERY_SECONDS, LONG_OVERLAP
        rows = _SQL["news"](since=None if heard_to is None else heard_to - overlap)
        now: datetime = rows[0].now
        self.stopped = rows[0].stopped
        if rows[0].targets_version != self.rules.version:
            self.rules = targets.rules(version=rows[0].targets_version)
        if heard_to is not None and now < heard_to:
            # The database's clock went back: announcements stamped now look older than those heard before.
            self._swept = False
            self.in_flight.forget()
        self._heard_to = now
        self.backlog.learn(
            News(row.tenant_id, row.job_type, row.priority, row.floor)
            for row in rows
            if row.tenant_id is not None
        )
        if overlap == OVERLAP:
            ended = time.monotonic()
            self._listen_at = ended + (ended - moment) * (1 / READING_SHARE - 1)
        return now

    def _sweep(self) -> None:
        """One slice of a walk over all lanes."""
        start = self._sweep_from
        rows = _SQL["sweep"](
            tenant_id=start.tenant_id, job_type=start.job_type, priority=start.priority, limit=SWEEP_LANES
        )
        found = [News(*row) for row in rows]
        self.backlog.learn(found)
        if len(found) < SWEEP_LANES:
            self._sweep_from, self._swept = _START, True
        else:
            self._sweep_from = found[-1]

    def _sweep_a_little(self) -> None:
        began = time.monotonic()
        try:
            with db.atomic():
                _SQL["bound"](milliseconds=SWEEP_TIMEOUT_MS)
                self._sweep()
        except db.StatementFailed as error:
            log.warning(
                "sweep of lanes timed out", error=str(error).strip(), rests_seconds=SWEEP_REST_SECONDS
            )
            self._sweep_at = time.monotonic() + SWEEP_REST_SECONDS
        else:
            ended = time.monotonic()
            self._sweep_at = ended + (ended - began) / SWEEP_SHARE

    def _read_tenants(self) -> None:
        """Read the settings of new tenants, and again those of tenants that could not be served.

        The settings of the others are read when these are locked.
        """
        moment, turns = time.monotonic(), self.backlog.turns
        unserved = {tenant_id for tenant_id in turns.aside if self._read_at[tenant_id] <= moment}
        ids = list(unserved | (turns.tenants - self._read_at.keys()))
        self._just_read = ids
        if ids:
            self.keep(_SQL["tenants"](ids=ids))
            self._read_at |= dict.fromkeys(ids, moment + READ_AGAIN_SECONDS)

    def keep(self, tenants: Iterable[Any]) -> None:
        """Remember rows of tenants as they were just read."""
        for tenant in tenants:
            self.tenants[tenant.id] = tenant
            if tenant.rate_per_second:
                self._rated.add(tenant.id)
            else:
                self._rated.discard(tenant.id)
            self.backlog.turns.weigh(tenant.id, tenant.weight)

    def is_awake(self, tenant_id: int) -> bool:
        """Whether work of the tenant may start at all, as far as is known."""
        tenant = self.tenants.get(tenant_id)
        return tenant is not None and tenant.status == "active"

    def is_guarded(self, tenant_id: int) -> bool:
        """Whether the tenant has circuit breakers, as it was when it was locked."""
        return bool(self.tenants[tenant_id].circuit_breaker)

    def rated(self) -> Set[int]:
        """Tenants with due work that have a rate."""
        return self._rated & self.backlog.turns.tenants

    def frozen(self) -> list[int]:
        """Frozen tenants with due work that were read again for this turn."""
        return [
            tenant_id
            for tenant_id in self._just_read
            if tenant_id in self.tenants and self.tenants[tenant_id].status == "frozen"
        ]

    def count(self, in_flight: Mapping[tuple[int, int], int]) -> None:
        """Count the triggers in flight, by (tenant, priority), as service since the last turn."""
        moment, turns = time.monotonic(), self.backlog.turns
        by_tenant: Counter[int] = Counter()
        for (tenant_id, _), count in in_flight.items():
            by_tenant[tenant_id] += count
        if self.backlog.begun:
            turns.hold(by_tenant, seconds=min(1.0, moment - self._counted_at))
        else:
            turns.begin(in_flight)
            turns.hold(by_tenant, seconds=0.0)
            self.backlog.begun = True
        self._counted_at = moment
