"""Sessions with Postgres: which pooler they come from, and the bounds of their waits.

A session's settings and prepared statements must still be there at its next statement. A pooler that gives sessions out
by transaction would lose them, or leave them to another client. Web processes and workers can do without them
(``CARILLON_POOLER=transaction``); beats and commands connect to Postgres itself (``DATABASE_DIRECT_URL``). A process
that finds such a pooler where its settings name none refuses to start.
"""

from typing import Any

import psycopg
from django.conf import settings
from django.db import connections
from django.db.backends.signals import connection_created

from jobs.own_session import parameters
from jobs.store import db
from jobs.store.db.routing import PRIMARY, REPLICA

#: A server or a lock that hangs must not hang this process forever.
WAITS = {"statement_timeout": "30s", "idle_in_transaction_session_timeout": "60s", "lock_timeout": "10s"}
_ROUNDS = 3


class SharedSessions(RuntimeError):
    """The message says which setting is wrong, and how to correct it."""

    TEXT = (
        "The pooler in front of Postgres (DATABASE_URL) assigns a session per transaction. Set "
        "CARILLON_POOLER=transaction, and DATABASE_DIRECT_URL to the URL of Postgres itself; or use "
        "pool_mode = session, or connect to Postgres itself."
    )
    OF_REPLICA = (
        "The pooler in front of the replica (DATABASE_REPLICA_URL) assigns a session per transaction, but "
        "CARILLON_POOLER, which applies to both servers, says otherwise. Connect to the replica itself, or "
        "use pool_mode = session."
    )
    DIRECT = (
        "Beats need their own sessions, but DATABASE_DIRECT_URL leads to a pooler that assigns a session per "
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
    """Make this process connect by ``DATABASE_URL`` from here on, where that is a pooler's URL. Raises
    ``SharedSessions`` where the settings promise it sessions of its own and the pooler shares them, also for the
    replica.
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
    """Two unshared sessions at once have a server process each, and keep it. A database that is away proves nothing."""
    known = parameters(connections[alias])
    try:
        with (
            psycopg.connect(**known, autocommit=True) as ours,
            psycopg.connect(**known, autocommit=True) as other,
        ):
            shared = any(_is_shared(ours, other) for _ in range(_ROUNDS))
    except psycopg.Error as error:
        if alias == PRIMARY:  # the watch of the replica reports a replica that is away
            db.note_away(error, what="sessions")
        return
    if shared:
        raise SharedSessions(text)


def _is_shared(ours: psycopg.Connection[Any], other: psycopg.Connection[Any]) -> bool:
    first = _backend(ours)
    # While the other transaction is open, a pooler by transaction cannot give its server process to our session again.
    with other.transaction():
        taken = _backend(other)
    return taken == first or _backend(ours) != first


def _backend(session: psycopg.Connection[Any]) -> int:
    [(pid,)] = session.execute("SELECT pg_backend_pid()").fetchall()
    return int(pid)
