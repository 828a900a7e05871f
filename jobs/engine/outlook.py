"""The forecast of the next day that the leader keeps: a walk over all jobs in small slices, then one row per tenant.

A slice takes some ten milliseconds. Then the walk rests, so that it delays neither dispatch nor the other steps of its
thread. A walk that fails starts again from the beginning. Nothing depends on the rows that it writes.
"""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from jobs.core.calendar.forecast import Forecast
from jobs.store.insight import forecast as store
from jobs.store.jobs import schedule_of
from tenants.clock import database_now

#: Jobs read, and tenants written, in one slice.
JOBS, TENANTS = 500, 50
_START = UUID(int=0)


class Outlooks:
    """``step`` does one slice. ``busy``: on-time work fills batches, so the walk waits."""

    def __init__(self, *, busy: Callable[[], bool] = lambda: False) -> None:
        self._busy = busy
        self._forecast: Forecast | None = None

    def step(self, _: Any = None) -> bool:
        """Do one slice. Returns whether there is more of the walk."""
        if self._busy():
            return self._forecast is not None
        if self._forecast is None:
            self._began, self._after, self._unwritten = database_now(), _START, None
            self._forecast = Forecast(now=self._began, schedule_of=schedule_of)
        try:
            more = self._slice(self._forecast)
        except BaseException:
            self._forecast = None
            raise
        if not more:
            self._forecast = None
        return more

    def _slice(self, forecast: Forecast) -> bool:
        if self._unwritten is None:
            rows = store.jobs_after(self._after, limit=JOBS)
            for row in filter(store.fires, rows):
                forecast.add(row)
            if len(rows) == JOBS:
                self._after = rows[-1].id
            else:
                self._unwritten = forecast.tenant_ids
            return True
        some, self._unwritten = self._unwritten[:TENANTS], self._unwritten[TENANTS:]
        if some:
            store.keep([(tenant_id, forecast.of(tenant_id)) for tenant_id in some], made_at=self._began)
            return True
        store.keep([(store.ALL, forecast.of(*forecast.tenant_ids))], made_at=self._began)
        store.forget(before=self._began)
        return False

    _began: Any
    _after: UUID
    _unwritten: list[int] | None
