"""Migration 0010 gives the event feed partitions while processes of 0.1.0 write it: no event is lost or kept waiting.

Those processes have a role of their own, and use statements that were planned before.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from stage.waiting import wait_until
from tests.upgrades.databases import migrate_beside, migrated, own_database

pytestmark = pytest.mark.slow
BEFORE, THERE = "0009_workflows", "0010_event_partitions"
NOTE = (
    "INSERT INTO jobs_event (tenant_id, at, kind, job_id, data) "
    "VALUES (%s, now() - %s * interval '1 day', 'job.updated', gen_random_uuid(), '{}') RETURNING id"
)
READ = "SELECT xid::text, id, at FROM jobs_event WHERE tenant_id = %s ORDER BY jobs_event.xid, jobs_event.id"
PARTS = (
    "SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
    "WHERE i.inhparent = 'jobs_event'::regclass ORDER BY c.relname"
)


class Writer:
    """A process of the application's role that notes events all the while, by statements that it planned once."""

    def __init__(self, url: str, role: str) -> None:
        self._url, self._role = url, role
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.ids: list[int] = []
        self.errors: list[psycopg.Error] = []

    def _write(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as session:
            session.execute(f"SET ROLE {self._role}")
            try:
                while not self._over.wait(0.002):
                    [(key,)] = session.execute(NOTE, [1, 0], prepare=True).fetchall()
                    self.ids.append(key)
                    session.execute(READ, [2], prepare=True).fetchall()
            except psycopg.Error as error:
                self.errors.append(error)

    def __enter__(self) -> "Writer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


@contextmanager
def application(url: str) -> Iterator[str]:
    """A role as ``grant_roles`` of 0.1.0 left it: it owns the attempts, and may use the events."""
    role = f"application_{uuid4().hex[:12]}"
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {role}")
        owner.execute(f"GRANT USAGE, CREATE ON SCHEMA public TO {role}")
        owner.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}")
        owner.execute(f"GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {role}")
        owner.execute(f"ALTER TABLE jobs_attempt OWNER TO {role}")
    try:
        yield role
    finally:
        with psycopg.connect(url, autocommit=True) as owner:
            owner.execute(f"DROP OWNED BY {role} CASCADE")
            owner.execute(f"DROP ROLE {role}")


@pytest.fixture(scope="module")
def before() -> Iterator[str]:
    with own_database() as url:
        migrated(url, "jobs", BEFORE)
        yield url


@pytest.fixture
def url(before: str) -> Iterator[str]:
    with own_database(like=before) as url:
        yield url


class TestAFeedWithEvents:
    def test_is_written_and_read_on_while_it_is_partitioned(self, url: str, tmp_path: Path) -> None:
        """With a long reader, too, so that the migration begins more than once."""
        log = tmp_path / "log"
        with psycopg.connect(url, autocommit=True) as owner, application(url) as role:
            for days in (89, 40, 1):
                owner.execute(NOTE, [2, days])
            before = owner.execute(READ, [2]).fetchall()
            with Writer(url, role) as writer:
                with psycopg.connect(url) as reader:
                    reader.execute("SELECT count(*) FROM jobs_event")
                    process = migrate_beside(url, "jobs", THERE, log=log)
                    wait_until(lambda: "A table is in use" in log.read_text(), 240, what="a try")
                    reader.rollback()
                assert process.wait(timeout=240) == 0, log.read_text()
                beside = len(writer.ids)
                wait_until(lambda: len(writer.ids) > beside + 50, 60, what="events after it")
            assert writer.errors == []
            assert owner.execute(READ, [2]).fetchall() == before
            assert [key for _, key, _ in owner.execute(READ, [1]).fetchall()] == writer.ids
            assert writer.ids == sorted(set(writer.ids))
            assert [name for name, _ in owner.execute(PARTS).fetchall()] == [
                "jobs_event_before",
                "jobs_event_default",
            ]
            owner.execute(f"SET ROLE {role}")
            owner.execute(NOTE, [3, -30])
            assert owner.execute("SELECT count(*) FROM jobs_event_default").fetchall() == [(1,)]
            owner.execute("INSERT INTO jobs_feedmark (at, over_xid) VALUES (now(), '1')")
            owner.execute("DROP TABLE jobs_event_before")
            owner.execute("RESET ROLE")

    def test_is_put_together_again_by_the_way_back(self, url: str) -> None:
        with psycopg.connect(url, autocommit=True) as owner:
            owner.execute(NOTE, [2, 40])
            migrated(url, "jobs", THERE)
            for days in (1, -30):
                owner.execute(NOTE, [2, days])
            there = owner.execute(READ, [2]).fetchall()
            migrated(url, "jobs", BEFORE)
            owner.execute(NOTE, [2, 0])
            rows = owner.execute(READ, [2]).fetchall()
            assert rows[:3] == there
            assert len({key for _, key, _ in rows}) == 4
            with pytest.raises(AssertionError, match="written while a clock was ahead"):
                migrated(url, "jobs", THERE)
            owner.execute(NOTE, [2, -30])  # the failed migration changed nothing
            owner.execute("DELETE FROM jobs_event WHERE at > now()")
            rows = owner.execute(READ, [2]).fetchall()
            migrated(url, "jobs", THERE)
            assert owner.execute(READ, [2]).fetchall() == rows

    def test_is_taken_up_where_a_run_was_stopped(self, url: str) -> None:
        with psycopg.connect(url, autocommit=True) as owner:
            owner.execute(NOTE, [2, 1])
            owner.execute(
                "ALTER TABLE jobs_event ADD CONSTRAINT event_before_at CHECK (at < '2099-01-01Z') NOT VALID"
            )
            owner.execute("CREATE UNIQUE INDEX event_before_key ON jobs_event (xid, id, at)")
            owner.execute(
                "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'event_before_key'::regclass"
            )
            migrated(url, "jobs", THERE)
            [(_, bound), _] = owner.execute(PARTS).fetchall()
            assert "2099" not in bound
            # The migration had ended, and was not put on record.
            owner.execute("DELETE FROM django_migrations WHERE name = %s", [THERE])
            migrated(url, "jobs", THERE)
            assert len(owner.execute(READ, [2]).fetchall()) == 1


def test_an_empty_feed_has_partitions_of_its_own_from_the_present_day_on(url: str) -> None:
    migrated(url, "jobs", THERE)
    with psycopg.connect(url) as owner:
        owner.execute(NOTE, [2, 0])
        [(day,)] = owner.execute("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')").fetchall()
        assert owner.execute("SELECT tableoid::regclass::text FROM jobs_event").fetchall() == [
            (f"jobs_event_{day}",)
        ]
        assert len(owner.execute(PARTS).fetchall()) == 6
