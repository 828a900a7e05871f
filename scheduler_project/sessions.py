"""Sessions with Postgres: their waits are bounded, and each is one process's own.

Bounds are set by SQL on each new connection, not by the startup parameter ``options``, which poolers refuse. A
session's settings and prepared statements must be there at its next statement: a pooler that gives sessions out by
transaction would lose them, or leave them to another client. So processes refuse to start behind one.
"""

from typing import Any

import psycopg
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.signals import connection_created

from jobs.store import db

#: A server or a lock that hangs must not hang us without end.
WAITS = {"statement_timeout": "30s", "idle_in_transaction_session_timeout": "60s", "lock_timeout": "10s"}
#: Parameters that only Django's own connections have.
_DJANGOS = ("cursor_factory", "context", "prepare_threshold")
_ROUNDS = 3


class SharedSessions(RuntimeError):
    """The message says what is wrong, and what would be right."""

    TEXT = (
        "Carillon needs sessions of its own, and the pooler in front of Postgres (DATABASE_URL) gives them out by "
        "transaction. Use pool_mode = session, or connect to Postgres itself."
    )

    def __init__(self) -> None:
        super().__init__(self.TEXT)


def bound_waits() -> None:
    """Bound the waits of every connection to Carillon's database from here on. May be repeated."""
    connection_created.connect(_bound, dispatch_uid="carillon-waits")


def _bound(connection: Any, **_: Any) -> None:
    if connection.alias != DEFAULT_DB_ALIAS:
        return
    said = str(connection.settings_dict["OPTIONS"].get("options", ""))
    waits = {name: value for name, value in WAITS.items() if name not in said}
    if waits:
        settings = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in waits.items())
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {settings}")


def parameters(connection: Any) -> dict[str, Any]:
    """By which psycopg makes a connection of its own to the database that Django's ``connection`` leads to."""
    known = connection.get_connection_params()
    return {name: value for name, value in known.items() if name not in _DJANGOS}


def refuse_shared_sessions() -> None:
    """Raise ``SharedSessions`` where a pooler gives sessions out by transaction. A database that is away is no answer.

    Two sessions at once have a server process each, and keep it.
    """
    known = parameters(connections[DEFAULT_DB_ALIAS])
    try:
        with (
            psycopg.connect(**known, autocommit=True) as ours,
            psycopg.connect(**known, autocommit=True) as other,
        ):
            shared = any(_is_shared(ours, other) for _ in range(_ROUNDS))
    except psycopg.Error as error:
        db.note_away(error, what="sessions")
        return
    if shared:
        raise SharedSessions


def _is_shared(ours: psycopg.Connection[Any], other: psycopg.Connection[Any]) -> bool:
    first = _backend(ours)
    # While its transaction is open a pooler by transaction cannot give this server process to us again.
    with other.transaction():
        taken = _backend(other)
    return taken == first or _backend(ours) != first


def _backend(session: psycopg.Connection[Any]) -> int:
    [(pid,)] = session.execute("SELECT pg_backend_pid()").fetchall()
    return int(pid)
