"""Compares the database's schema at a process's start: an older schema is refused or logged, a newer one is logged.

Beats and workers would fail with each statement that names a column that the database lacks, so they do not start. A
web process stays, since ``/readyz`` must report it. No requests are routed to that process; it is ready as soon as
``migrate`` has run.
"""

import psycopg
from django.db import DEFAULT_DB_ALIAS, connections

from jobs.own_session import parameters
from jobs.store import db
from jobs.store.insight import schema
from jobs.telemetry import get_logger
from jobs.telemetry.release import version

log = get_logger()


class OlderSchema(RuntimeError):
    """The message names the migrations that the database lacks, and says how to go on."""

    def __init__(self, lacks: tuple[str, ...]) -> None:
        more = f" and {len(lacks) - 3} more" if len(lacks) > 3 else ""
        super().__init__(
            f"The database's schema is older than Carillon {version()}: it lacks {', '.join(lacks[:3])}{more}. Run "
            "manage.py migrate of this release first."
        )


def refuse_older_schema() -> None:
    """Raise ``OlderSchema`` where the database lacks a migration. A database that is away proves nothing."""
    try:
        with psycopg.connect(**parameters(connections[DEFAULT_DB_ALIAS]), autocommit=True) as probe:
            found = schema.compare(probe)
    except psycopg.Error as error:
        db.note_away(error, what="schema")
        return
    if found.lacks:
        raise OlderSchema(found.lacks)
    if found.unknown:
        log.warning("schema newer than the code", version=version(), unknown=list(found.unknown))
