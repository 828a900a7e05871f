"""Sessions with Postgres: which pooler they come from, and that their waits are bounded.

A session's settings and prepared statements must be there at its next statement. A pooler that gives sessions out by
transaction would lose them, or leave them to another client. Web processes and workers can do without
(``CARILLON_POOLER=transaction``); beats and commands connect to Postgres itself (``DATABASE_DIRECT_URL``). A process
that meets such a pooler where it was not told of one refuses to start.
"""

from typing import Any

import psycopg
from django.conf import settings
from django.db import connections
from django.db.backends.signals import connection_created

from jobs.own_session import parameters
from jobs.store import db
from jobs.store.db.routing import PRIMARY, REPLICA

#: A server or a lock that hangs must not hang us without end.
WAITS = {"statement_timeout": "30s", "idle_in_transaction_session_timeout": "60s", "lock_timeout": "10s"}
_ROUNDS = 3


class SharedSessions(RuntimeError):
    """The message says what is wrong, and what would be right."""

    TEXT = (
        "The pooler in front of Postgres (DATABASE_URL) gives sessions out by transaction. Set "
        "CARILLON_POOLER=transaction, and DATABASE_DIRECT_URL to the URL of Postgres itself; or use pool_mode = "
        "session, or connect to Postgres itself."
    )
    OF_REPLICA = (
        "The pooler in front of the replica (DATABASE_REPLICA_URL) gives sessions out by transaction, and "
        "CARILLON_POOLER does not say so, which is for both servers. Connect to the replica itself, or use pool_mode = "
        "session."
    )
    DIRECT = (
        "Beats need sessions of their own, and DATABASE_DIRECT_URL leads to a pooler that gives them out by "
        "transaction. Set it to the URL of Postgres itself."
    )


def bound_waits() -> None:
    """Bound the waits of every connection to Carillon's database, or its replica, from here on. May be repeated."""
    connection_created.connect(_bound, dispatch_uid="carillon-waits")


def _bound(connection: Any, **_: Any) -> None:
    if connection.alias not in (PRIMARY, REPLICA):
        return
    said = str(connection.settings_dict["OPTIONS"].get("options", ""))
    connection.configure({name: value for name, value in WAITS.items() if name not in said})


def go_through_pooler() -> None:
    """Have this process connect by ``DATABASE_URL`` from here on, where that is a pooler's. Raises ``SharedSessions``
    where sessions of its own were promised it, of the replica too.
    """
    if settings.POOLED_DATABASE:
        connections.settings[PRIMARY].update(settings.POOLED_DATABASE)
    if settings.PLATFORM.pooler != "transaction":
        _refuse_shared_sessions(SharedSessions.TEXT)
        if REPLICA in connections.settings:
            _refuse_shared_sessions(SharedSessions.OF_REPLICA, alias=REPLICA)


def go_past_pooler() -> None:
    """Raise ``SharedSessions`` unless this process, which stays with Postgres itself, has sessions of its own."""
    _refuse_shared_sessions(SharedSessions.DIRECT if settings.POOLED_DATABASE else SharedSessions.TEXT)


def _refuse_shared_sessions(text: str, *, alias: str = PRIMARY) -> None:
    """A database that is away is no answer. Two sessions at once have a server process each, and keep it."""
    known = parameters(connections[alias])
    try:
        with (
            psycopg.connect(**known, autocommit=True) as ours,
            psycopg.connect(**known, autocommit=True) as other,
        ):
            shared = any(_is_shared(ours, other) for _ in range(_ROUNDS))
    except psycopg.Error as error:
        if alias == PRIMARY:  # who watches the replica tells of that one
            db.note_away(error, what="sessions")
        return
    if shared:
        raise SharedSessions(text)


def _is_shared(ours: psycopg.Connection[Any], other: psycopg.Connection[Any]) -> bool:
    first = _backend(ours)
    # While its transaction is open a pooler by transaction cannot give this server process to us again.
    with other.transaction():
        taken = _backend(other)
    return taken == first or _backend(ours) != first


def _backend(session: psycopg.Connection[Any]) -> int:
    [(pid,)] = session.execute("SELECT pg_backend_pid()").fetchall()
    return int(pid)
