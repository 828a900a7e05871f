"""``manage.py migrate``: Django's, one at a time for a database, and without keeping claims waiting behind a lock.

A statement that changes a table waits for all sessions that use the table, and later sessions wait behind that
statement. So it waits ``LOCK_TIMEOUT`` at most. Then its migration is undone, and begun again after a pause in which
the other sessions go on. A migration that is not atomic must bear that (CONTRIBUTING, "Migrations"). Statements may
take as long as they need.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import OperationalError, connections
from psycopg.errors import DeadlockDetected, LockNotAvailable

from jobs.own_session import parameters
from scheduler_project.sessions import SharedSessions, go_past_pooler

#: How long a statement that waits for a lock may keep claims waiting.
LOCK_TIMEOUT = "2s"
WAITS = {"lock_timeout": LOCK_TIMEOUT, "statement_timeout": "0", "idle_in_transaction_session_timeout": "0"}
#: Pauses between tries, in seconds: some six minutes in all.
PAUSES = (1, 2, 4, 8, *(15,) * 22)
#: Two 32-bit keys of the advisory lock: "carillon", and the migrations.
LOCK = (0x6361_7269, 1)
LOOK_AGAIN_SECONDS = 1.0
_ASK = "SELECT pg_try_advisory_lock(%s, %s)"


class Command(migrate.Command):
    help = f"{migrate.Command.help} One runs at a time; tables are locked for {LOCK_TIMEOUT} at most."

    def handle(self, *args: Any, **options: Any) -> None:
        if options["plan"] or options["check_unapplied"]:  # these change nothing
            super().handle(*args, **options)
            return
        try:
            go_past_pooler()
        except SharedSessions as error:
            raise CommandError(str(error)) from error
        connection = connections[options["database"]]
        with self._turn(connection), waits(connection):
            for pause in (*PAUSES, None):
                try:
                    super().handle(*args, **options)
                    return
                except OperationalError as error:
                    self._pause(error, pause)

    def _pause(self, error: OperationalError, seconds: int | None) -> None:
        """Wait until another try makes sense. Raises ``error`` again, or ``CommandError`` after the last try."""
        if not isinstance(error.__cause__, LockNotAvailable | DeadlockDetected):
            raise error
        if seconds is None:
            raise CommandError(
                "A table was in use at each try. The migrations that had run stay. Look for the oldest "
                "xact_start in pg_stat_activity, end the session that holds the table (a dump, a report), "
                "and run migrate again."
            ) from error
        self.stdout.write(f"A table is in use ({error.__cause__}); again in {seconds} s.".replace("\n", " "))
        self.stdout.flush()
        time.sleep(seconds)

    @contextmanager
    def _turn(self, connection: Any) -> Iterator[None]:
        """Wait until no other ``migrate`` runs on this database. The lock always ends with its session.

        The lock is polled, never waited for. CREATE INDEX CONCURRENTLY of the other ``migrate`` waits for all
        statements that were under way when it began, so it would also wait for a statement that waits for the lock.
        """
        with psycopg.connect(**parameters(connection), autocommit=True) as session:
            told = False
            while not session.execute(_ASK, LOCK).fetchall()[0][0]:
                if not told:
                    self.stdout.write("Another migrate is running on this database; waiting for it.")
                    self.stdout.flush()
                told = True
                time.sleep(LOOK_AGAIN_SECONDS)
            yield


@contextmanager
def waits(connection: Any) -> Iterator[None]:
    """Give the connection the waits of migrations. It is closed at the end, so the next one has its own waits again."""
    with connection.cursor() as cursor:
        for name, value in WAITS.items():
            cursor.execute("SELECT set_config(%s, %s, false)", [name, value])
    try:
        yield
    finally:
        connection.close()
