"""Activity on record: minutes become hours, each is kept for its time, and some tenants have series of their own."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from jobs.core.activity import KINDS
from jobs.engine.housekeeper import Housekeeper
from jobs.models import ActivityHour, ActivityMinute, ActivityTotal, MetricTenant
from jobs.store import partitions
from jobs.store.insight import activity, rollup
from tests import factories
from tests.activity_records import add_up, record
from tests.factories import HOUR, MINUTE, make_tenant

pytestmark = pytest.mark.django_db
Clock = Callable[[timedelta], None]
DAY, RETENTION = timedelta(days=1), timedelta(days=90)


def hour_of(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)


def count(minute: datetime, tenant_id: int = 7, job_type: str = "noop", **counts: int) -> None:
    ActivityMinute.objects.create(
        minute=minute, tenant_id=tenant_id, job_type=job_type, **(counts or {"started": 1})
    )


def hours() -> dict[tuple[datetime, int, str], int | None]:
    return {(row.hour, row.tenant_id, row.job_type): row.started for row in ActivityHour.objects.all()}  # type: ignore[attr-defined]


def partitions_of(table: str) -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = %s::regclass", [table]
        )
        return {name for (name,) in cursor.fetchall()}


class TestRollUp:
    def test_sums_every_kind_of_an_hours_minutes(self) -> None:
        before = hour_of(factories.now()) - 3 * HOUR
        counts = {kind: nth for nth, kind in enumerate(KINDS, 1)}
        for nth in range(3):
            count(before + nth * MINUTE, **counts)
        assert rollup.roll_up()
        [row] = ActivityHour.objects.values(*KINDS)
        assert row == {kind: 3 * number for kind, number in counts.items()}

    def test_takes_hour_by_hour_and_knows_tenants_and_types_apart(self) -> None:
        first = hour_of(factories.now()) - 5 * HOUR
        for minute in (first, first + 59 * MINUTE, first + 3 * HOUR):
            count(minute)
        count(first, 8)
        count(first, job_type="webhook")
        assert [rollup.roll_up() for _ in range(3)] == [True, True, False]
        assert hours() == {
            (first, 7, "noop"): 2,
            (first, 8, "noop"): 1,
            (first, 7, "webhook"): 1,
            (first + 3 * HOUR, 7, "noop"): 1,
        }

    def test_leaves_an_hour_alone_until_nothing_adds_to_it(self, clock: Clock) -> None:
        now = factories.now()
        this = hour_of(now)
        count(this)
        clock(this + HOUR + MINUTE - now)
        assert not rollup.roll_up()
        clock(this + HOUR + 3 * MINUTE - now)
        assert rollup.roll_up()

    def test_comes_to_the_same_when_it_is_done_twice(self) -> None:
        before = hour_of(factories.now()) - 3 * HOUR
        count(before)
        rollup.roll_up()
        once = hours()
        rollup._SQL["roll_up"](hour=before)
        assert hours() == once

    def test_leaves_an_hour_alone_while_a_report_of_it_is_not_added_up(self, clock: Clock) -> None:
        record({(7, "noop"): {"started": 1}})
        activity.report({(7, "noop"): {"started": 1}}, {})
        clock(4 * HOUR)
        assert not rollup.roll_up()
        add_up()
        assert rollup.roll_up()
        assert set(hours().values()) == {2}


class TestKeeping:
    def test_drops_days_of_minutes_that_are_rolled_up(self, clock: Clock) -> None:
        record({(7, "noop"): {"started": 1}})
        clock(4 * DAY)
        partitions.ensure(partitions.MINUTES)
        there = partitions_of("jobs_activityminute")
        assert rollup.drop(retention=RETENTION) == []
        assert partitions_of("jobs_activityminute") == there
        assert rollup.roll_up()
        dropped = rollup.drop(retention=RETENTION)
        assert dropped != []
        assert partitions_of("jobs_activityminute") == there - set(dropped)
        # The tenant's, and that of all tenants.
        assert (ActivityMinute.objects.count(), ActivityHour.objects.count()) == (0, 2)

    def test_keeps_minutes_for_two_days_at_least(self, clock: Clock) -> None:
        record({(7, "noop"): {"started": 1}})
        clock(47 * HOUR)
        rollup.roll_up()
        rollup.drop(retention=RETENTION)
        assert ActivityMinute.objects.count() == 2

    def test_keeps_hours_as_long_as_history(self, clock: Clock) -> None:
        partitions.ensure(partitions.HOURS)
        ActivityHour.objects.create(hour=hour_of(factories.now()), tenant_id=7, job_type="noop", started=1)
        clock(RETENTION - DAY)
        rollup.drop(retention=RETENTION)
        assert ActivityHour.objects.count() == 1
        clock(RETENTION + 8 * DAY)
        rollup.drop(retention=RETENTION)
        assert ActivityHour.objects.count() == 0

    def test_deletes_what_lay_in_the_default_partition(self) -> None:
        long_ago = hour_of(factories.now()) - 100 * DAY
        count(long_ago)
        ActivityHour.objects.create(hour=long_ago - HOUR, tenant_id=7, job_type="noop", started=1)
        assert rollup.purge(retention=RETENTION)
        assert (ActivityMinute.objects.count(), ActivityHour.objects.count()) == (1, 0)
        assert rollup.roll_up()
        assert rollup.purge(retention=RETENTION)
        assert ActivityMinute.objects.count() == 0

    def test_is_the_housekeepers(self, clock: Clock) -> None:
        tenant = make_tenant()
        record({(tenant.id, "noop"): {"started": 1}})
        Housekeeper(retention=RETENTION, trail_retention=RETENTION, metric_tenants=5).keep()
        assert [named.tenant_id for named in MetricTenant.objects.all()] == [tenant.id]
        clock(4 * DAY)
        for _ in range(2):
            Housekeeper(retention=RETENTION, trail_retention=RETENTION, metric_tenants=5).keep()
        assert (ActivityMinute.objects.count(), ActivityHour.objects.count()) == (0, 2)
        assert f"jobs_activityminute_{factories.now():%Y%m%d}" in partitions_of("jobs_activityminute")


class TestNames:
    @staticmethod
    def active(tenant: Any, started: int) -> Any:
        record({(tenant.id, "noop"): {"started": started}})
        return tenant

    @staticmethod
    def named() -> set[int]:
        return set(MetricTenant.objects.values_list("tenant_id", flat=True))

    @staticmethod
    def totals() -> dict[int, int]:
        of_tenants = ActivityTotal.objects.filter(tenant_id__gte=0)
        return dict(of_tenants.values_list("tenant_id", "started"))

    def test_are_given_to_the_busiest(self) -> None:
        _idle, quiet, busy = (self.active(make_tenant(), n) for n in (1, 5, 9))
        rollup.name_tenants(places=2)
        assert self.named() == {quiet.id, busy.id}

    def test_are_given_to_none_where_there_are_no_places(self) -> None:
        self.active(make_tenant(), 5)
        rollup.name_tenants(places=1)
        rollup.name_tenants(places=0)
        assert self.named() == set()

    def test_never_let_the_rest_go_down(self) -> None:
        one, other = self.active(make_tenant(), 5), self.active(make_tenant(), 2)
        assert self.totals() == {0: 7}
        rollup.name_tenants(places=1)
        self.active(one, 3)
        assert self.totals() == {0: 7, one.id: 3}
        self.active(other, 100)
        rollup.name_tenants(places=1)
        assert self.named() == {other.id}
        assert self.totals() == {0: 107}
        self.active(one, 1)
        self.active(other, 1)
        assert self.totals() == {0: 108, other.id: 1}

    def test_are_not_given_to_a_tenant_called_as_the_rest(self) -> None:
        self.active(make_tenant(slug="other"), 5)
        rollup.name_tenants(places=1)
        assert self.named() == set()

    def test_are_of_those_who_did_something_lately(self) -> None:
        count(factories.now() - HOUR, make_tenant().id)
        rollup.name_tenants(places=1)
        assert self.named() == set()
