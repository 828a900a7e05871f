"""A web server with a replica, as it is deployed: its log, its checks, and its answers while the replica dies."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from stage.urls import as_url
from stage.waiting import wait_until
from tenants.actions import create_api_key
from tests import factories
from tests.cluster.stage import own_database_url
from tests.cluster.web import Web, serving
from tests.replica.server import Replica

pytestmark = [pytest.mark.cluster, pytest.mark.django_db(transaction=True)]


def url_of(replica: Replica) -> str:
    return as_url(make_conninfo(**conninfo_to_dict(own_database_url()) | {"host": replica.socket}))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "web.log"


@pytest.fixture
def web(running: Replica, log: Path) -> Iterator[Web]:
    with serving(log, DATABASE_REPLICA_URL=url_of(running), CARILLON_LOG_FORMAT="json") as server:
        yield server


def ready(web: Web) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(web.ask("/readyz").read())
    return told


def lines_of(log: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"].startswith("replica")]


def test_reads_history_on_the_replica_while_there_is_one(web: Web, running: Replica, log: Path) -> None:
    tenant = factories.make_tenant()
    _, key = create_api_key(tenant=tenant, name="tests", scopes=("read",))
    trigger = factories.make_trigger(factories.make_job(tenant), "succeeded")

    def ids() -> tuple[list[str], bool]:
        answer = web.ask("/api/v1/triggers", key=key, timeout=30)
        rows = json.loads(answer.read())["results"]
        return [row["id"] for row in rows], "Carillon-As-Of" in answer.headers

    everything = [str(trigger.id)]
    wait_until(lambda: ready(web)["replica"] == "ok", 30, what="the replica to be used")
    wait_until(lambda: ids() == (everything, True), 30, what="the replica to have the trigger")
    assert b"carillon_replica_up 1.0" in web.ask("/metrics").read()

    running.kill()
    assert ids() == (everything, False)
    wait_until(lambda: ready(web)["replica"] == "away", 30, what="the replica to be away")
    assert ready(web)["status"] == "degraded"
    assert ids() == (everything, False)

    running.revive()
    wait_until(lambda: ids() == (everything, True), 30, what="the replica to be used again")

    running.freeze()
    try:
        for _ in range(5):  # while no process knows yet, and when all do
            assert ids() == (everything, False)
    finally:
        running.thaw()
    wait_until(lambda: ready(web)["replica"] == "ok", 30, what="the replica to be used again")
    assert {line["event"] for line in lines_of(log)} == {"replica not used", "replica not used: over"}
    assert "Traceback" not in log.read_text()


@pytest.mark.parametrize("asked", ["replica", "primary"])
def test_manage_py_check_tells_a_replica_from_what_is_none(running: Replica, asked: str) -> None:
    url = url_of(running) if asked == "replica" else own_database_url()
    told = subprocess.run(
        [sys.executable, "manage.py", "check", "--database", "replica"],
        env=os.environ | {"DATABASE_URL": own_database_url(), "DATABASE_REPLICA_URL": url},
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == (0 if asked == "replica" else 1), told.stderr
    assert ("carillon.E001" in told.stderr) is (asked == "primary")
