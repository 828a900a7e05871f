"""The application's database role: it can do all that beats, workers and services do, and cannot undo the trail.

The owner's role makes the tables and grants (``manage.py migrate``, then ``grant_roles``); processes run under the
application's role. This one reads the audit trail and appends to it, without a choice of place or number. It cannot
change, delete or truncate a row of the trail or of its checkpoints. It cannot switch off the triggers that write the
trail, because it owns neither these tables nor those that the triggers are on. It owns the tables that are partitioned
by time, because beats make and drop their partitions (ADR 3).
"""

from datetime import timedelta
from typing import Any

from django.db import connection
from psycopg import sql

from jobs.store import db, partitions

#: Tables that the application may only read and append to, in these columns alone.
APPENDED = {
    "jobs_change": "at, tenant_id, kind, object_id, name, action, actor_kind, actor, changes",
    "jobs_trailcheckpoint": (
        "number, after_xid, upto_xid, changes, digest, last_at, made_at, previous, key_id, seal"
    ),
}
#: Tables that it may only read.
READ = ("django_migrations",)
PARTITIONS = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = %s::regclass"
GRANTS = (
    "GRANT CONNECT, TEMPORARY ON DATABASE {database} TO {role}",
    "GRANT USAGE, CREATE ON SCHEMA {schema} TO {role}",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}",
    "GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA {schema} TO {role}",
    "GRANT EXECUTE ON FUNCTION carillon_purge_trail(interval, bigint) TO {role}",
    # The lower bound of that purge, even if its caller asks for less.
    "CREATE OR REPLACE FUNCTION carillon_trail_floor() RETURNS interval LANGUAGE sql IMMUTABLE "
    "BEGIN ATOMIC SELECT make_interval(days => {days}); END",
    # So that later migrations may alter the tables that the application owns.
    "GRANT {role} TO {owner}",
)


class NotSeparate(Exception):
    """The role could lift its own limits: it is a superuser, the owner or one of its members, or may create roles."""


def grant(*, role: str, password: str | None, retention: timedelta) -> None:
    """Make ``role`` the application's, with ``password`` to log in by if given. In one transaction; may be repeated.

    ``retention``: younger changes of the trail may not be purged. Raises ``NotSeparate``.
    """
    with db.atomic():
        _make(role, password)
        _refuse_who_owns(role)
        for statement in GRANTS:
            _run(statement, role, days=sql.Literal(retention.days))
        for table in (*APPENDED, *READ):
            _run("REVOKE ALL ON {table} FROM {role}", role, table=sql.Identifier(table))
            _run("GRANT SELECT ON {table} TO {role}", role, table=sql.Identifier(table))
        for table, columns in APPENDED.items():
            _run(f"GRANT INSERT ({columns}) ON {{table}} TO {{role}}", role, table=sql.Identifier(table))
        for partitioned in partitions.ALL:
            of_it = [name for (name,) in _rows(PARTITIONS, partitioned.table)]
            for table in (partitioned.table, *of_it):
                _run("ALTER TABLE {table} OWNER TO {role}", role, table=sql.Identifier(table))


def _make(role: str, password: str | None) -> None:
    known = _rows("SELECT FROM pg_roles WHERE rolname = %s", role)
    if not known:
        _run("CREATE ROLE {role} NOSUPERUSER NOCREATEDB NOCREATEROLE", role)
    if password:
        # Encrypted before it is sent: neither the server's log nor its statistics must hold the password.
        pgconn = connection.connection.pgconn
        encrypted = pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
        _run("ALTER ROLE {role} LOGIN PASSWORD {password}", role, password=sql.Literal(encrypted))


def _refuse_who_owns(role: str) -> None:
    [(separate,)] = _rows(
        "SELECT NOT rolsuper AND NOT rolcreaterole AND NOT pg_has_role(rolname, current_user, 'MEMBER') "
        "AND rolname <> current_user FROM pg_roles WHERE rolname = %s",
        role,
    )
    if not separate:
        raise NotSeparate(
            f"{role} could undo what is kept from it: name a role that is neither superuser nor owner"
        )


def _run(statement: str, role: str, **parts: sql.Composable) -> None:
    [(database, schema, owner)] = _rows("SELECT current_database(), current_schema(), current_user")
    named = {"database": database, "schema": schema, "owner": owner, "role": role}
    identifiers = {name: sql.Identifier(text) for name, text in named.items()}
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL(statement).format(**identifiers, **parts))


def _rows(statement: str, *parameters: Any) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters or None)
        return list(cursor.fetchall())
