"""A real replica, and Django's connection to it for the time of a test."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper

from jobs.models import Trigger
from jobs.store import replica as history
from jobs.store.db.routing import PRIMARY, REPLICA, HistoryRouter
from jobs.store.replica.watch import WATCH, Watch
from stage.waiting import wait_until
from tests.replica.server import Replica, replica_of_tests


@pytest.fixture(scope="module")
def running() -> Iterator[Replica]:
    # The path of a socket must be short, and Postgres' account must be able to reach it.
    with (
        tempfile.TemporaryDirectory(prefix="carillon-replica-") as directory,
        replica_of_tests(Path(directory)) as replica,
    ):
        yield replica


def allow_lag(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Set how old the replica's answers may be from now on."""
    allowed = settings.CARILLON.model_copy(update={"replica_max_lag_seconds": seconds})
    monkeypatch.setattr(settings, "CARILLON", allowed)


def lead_to(socket: str) -> None:
    """Make this process take the server at ``socket`` for the replica."""
    own = connections.settings[PRIMARY]
    connections.settings[REPLICA] = own | {"HOST": socket, "OPTIONS": dict(own["OPTIONS"])}


@pytest.fixture
def configured(
    running: Replica, transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Replica]:
    """The replica is configured. Only the test watches it, by hand (``WATCH.look()``).

    Slowness of a busy machine is not a failure: the bounds of waits and ages are far away until a test moves them.
    """
    monkeypatch.setattr("jobs.store.replica.watch.PATIENCE_SECONDS", 20.0)
    monkeypatch.setattr("jobs.store.replica.watch.STALE_SECONDS", 600.0)
    allow_lag(monkeypatch, 120)
    fresh = Watch()
    monkeypatch.setattr(WATCH, "__dict__", fresh.__dict__)
    monkeypatch.setattr(WATCH, "_pid", -1)
    monkeypatch.setattr(Watch, "begin", lambda watch: None)
    lead_to(running.socket)
    # Django lets a test connect only to the databases that there were before it began.
    ensure = BaseDatabaseWrapper.ensure_connection

    def ensure_connection(ours: Any) -> None:
        if ours.alias != REPLICA:
            ensure(ours)
        elif ours.connection is None:
            with ours.wrap_database_errors:
                ours.connect()

    monkeypatch.setattr(BaseDatabaseWrapper, "ensure_connection", ensure_connection)
    monkeypatch.setattr(router, "routers", [HistoryRouter()])
    yield running
    for session in WATCH._sessions.values():
        session.close()
    connections[REPLICA].close()
    del connections[REPLICA]
    del connections.settings[REPLICA]


@pytest.fixture
def replica(configured: Replica) -> Replica:
    """The replica follows closely, and this process knows it."""
    configured.catch_up()
    WATCH.look()
    wait_until(lambda: WATCH.look() or WATCH.condition().is_fit, 20, what="the replica to be fit")
    assert history.is_configured()
    return configured


@pytest.fixture
def stopped(trigger: Trigger, replica: Replica) -> Iterator[Replica]:
    """The replica has all rows, with the module's ``trigger``; this process knows it; and it replays nothing more."""
    replica.catch_up()
    WATCH.look()
    replica.pause()
    yield replica
    replica.resume()
