"""``manage.py migrate``: one at a time, and never for long in front of sessions that use a table."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connections
from psycopg.errors import DiskFull, LockNotAvailable

from scheduler_project.management.commands import migrate
from stage.waiting import wait_until
from tests.upgrades.databases import migrate_beside, migrated, own_database

#: The table that the last migration of jobs changes. A reader holds it, in the migration's way.
TABLE, BEFORE, LAST = "auth_user", "0006_audit_trail", "0007_operators_on_the_trail"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with own_database() as url:
        yield url


@pytest.mark.slow
class TestTwoAtOnce:
    def test_make_the_schema_once_and_the_second_finds_nothing_to_do(self, url: str, tmp_path: Path) -> None:
        logs = [tmp_path / "one", tmp_path / "other"]
        running = [migrate_beside(url, log=log) for log in logs]
        assert [process.wait(timeout=600) for process in running] == [0, 0]
        second, first = sorted(
            (log.read_text() for log in logs), key=lambda text: "waiting for it" not in text
        )
        assert "waiting for it" in second
        assert "waiting for it" not in first
        assert "Applying jobs.0001_initial... OK" in first
        assert "No migrations to apply" in second
        assert "Applying" not in second


@pytest.mark.slow
class TestATableInUse:
    def test_is_waited_for_briefly_and_again(self, url: str, tmp_path: Path) -> None:
        """A reader, such as a dump, holds a table that the migration changes."""
        log = tmp_path / "log"
        migrated(url)
        with psycopg.connect(url) as reader:
            reader.execute(f"SELECT count(*) FROM {TABLE}")
            process = migrate_beside(url, "jobs", BEFORE, log=log)
            wait_until(lambda: log.read_text().count("A table is in use") >= 2, 240, what="two tries")
            assert process.poll() is None
            reader.rollback()
        assert process.wait(timeout=240) == 0
        with psycopg.connect(url) as reader:
            kept = "SELECT FROM django_migrations WHERE app = 'jobs' AND name = %s"
            assert reader.execute(kept, [LAST]).rowcount == 0
        assert re.search(rf"Unapplying jobs\.{LAST}\.\.\. OK", log.read_text().splitlines()[-1])

    def test_keeps_nobody_else_waiting_for_longer_than_a_try(self, url: str, tmp_path: Path) -> None:
        """Later sessions wait behind the statement that waits for its lock: 2 s, and not the 10 s of processes."""
        log = tmp_path / "log"
        migrated(url)
        with psycopg.connect(url) as holder, psycopg.connect(url, autocommit=True) as later:
            holder.execute(f"SELECT count(*) FROM {TABLE}")
            process = migrate_beside(url, "jobs", BEFORE, log=log)
            waiting = "SELECT FROM pg_locks WHERE NOT granted AND relation = %s::regclass"
            wait_until(lambda: later.execute(waiting, [TABLE]).rowcount, 240, what="the migration to wait")
            later.execute("SET statement_timeout = '8s'")
            later.execute(f"SELECT count(*) FROM {TABLE}")
            holder.rollback()
        assert process.wait(timeout=240) == 0


class TestTries:
    """Tries of Django's command, which fails as told."""

    @pytest.fixture(autouse=True)
    def _quick(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(migrate, "PAUSES", (0, 0))

    def fail(self, monkeypatch: pytest.MonkeyPatch, *causes: psycopg.Error) -> list[int]:
        """Each try fails by the next cause; then one succeeds. Returns a list that grows by one with each try."""
        tries: list[int] = []

        def handle(*_: object, **__: object) -> None:
            tries.append(1)
            if len(tries) <= len(causes):
                raise OperationalError from causes[len(tries) - 1]

        monkeypatch.setattr("django.core.management.commands.migrate.Command.handle", handle)
        return tries

    @pytest.mark.django_db(transaction=True)
    def test_end_with_the_first_that_succeeds(self, monkeypatch: pytest.MonkeyPatch) -> None:
        tries = self.fail(monkeypatch, LockNotAvailable("held"))
        call_command("migrate")
        assert len(tries) == 2

    @pytest.mark.django_db(transaction=True)
    def test_end_with_a_remedy_when_all_failed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        tries = self.fail(monkeypatch, *(LockNotAvailable("held"),) * 9)
        with pytest.raises(CommandError, match="pg_stat_activity"):
            call_command("migrate")
        assert len(tries) == 3

    @pytest.mark.django_db(transaction=True)
    def test_end_at_once_with_another_failure(self, monkeypatch: pytest.MonkeyPatch) -> None:
        tries = self.fail(monkeypatch, DiskFull("full"))
        with pytest.raises(OperationalError):
            call_command("migrate")
        assert len(tries) == 1

    @pytest.mark.django_db(transaction=True)
    def test_leave_the_waits_of_later_statements_as_they_were(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fail(monkeypatch, DiskFull("full"))
        for _ in range(2):
            with suppress(OperationalError):
                call_command("migrate")
        with connections["default"].cursor() as cursor:
            cursor.execute("SELECT current_setting('lock_timeout'), current_setting('statement_timeout')")
            assert cursor.fetchone() == ("10s", "30s")

    @pytest.mark.django_db(transaction=True)
    def test_wait_no_longer_for_a_lock_than_they_say(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[str] = []

        def handle(*_: object, **__: object) -> None:
            with connections["default"].cursor() as cursor:
                cursor.execute("SELECT current_setting('lock_timeout'), current_setting('statement_timeout')")
                seen.extend(cursor.fetchone())

        monkeypatch.setattr("django.core.management.commands.migrate.Command.handle", handle)
        call_command("migrate")
        assert seen == ["2s", "0"]

    @pytest.mark.django_db(transaction=True)
    def test_of_a_plan_need_no_turn(self, monkeypatch: pytest.MonkeyPatch) -> None:
        tries = self.fail(monkeypatch)
        with ExitStack() as held:
            session = held.enter_context(psycopg.connect(**migrate.parameters(connections["default"])))
            session.execute("SELECT pg_advisory_lock(%s, %s)", migrate.LOCK)
            call_command("migrate", "--plan")
            call_command("migrate", "--check")
        assert len(tries) == 2
