"""A real replica, and Django's connection to it for the time of a test."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper

from jobs.store import replica as history
from jobs.store.db.routing import PRIMARY, REPLICA, HistoryRouter
from jobs.store.replica.watch import WATCH, Watch
from stage.waiting import wait_until
from tests.replica.server import Replica, replica_of_tests


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replica]:
    # The path of a socket is short.
    with replica_of_tests(Path(tmp_path_factory.mktemp("r"))) as replica:
        yield replica


def lead_to(socket: str) -> None:
    """Have this process take the server at ``socket`` for the replica."""
    own = connections.settings[PRIMARY]
    connections.settings[REPLICA] = own | {"HOST": socket, "OPTIONS": dict(own["OPTIONS"])}


@pytest.fixture
def configured(
    running: Replica, transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Replica]:
    """The replica is configured, and nobody watches it but the test, which looks by hand (``WATCH.look()``)."""
    fresh = Watch()
    monkeypatch.setattr(WATCH, "__dict__", fresh.__dict__)
    monkeypatch.setattr(WATCH, "_pid", -1)
    monkeypatch.setattr(Watch, "begin", lambda watch: None)
    lead_to(running.socket)
    # Django lets a test connect to those databases alone that there were before it began.
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
    """It follows closely, and this process knows it."""
    configured.catch_up()
    WATCH.look()
    wait_until(lambda: WATCH.look() or WATCH.condition().is_fit, 20, what="the replica to be fit")
    assert history.is_configured()
    return configured
