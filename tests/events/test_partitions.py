"""The feed in partitions by time, read in the order of transactions: nothing is missed, and little is opened.

Time and order differ: a transaction that began first may write last. So feeds are drawn as a server writes them:
transactions that stay open for days beside short ones, and marks at any moment. From every place, a reader must get all
events.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.models import Event, FeedMark
from jobs.models.fields import new_id
from jobs.store import db, events, partitions
from jobs.store.events import START, Place, notices, windows
from tests.factories import make_job, make_tenant, now
from tests.store.plans.planner import nodes, plan_of

pytestmark = pytest.mark.django_db
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
RETENTION = 90 * DAY
TENANT = 7
FIRST_XID = 10
#: Long enough that a drawn feed ends before the present.
LONG_AGO = 150 * DAY
#: How 0.1.0 deleted events past retention.
OLD_PURGE = """
    DELETE FROM jobs_event WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM jobs_event WHERE ctid = ANY(ARRAY(
            SELECT ctid FROM (
            SELECT ctid, at FROM jobs_event WHERE xid < pg_snapshot_xmin(pg_current_snapshot())
            ORDER BY xid, id LIMIT 1000) oldest
            WHERE at < carillon_now() - interval '90 days'))
        FOR UPDATE SKIP LOCKED))
    RETURNING id
"""


@dataclass
class Server:
    """A server as it would have written: open transactions, events, and marks."""

    at: datetime
    next_xid: int = FIRST_XID
    open: list[int] = field(default_factory=list)
    events: list[tuple[int, int, datetime]] = field(default_factory=list)
    marks: list[tuple[int, datetime, int]] = field(default_factory=list)

    def begin(self, _: int) -> None:
        self.open.append(self._xid())

    def write(self, which: int) -> None:
        xid = self.open[which % len(self.open)] if self.open else self._xid()
        self.events.append((xid, len(self.events) + 1, self.at))

    def end(self, which: int) -> None:
        if self.open:
            self.open.pop(which % len(self.open))

    def wait(self, hours: int) -> None:
        self.at += hours * HOUR

    def mark(self, _: int) -> None:
        xid = self._xid()
        self.marks.append((xid, self.at, min([*self.open, xid])))

    def _xid(self) -> int:
        self.next_xid += 1
        return self.next_xid


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["begin", "write", "end", "mark"]), st.integers(0, 5)),
        st.tuples(st.just("wait"), st.integers(1, 40)),
    ),
    min_size=5,
    max_size=60,
)


def fill(actions: list[tuple[str, int]]) -> list[Place]:
    """Write the feed and its marks. Returns every place of it in order."""
    server = Server(now() - LONG_AGO)
    for action, number in actions:
        getattr(server, action)(number)
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE jobs_event, jobs_feedmark")
        cursor.executemany(
            "INSERT INTO jobs_event (xid, id, tenant_id, at, kind, job_id, data) "
            f"VALUES (%s::text::xid8, %s, {TENANT}, %s, 'trigger.dead', '{new_id()}', '{{}}')",
            [(str(xid), key, at) for xid, key, at in server.events],
        )
        cursor.executemany(
            "INSERT INTO jobs_feedmark (xid, at, over_xid) VALUES (%s::text::xid8, %s, %s::text::xid8)",
            [(str(xid), at, str(over)) for xid, at, over in server.marks],
        )
    return sorted(Place(xid, key) for xid, key, _ in server.events)


def followed(after: Place, limit: int) -> Iterator[Place]:
    while rows := events.page(tenant_id=TENANT, after=after, limit=limit):
        for row in rows:
            after = Place(int(row.xid), row.id)
            yield after


class TestWindows:
    @pytest.fixture(autouse=True)
    def narrow(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(windows, "SPAN", 2 * DAY)
        monkeypatch.setattr(windows, "ROOM", timedelta(seconds=1))

    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(actions=ACTIONS, limit=st.integers(1, 4), random=st.randoms(use_true_random=False))
    def test_hold_all_that_follows_any_place_in_order(
        self, actions: list[tuple[str, int]], limit: int, random: Random
    ) -> None:
        places = fill(actions)
        for after in (START, *random.sample(places, min(3, len(places)))):
            ahead = [place for place in places if place > after]
            assert list(followed(after, limit)) == ahead
            assert (events.lag_seconds(after) > 0) == bool(ahead)

    @settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(actions=ACTIONS, limit=st.integers(1, 4))
    def test_let_the_notifier_read_each_event_once(self, actions: list[tuple[str, int]], limit: int) -> None:
        places, read, after = fill(actions), [], START
        while rows := notices.read(after=after, limit=limit):
            read += [Place(int(row.xid), row.id) for row in rows]
            after = read[-1]
        assert read == places

    def test_end_where_a_later_mark_says_that_what_lay_before_is_over(self) -> None:
        fill([("mark", 0), *[("write", 0), ("wait", 24), ("mark", 0)] * 10])
        spans = [(window["since"], window["until"]) for window in windows.windows_after(START)]
        assert len(spans) == 5
        assert spans[0][0] == "-infinity"
        assert spans[-1][1] == "infinity"
        assert "infinity" not in spans[1]

    def test_are_not_narrowed_by_a_clock_that_was_ahead(self) -> None:
        """The clock was put right: events that are written since then have earlier times than the mark."""
        fill([("write", 0), ("mark", 0), ("write", 0)])
        FeedMark.objects.update(at=now() + 20 * DAY)
        first, second = Event.objects.order_by("id")
        Event.objects.filter(id=second.id).update(at=now() + HOUR)
        assert [row.id for row in events.page(tenant_id=TENANT, after=START, limit=9)] == [
            first.id,
            second.id,
        ]
        assert len(events.page(tenant_id=TENANT, after=Place(int(second.xid), 0), limit=9)) == 1


class TestMarks:
    @pytest.mark.django_db(transaction=True)
    def test_lie_between_what_was_over_and_what_began_later(self) -> None:
        make_job()
        before = Event.objects.get().xid
        events.keep_marks(retention=RETENTION)
        make_job()
        mark, after = FeedMark.objects.get(), Event.objects.latest("xid", "id").xid
        assert int(before) < int(mark.over_xid) <= int(mark.xid) < int(after)

    @pytest.mark.django_db(transaction=True)
    def test_of_the_future_and_past_retention_go(self, clock: Any) -> None:
        for days in (100, 0, 7):
            clock(days * DAY)
            events.keep_marks(retention=RETENTION)
        assert [round((mark.at - now()) / DAY) for mark in FeedMark.objects.order_by("at")] == [-7, 0]
        clock(95 * DAY)
        events.keep_marks(retention=RETENTION)
        assert [round((mark.at - now()) / DAY) for mark in FeedMark.objects.order_by("at")] == [-88, 0]


class TestPartitions:
    def test_are_dropped_past_retention_a_day_at_a_time(self, clock: Any) -> None:
        tenant = make_tenant()
        first, second = (partitions.EVENTS.name_of(now() + days * DAY) for days in range(2))
        make_job(tenant)
        clock(DAY)
        partitions.ensure(partitions.EVENTS)
        kept = make_job(tenant)
        clock(RETENTION + DAY)
        partitions.ensure(partitions.EVENTS)
        dropped = partitions.drop(partitions.EVENTS, before=now() - RETENTION)
        assert (first in dropped, second in dropped) == (True, False)
        assert [event.job_id for event in Event.objects.filter(tenant_id=tenant.id)] == [kept.id]

    def test_outlive_a_release_that_deletes_rows_by_their_place(self) -> None:
        """Two rows in two partitions have the same ctid: to delete the older would delete the newer, too."""
        fill([("write", 0)])
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO jobs_event (tenant_id, at, kind, job_id, data) "
                "SELECT tenant_id, carillon_now(), kind, job_id, data FROM jobs_event"
            )
            cursor.execute(OLD_PURGE)
            assert cursor.fetchall() == []
            assert Event.objects.count() == 2
            cursor.execute("DROP RULE event_kept ON jobs_event")
            cursor.execute(OLD_PURGE)  # control
            assert len(cursor.fetchall()) == 2

    def test_that_lie_before_the_reader_are_not_opened(self, clock: Any) -> None:
        for days in range(0, 60, 5):
            clock(days * DAY)
            partitions.ensure(partitions.EVENTS)
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO jobs_feedmark (xid, at, over_xid) "
                "SELECT n::text::xid8, now() + n * interval '1 day', n::text::xid8 FROM generate_series(1, 55) n"
            )
        opened = []
        for xid in (0, 50):
            first = next(windows.windows_after(Place(xid, 1)))
            plan = plan_of(db.all_queries()["events.page"], {"tenant_id": TENANT, "limit": 100, **first})
            opened.append(len({node["Relation Name"] for node in nodes(plan) if "Relation Name" in node}))
        # From the beginning: partitions of one window. From the fiftieth day: the default partition and those to come.
        assert opened[0] < 25
        assert opened[1] < 20


class TestStrays:
    def test_of_the_past_get_partitions_and_those_of_the_future_are_counted(self) -> None:
        fill([("write", 0), ("wait", 24), ("write", 0)])
        ahead, past = Event.objects.order_by("id")
        Event.objects.filter(id=ahead.id).update(at=now() + 30 * DAY)
        assert partitions.strays()["jobs_event"] == 2
        [made] = partitions.take_in(partitions.EVENTS)
        assert made == partitions.EVENTS.name_of(past.at)
        assert partitions.take_in(partitions.EVENTS) == []
        assert partitions.strays()["jobs_event"] == 1
        assert set(Event.objects.all()) == {ahead, past}
        assert made in partitions.drop(partitions.EVENTS, before=now())
