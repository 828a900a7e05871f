"""Following a feed by its cursor, from any place and at any limit: everything once, in order, and ``more`` is right.

A place is a number, so the hard places are those where its digits change: 9 to 10, 999 to 1,000. In the first test,
writers move the server's own counter over such a place while readers follow. The second draws feeds around such places.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from random import Random

import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.models import Job
from jobs.models.fields import new_id
from jobs.store import db as database
from jobs.store.events import START, Place
from tests.factories import make_job, make_tenant
from tests.interfaces.api.caller import Caller
from tests.store.plans.planner import nodes, plan_of

pytestmark = pytest.mark.django_db(transaction=True)

OBJECT = str(new_id())
#: Each feed: its table, and the path that reads it.
FEEDS = {
    "events": ("jobs_event", "/events?"),
    "audit": ("jobs_change", "/audit?"),
    "audit of one object": ("jobs_change", f"/audit?object_id={OBJECT}&"),
}
INSERTS = {
    "jobs_event": "INSERT INTO jobs_event (id, xid, tenant_id, at, kind, job_id, data) "
    f"SELECT id, xid::xid8, tenant_id, now(), 'job.updated', '{OBJECT}', '{{}}'",
    "jobs_change": "INSERT INTO jobs_change (id, xid, tenant_id, at, kind, object_id, name, action, actor_kind, actor, "
    f"changes) SELECT id, xid::xid8, tenant_id, now(), 'job', '{OBJECT}', 'x', 'updated', 'engine', 'engine', '{{}}'",
}
_numbers = count(1)


@dataclass
class Owner:
    caller: Caller
    tenant_id: int


@pytest.fixture
def owner(db: None, job_types: None) -> Owner:
    tenant = make_tenant()
    return Owner(Caller(tenant, scopes=("read", "admin")), tenant.id)


def places_of(table: str, tenant_id: int, *, object_id: str | None = None) -> list[Place]:
    """Every place of the tenant's feed in order, sorted by Python and not by the tested code."""
    found, given = "", [tenant_id]
    if object_id is not None:
        found, given = " AND object_id = %s", [tenant_id, object_id]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT xid::text, id FROM {table} WHERE tenant_id = %s{found}", given)
        return sorted(Place(int(xid), key) for xid, key in cursor.fetchall())


def place_of(text: str) -> Place:
    xid, _, key = text.partition("-")
    return Place(int(xid), int(key))


def pages(
    caller: Caller, path: str, after: Place, limits: Callable[[], int]
) -> Iterator[tuple[list[Place], bool]]:
    """Follow ``cursor`` while there is ``more``: the places of each page, and whether the page said ``more``."""
    while True:
        answer = caller.get(f"{path}after={after.xid}-{after.id}&limit={limits()}")
        assert answer.status_code == 200, answer.content
        page = answer.json()
        yield [place_of(row["id"]) for row in page["results"]], page["more"]
        after = place_of(page["cursor"])
        if not page["more"]:
            return


def newest() -> int:
    """The lowest transaction id that is not over: all ids before it are."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_snapshot_xmin(pg_current_snapshot())::text")
        return int(cursor.fetchone()[0])


def burn(number: int) -> None:
    """Use up ``number`` transaction ids."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"DO $$ BEGIN FOR n IN 1..{number} LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$"
        )


class Writers:
    """Threads that edit jobs in transactions of any length: these commit in another order than they began."""

    def __init__(self, jobs: list[Job]) -> None:
        self._jobs, self._over = jobs, threading.Event()
        self._pool = ThreadPoolExecutor(4)

    def __enter__(self) -> "Writers":
        self._done = [self._pool.submit(self._write, Random(seed)) for seed in range(4)]
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> int:
        """Let the last transaction commit. Returns the number of edits."""
        self._over.set()
        self._pool.shutdown()
        return sum(done.result(timeout=60) for done in self._done)

    def _write(self, random: Random) -> int:
        try:
            edits = 0
            while not self._over.is_set():
                # Edit in one order, so that two writers never wait for each other.
                edited = sorted(random.sample(range(len(self._jobs)), random.randint(1, 3)))
                with transaction.atomic():
                    for index in edited:
                        self._edit(self._jobs[index], next(_numbers))
                        self._over.wait(random.random() / 200)
                edits += len(edited)
            return edits
        finally:
            connection.close()

    @staticmethod
    def _edit(job: Job, number: int) -> None:
        Job.objects.filter(id=job.id).update(name=f"edit-{number}", version=1000 + number)


class TestAFeedWithWriters:
    def test_is_read_once_in_order_over_a_change_of_digits(self, owner: Owner) -> None:
        jobs = [make_job(owner.caller.tenant) for _ in range(40)]
        boundary = 10 ** len(str(newest()))
        if boundary - newest() > 2_000_000:
            pytest.skip("a server with too long a past: its next digit is too far away")
        burn(boundary - newest() - 300)
        random = Random(7)
        seen: dict[str, list[Place]] = {"/events?": [], "/audit?": [], f"/audit?object_id={jobs[0].id}&": []}
        last = dict.fromkeys(seen, START)

        def follow() -> None:
            for path, places in seen.items():
                for page, _ in pages(owner.caller, path, last[path], lambda: random.choice([1, 7, 50, 1000])):
                    places += page
                    last[path] = places[-1] if places else START

        with Writers(jobs) as writers:
            while newest() < boundary + 300:
                burn(1)
                follow()
            edits = writers.stop()
        follow()
        events, changes, of_one = seen.values()
        assert events == places_of("jobs_event", owner.tenant_id)
        assert changes == places_of("jobs_change", owner.tenant_id)
        assert of_one == places_of("jobs_change", owner.tenant_id, object_id=str(jobs[0].id))
        assert len(events) == edits + len(jobs)
        assert {len(str(place.xid)) for place in events} == {len(str(boundary)) - 1, len(str(boundary))}


@st.composite
def around_boundaries(draw: st.DrawFn) -> list[tuple[int, int, bool]]:
    """Rows as ``(xid, id, the tenant's own)``. Ids are given out before commit, so their order is not that of xids."""
    xid = st.integers(1, 5).flatmap(
        lambda digits: st.integers(-4, 4).map(lambda off: max(3, 10**digits + off))
    )
    drawn = draw(st.lists(st.tuples(xid, st.booleans()), min_size=1, max_size=40))
    ids = draw(st.permutations(range(1, len(drawn) + 1)))
    # Ids cross a boundary of their own: 8, 9, 10, 11.
    return [(xid, number, own) for (xid, own), number in zip(drawn, ids, strict=True)]


@pytest.mark.parametrize("feed", FEEDS)
class TestAnyFeed:
    @pytest.fixture(autouse=True)
    def all_over(self, db: None) -> None:
        """The places that are drawn belong to transactions that are over."""
        burn(max(0, 100_010 - newest()))

    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(rows=around_boundaries(), random=st.randoms(use_true_random=False))
    def test_is_read_once_in_order_from_any_place(
        self, owner: Owner, feed: str, rows: list[tuple[int, int, bool]], random: Random
    ) -> None:
        table, path = FEEDS[feed]
        other = owner.tenant_id + 1_000_000
        with connection.cursor() as cursor:
            cursor.execute(f"TRUNCATE {table}")
            cursor.execute(
                f"{INSERTS[table]} FROM unnest(%s::text[], %s::bigint[], %s::bigint[]) AS r(xid, id, tenant_id)",
                [
                    [str(xid) for xid, _, _ in rows],
                    [key for _, key, _ in rows],
                    [owner.tenant_id if own else other for _, _, own in rows],
                ],
            )
        expected = sorted(Place(xid, key) for xid, key, own in rows if own)
        between = Place(random.randint(0, 100_010), random.randint(0, 40))
        for after in (START, between, *random.sample(expected, min(3, len(expected)))):
            ahead = [place for place in expected if place > after]
            read: list[Place] = []
            for page, more in pages(owner.caller, path, after, lambda: random.randint(1, 12)):
                read += page
                assert more == (len(read) < len(ahead))
            assert read == ahead


class TestPlans:
    """A page costs as much as it holds, however many rows lie ahead of the reader."""

    @pytest.mark.parametrize(
        ("query", "table", "index"),
        [
            ("events.page", "jobs_event", "_tenant_id_xid_id_idx"),
            ("trail.page", "jobs_change", "change_of_tenant"),
            ("trail.page_of_object", "jobs_change", "change_of_object"),
        ],
    )
    def test_walk_the_index_and_sort_nothing(self, db: None, query: str, table: str, index: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                f"{INSERTS[table]} FROM (SELECT n AS id, n::text AS xid, n %% 20 AS tenant_id "
                "FROM generate_series(1, 20000) n) r",
                [],
            )
            cursor.execute(f"ANALYZE {table}")
        parameters = {
            "tenant_id": 7,
            "after_xid": "100",
            "after_id": 1,
            "limit": 100,
            "object_id": OBJECT,
            "before_xid": "50000",
            "since": "-infinity",
            "until": "infinity",
        }
        found = list(nodes(plan_of(database.all_queries()[query], parameters)))
        # Each partition of a partitioned table has an index of its own.
        assert {node["Index Name"][-len(index) :] for node in found if "Index Name" in node} == {index}
        assert [node["Node Type"] for node in found if node["Node Type"] == "Seq Scan"] == []
        assert [node["Node Type"] for node in found if "Sort" in node["Node Type"]] == []
