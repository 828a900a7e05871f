"""A session with Postgres beside Django's, for a thread that listens or that exchanges rate limits.

It commits each statement by itself, and the caller must bound its waits. Only the caller uses it. It goes past a
pooler, because a pooler by transaction would lose the channels that are listened to.
"""

import math
from typing import Any

import psycopg
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections

#: Parameters that only Django's own connections have.
_DJANGOS = ("cursor_factory", "context", "prepare_threshold")


def parameters(connection: Any) -> dict[str, Any]:
    """The parameters by which psycopg makes its own connection to the database of Django's ``connection``."""
    known = connection.get_connection_params()
    return {name: value for name, value in known.items() if name not in _DJANGOS}


def own_session(*, timeout_seconds: float, alias: str = DEFAULT_DB_ALIAS) -> psycopg.Connection[Any]:
    """Connect to Carillon's database within ``timeout_seconds``; sent data may also stay unreceived for as long.

    ``alias``: the server's. For a replica no way past a pooler is known. Raises ``psycopg.Error``.
    """
    ours = connections[alias]
    past = settings.DIRECT_DATABASE if alias == DEFAULT_DB_ALIAS else {}
    direct = type(ours)({**ours.settings_dict, **past}, alias)
    bounded = {
        "connect_timeout": math.ceil(timeout_seconds),
        "tcp_user_timeout": round(timeout_seconds * 1000),
    }
    return psycopg.connect(**parameters(direct) | bounded, autocommit=True)
