"""What all tests share: a clock that can be set, and job types and requests that are gone after the test."""

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.db import connection

from jobs.handlers import registry
from jobs.store import history
from stage.waiting import wait_until
from tenants import recent_keys
from tests import factories


@pytest.fixture
def clock(db: None) -> Iterator[Callable[[timedelta], None]]:
    """``clock(timedelta(hours=2))`` moves this connection's clock; it is put back afterwards."""
    yield factories.set_clock
    if not connection.needs_rollback:
        factories.set_clock(timedelta())


@pytest.fixture(autouse=True)
def keys_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test does to a key or a tenant holds for its next call, not a second later."""
    monkeypatch.setattr(recent_keys, "MAX_AGE_SECONDS", 0.0)


@pytest.fixture(autouse=True)
def attempts_as_before(request: pytest.FixtureRequest) -> Iterator[None]:
    """What Django empties after a test that commits are its own tables; that of the attempts is ours.

    A test whose clock ran ahead may have had partitions dropped, too.
    """
    marker = request.node.get_closest_marker("django_db")
    if not ((marker and marker.kwargs.get("transaction")) or "transactional_db" in request.fixturenames):
        yield
        return
    request.getfixturevalue("transactional_db")
    yield
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE jobs_attempt")
    factories.set_clock(timedelta())
    history.ensure_partitions()


@pytest.fixture
def job_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """The built-in job types are loaded, and types registered by the test are gone after it."""
    registry.load()
    monkeypatch.setattr(registry, "_types", dict(registry._types))


@pytest.fixture
def requests_end(live_server: object) -> Iterator[None]:
    """No request to the live server outlives the test, whose clients have ended by then.

    One that did would fail in the next test, and Django's test client takes whatever fails in its process for its own.
    """
    before = set(threading.enumerate())
    yield

    def serving() -> list[str]:
        left = [thread.name for thread in threading.enumerate() if thread not in before]
        return [name for name in left if "process_request_thread" in name]

    wait_until(lambda: not serving(), 30, what="the live server to answer its last request")
