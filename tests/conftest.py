"""Fixtures for all tests: a clock that can be set; job types, requests and threads that end with the test."""

import io
import json
import logging
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.contrib import admin
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.db import connection
from django.test import TransactionTestCase
from hypothesis import HealthCheck, settings
from psycopg import sql
from pytest_django import DjangoDbBlocker
from whitenoise.middleware import WhiteNoiseMiddleware

from jobs import telemetry
from jobs.engine import endings
from jobs.handlers import registry
from jobs.limits import Buckets, shared, shared_buckets
from jobs.limits.shared import BUDGET_SECONDS, SLOW_SECONDS
from jobs.models import Job
from jobs.store import db, partitions
from jobs.telemetry import Outage
from jobs.wakeups import sender, the_pull_notifier
from jobs.wakeups.sender import TIMEOUT_SECONDS
from scheduler_project.web import logins
from stage import waiting
from stage.waiting import wait_until
from tenants import keys
from tests import factories
from tests.emptying import empty_tables
from tests.stack import EMPTY_COPY, OWN

# Tests are made for each of the console's pages. The pages are registered from here on.
admin.autodiscover()

FOREVER = datetime(9999, 1, 1, tzinfo=UTC)
#: ``carillon_clock()`` as the migrations made it, but where a session has set ``carillon.one_time``. A function made in
#: each test would have all kept plans made again.
ONE_TIME = """
DO $do$
BEGIN
    EXECUTE format(
        'CREATE OR REPLACE FUNCTION carillon_clock() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE AS '
        '$$ SELECT CASE current_setting(''carillon.one_time'', true) WHEN ''on'' THEN carillon_now() ELSE (%s) END $$',
        (SELECT rtrim(trim(prosrc, E' \\n'), ';') FROM pg_proc WHERE oid = 'carillon_clock()'::regprocedure));
END $do$"""
# Slowness of a busy machine is not a failure. All other settings are Hypothesis's: where CI is set, examples are the
# same each time.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
waiting.patience = 4.0


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> None:
    """The tests' database. Stages copy it as it was migrated, and need not migrate a database of their own."""
    with django_db_blocker.unblock():
        if Job._meta.db_table not in connection.introspection.table_names():
            return  # pytest-django makes it where a test of this run has the database
        if OWN in os.environ:
            connection.close()
            _copy_empty(connection.settings_dict["NAME"])
        with connection.cursor() as cursor:
            cursor.execute(ONE_TIME)


def _copy_empty(database: str) -> None:
    copy = "CREATE DATABASE {} TEMPLATE {}"
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as session:
        if not session.execute("SELECT 1 FROM pg_database WHERE datname = %s", [EMPTY_COPY]).fetchone():
            session.execute(sql.SQL(copy).format(sql.Identifier(EMPTY_COPY), sql.Identifier(database)))


@pytest.fixture(autouse=True, scope="session")
def nothing_writes_what_is_counted() -> Iterator[None]:
    """A test that starts a beat in this process would start its writer, which takes counts that other tests look for.
    Tests of the writer make their own.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("jobs.engine.activity.WRITER.start", lambda: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def nothing_listens_after_the_tests() -> Iterator[None]:
    """Claims that waited in this process leave a listener, which would report that the servers are gone."""
    yield
    the_pull_notifier().close()


@pytest.fixture(autouse=True, scope="session")
def tables_are_emptied_at_little_cost() -> Iterator[None]:
    """Emptying the tables after each test that commits took most of the time of a short test."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(TransactionTestCase, "_fixture_teardown", empty_tables)
        yield


@pytest.fixture(autouse=True, scope="session")
def passwords_are_hashed_at_little_cost() -> Iterator[None]:
    """Each hash of a password takes a tenth of a second, on purpose. Servers of other processes can check these too."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(PBKDF2PasswordHasher, "iterations", 1)
        yield


@pytest.fixture(autouse=True, scope="session")
def static_files_are_found_once() -> Iterator[None]:
    """WhiteNoise looks for all static files whenever a handler is made, and each test client makes its own. That took
    most of the time of a request.
    """
    look, found = WhiteNoiseMiddleware.add_files_from_finders, {}

    def add(self: WhiteNoiseMiddleware) -> None:
        if not found:
            look(self)
            found.update(self.files)
        self.files.update(found)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(WhiteNoiseMiddleware, "add_files_from_finders", add)
        yield


@pytest.fixture
def clock(db: None) -> Iterator[Callable[[timedelta], None]]:
    """``clock(timedelta(hours=2))`` moves this connection's clock; it is put back afterwards."""
    yield factories.set_clock
    if not connection.needs_rollback:
        factories.set_clock(timedelta())


@pytest.fixture(autouse=True)
def statements_have_one_time(request: pytest.FixtureRequest) -> None:
    """In a test that is one transaction, time stands still within each statement.

    To the engine a statement is an instant. A firing that fell due between the two clocks of a statement would be
    neither due nor ahead. It ends with the transaction.
    """
    marker = request.node.get_closest_marker("django_db")
    if marker is None or "transactional_db" in request.fixturenames or "live_server" in request.fixturenames:
        return
    if marker.kwargs.get("transaction"):
        return
    request.getfixturevalue("db")
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('carillon.one_time', 'on', true)")


@pytest.fixture
def no_tries(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Log-ins are limited by buckets of this test's own. All tests have one address, which may try ten at once."""
    buckets_of, mine = logins._buckets_of, uuid4()
    monkeypatch.setattr(
        logins,
        "_buckets_of",
        lambda *asked: [replace(bucket, key=f"{bucket.key}:{mine}") for bucket in buckets_of(*asked)],
    )
    yield
    shared_buckets.cache_clear()


@pytest.fixture(autouse=True)
def keys_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change that a test makes to a key or a tenant holds for its next call, not a second later."""
    monkeypatch.setattr(keys, "MAX_AGE_SECONDS", 0.0)


#: The partitions when they were last put in order. Most tests leave these.
_in_order: list[str] = []


@pytest.fixture(autouse=True)
def partitions_as_before(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that commits and moved its clock ahead may have dropped partitions of any table, and made others."""
    marker = request.node.get_closest_marker("django_db")
    if not ((marker and marker.kwargs.get("transaction")) or "transactional_db" in request.fixturenames):
        yield
        return
    request.getfixturevalue("transactional_db")
    yield
    factories.set_clock(timedelta())
    if _partitions() == _in_order:
        return
    for table in partitions.ALL:
        partitions.ensure(table)
        latest = table.start_of(factories.now()) + table.span * (table.ahead + 1)
        for each in partitions.past(table, before=FOREVER):
            if each.until > latest:
                partitions.drop_one(each)
    _in_order[:] = _partitions()


def _partitions() -> list[str]:
    """The names of all tables' partitions, in one statement."""
    parents = [table.table for table in partitions.ALL]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = ANY(%s::regclass[]) ORDER BY 1",
            [parents],
        )
        return [name for (name,) in cursor.fetchall()]


@pytest.fixture(autouse=True)
def redis_has_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine Redis would often count as slow or away, and not be used. ``hasty_redis`` undoes this."""
    monkeypatch.setattr(shared, "BUDGET_SECONDS", 10.0)
    monkeypatch.setattr(shared, "SLOW_SECONDS", 10.0)
    monkeypatch.setattr(sender, "TIMEOUT_SECONDS", 10.0)


@pytest.fixture
def hasty_redis(monkeypatch: pytest.MonkeyPatch, redis_has_time: None) -> None:
    """Redis has as little time as in a deployment."""
    monkeypatch.setattr(shared, "BUDGET_SECONDS", BUDGET_SECONDS)
    monkeypatch.setattr(shared, "SLOW_SECONDS", SLOW_SECONDS)
    monkeypatch.setattr(sender, "TIMEOUT_SECONDS", TIMEOUT_SECONDS)


@pytest.fixture(autouse=True)
def no_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next test does not log the end of an outage of the database that began in this one."""
    monkeypatch.setattr(db, "_outage", Outage("database away"))
    monkeypatch.setattr(db, "_given_up", Outage("statement failed"))


@pytest.fixture(autouse=True)
def rate_limits_end(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The threads of rate limits end with their test: otherwise they would tell the next test that Redis is away."""
    made: list[Buckets] = []
    make = Buckets.__init__

    def noted(buckets: Buckets, **options: Any) -> None:
        make(buckets, **options)
        made.append(buckets)

    monkeypatch.setattr(Buckets, "__init__", noted)
    monkeypatch.setattr(shared, "RETRY_AFTER_SECONDS", 0.05)
    yield
    monkeypatch.setattr(shared, "IDLE_SECONDS", 0.0)

    def ended(buckets: Buckets) -> bool:
        with buckets._changed:
            buckets._requests.clear()
            buckets._dirty.clear()
            buckets._changed.notify()
            return buckets._thread is None

    for buckets in made:
        wait_until(lambda: ended(buckets), 60, what="the rate limits' thread to end")  # noqa: B023


@pytest.fixture
def job_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """The built-in job types are loaded, and types registered by the test are gone after it."""
    registry.load()
    monkeypatch.setattr(registry, "_types", dict(registry._types))


@pytest.fixture
def requests_end(live_server: object) -> Iterator[None]:
    """No request to the live server outlives the test, whose clients have ended by then.

    Such a request would fail in the next test. Django's test client reports any failure in its process as its own.
    """
    before = set(threading.enumerate())
    yield

    def serving() -> list[str]:
        left = [thread.name for thread in threading.enumerate() if thread not in before]
        return [name for name in left if "process_request_thread" in name]

    wait_until(lambda: not serving(), 30, what="the live server to answer its last request")


@pytest.fixture
def lines() -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """The JSON lines that were logged since the test began, in the format of a deployment."""
    # Above ten a second, a line waits for the end of its second: an earlier test may have left one.
    endings._sampled().flush()
    text = io.StringIO()
    sink = logging.StreamHandler(text)
    sink.setFormatter(telemetry.formatter("json"))
    logging.getLogger().addHandler(sink)
    yield lambda: [json.loads(line) for line in text.getvalue().splitlines()]
    logging.getLogger().removeHandler(sink)
