"""A database whose schema is older than the code, as before ``migrate``, or newer, as during an upgrade."""

import os
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client

from jobs.store.insight import schema
from stage.processes import BEAT, CELERY, free_port, start_python
from stage.waiting import wait_until
from tests.cluster.stage import own_database_url

pytestmark = pytest.mark.django_db(transaction=True)
LAST = max(name for app, name in schema.on_disk() if app == "jobs")


def record(statement: str, name: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, [name])


@pytest.fixture
def older() -> Iterator[None]:
    record("DELETE FROM django_migrations WHERE app = 'jobs' AND name = %s", LAST)
    yield
    record("INSERT INTO django_migrations (app, name, applied) VALUES ('jobs', %s, now())", LAST)


@pytest.fixture
def newer() -> Iterator[None]:
    record("INSERT INTO django_migrations (app, name, applied) VALUES ('jobs', %s, now())", "9999_later")
    yield
    record("DELETE FROM django_migrations WHERE app = 'jobs' AND name = %s", "9999_later")


def start(*argv: str, log: Path) -> "subprocess.Popen[bytes]":
    environment = os.environ | {"DATABASE_URL": own_database_url(), "WEB_CONCURRENCY": "1"}
    return start_python(argv, environment=environment, log=log)


class TestReadyz:
    def test_is_a_503_with_the_remedy_where_the_schema_is_older(self, older: None) -> None:
        response = Client().get("/readyz")
        report = response.json()
        assert (response.status_code, report["status"]) == (503, "unavailable")
        assert (report["database"], report["schema"]) == ("ok", "older")
        assert "manage.py migrate" in report["reason"]

    def test_is_ready_where_the_schema_is_newer(self, newer: None) -> None:
        response = Client().get("/readyz")
        assert (response.status_code, response.json()["schema"]) == (200, "newer")
        assert response.json()["status"] == "ok"


class TestAProcess:
    WORKER = (*CELERY, "worker", "-P", "solo", "-n", "early@%h")

    @pytest.mark.parametrize("command", [WORKER, BEAT], ids=["worker", "beat"])
    def test_that_would_work_with_an_older_schema_does_not_start(
        self, older: None, tmp_path: Path, command: tuple[str, ...]
    ) -> None:
        process = start(*command, log=tmp_path / "log")
        assert process.wait(timeout=120) != 0
        said = (tmp_path / "log").read_text()
        assert f"it lacks jobs.{LAST}. Run manage.py migrate" in said
        assert "Traceback" not in said

    def test_that_serves_the_api_stays_says_so_and_is_not_ready(self, older: None, tmp_path: Path) -> None:
        port = free_port()
        web = ("-m", "gunicorn", "scheduler_project.wsgi:application", "--bind", f"127.0.0.1:{port}")
        process = start(*web, log=tmp_path / "log")

        def status() -> int:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
                    return int(answer.status)
            except urllib.error.HTTPError as error:
                return error.code
            except OSError:
                return 0

        try:
            assert wait_until(status, 60, what="the web process to answer") == 503
            assert "schema older than the code" in (tmp_path / "log").read_text()
            record("INSERT INTO django_migrations (app, name, applied) VALUES ('jobs', %s, now())", LAST)
            wait_until(lambda: status() == 200, 20, what="it to be ready once the migrations have run")
            record("DELETE FROM django_migrations WHERE app = 'jobs' AND name = %s", LAST)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)

    def test_of_the_release_before_goes_on_with_a_newer_schema_and_says_so(
        self, newer: None, tmp_path: Path
    ) -> None:
        log = tmp_path / "log"
        process = start(*BEAT, log=log)
        try:
            wait_until(lambda: "schema newer than the code" in log.read_text(), 60, what="the beat's line")
            wait_until(self.leads, 60, what="the beat to lead")
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=60) == 0

    @staticmethod
    def leads() -> bool:
        with connection.cursor() as cursor:
            cursor.execute("SELECT FROM jobs_lease WHERE name = 'leader' AND expires_at > clock_timestamp()")
            return bool(cursor.rowcount)
