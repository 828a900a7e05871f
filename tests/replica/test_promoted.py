"""A replica that is no longer one, or never was one."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from django.core.checks import Error, Warning
from django.db import connection, connections
from django.test import Client

from jobs.store import replica as history
from jobs.store.db.routing import PRIMARY, REPLICA, server_of_history
from jobs.store.replica.standing import Word
from jobs.store.replica.watch import WATCH
from scheduler_project.apps import replica_is_one
from tests.replica.conftest import lead_to
from tests.replica.server import Replica, upstream_socket

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def checked() -> list[Any]:
    return replica_is_one(databases=["default", "replica"])


def test_a_replica_is_one(replica: Replica) -> None:
    assert checked() == []
    assert replica_is_one(databases=["default"]) == []


def test_the_primary_is_none(configured: Replica) -> None:
    lead_to(str(upstream_socket()))
    [found] = checked()
    assert isinstance(found, Error)
    assert "not in recovery" in found.msg
    assert "or unset it" in found.msg
    WATCH.look()
    assert history.read(lambda as_of: server_of_history()) == PRIMARY


def test_another_database_of_the_cluster_is_none(configured: Replica) -> None:
    connections.settings[REPLICA]["NAME"] = "postgres"
    [found] = checked()
    assert isinstance(found, Error)
    assert "another cluster or database" in found.msg


def test_a_server_that_is_away_is_warned_about(configured: Replica) -> None:
    lead_to("/nowhere")
    [found] = checked()
    assert isinstance(found, Warning)
    assert "away" in found.msg


def test_one_that_is_promoted_is_read_no_more(
    replica: Replica, lines: Callable[[], list[dict[str, Any]]]
) -> None:
    """From the first read on: rows that it gets after its promotion are its own."""
    assert history.read(lambda as_of: server_of_history()) == REPLICA
    replica.promote()
    database = connection.settings_dict["NAME"]
    with psycopg.connect(f"host={replica.socket} user=carillon dbname={database}") as own:
        own.execute("INSERT INTO django_session VALUES ('own', '', now())")
    assert WATCH.condition().is_fit  # no look has happened since
    assert history.read(lambda as_of: server_of_history()) == PRIMARY
    WATCH.look()
    told = Client().get("/readyz").json()
    assert (told["status"], told["replica"]) == ("degraded", "refused")
    assert "was promoted" in told["replica_reason"]
    assert WATCH.condition().word is Word.REFUSED
    [line] = [line for line in lines() if line["event"] == "replica not used"]
    assert line["status"] == "refused"
    [found] = checked()
    assert isinstance(found, Error)
