"""Turns a Postgres URL into an entry of Django's ``DATABASES``."""

from typing import Any

from psycopg.conninfo import conninfo_to_dict

#: Every wait for the network ends.
_BOUNDED = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
    "application_name": "carillon",
}


def django_database(url: str, *, called: str = "", **bounds: int) -> dict[str, Any]:
    """The entry for ``url``. ``called``: the name that Postgres has for the database; a pooler may have another one.
    ``bounds``: parameters of the connection in place of the usual ones. Parameters of the URL override both.

    Waits for the server are bounded by ``scheduler_project.sessions``.
    """
    options: dict[str, Any] = dict(conninfo_to_dict(url))
    known = {key: str(options.pop(key, None) or "") for key in ("dbname", "user", "password", "host", "port")}
    return {
        "ENGINE": "scheduler_project.database",
        "NAME": known["dbname"] or "postgres",
        "USER": known["user"],
        "PASSWORD": known["password"],
        "HOST": known["host"],
        "PORT": known["port"],
        "CONN_MAX_AGE": 600,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": _BOUNDED | bounds | options,
        "CALLED": called,
    }
