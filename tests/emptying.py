"""How a test that commits leaves the database: as empty as Django's ``flush`` does, for a fraction of the time.

``flush`` truncates every table, with all its indexes, and makes all content types and permissions again. Here only
tables that have a file on disk are truncated, and those that point to them; content types and permissions stay.
"""

from functools import cache
from typing import Any

from django.db import connection

from jobs.store import partitions

#: Migrations make them, no test changes them.
KEPT = ("django_content_type", "auth_permission")
#: An empty file means that no row was written since the last time, not even by a test that was rolled back.
WRITTEN = """
    SELECT string_agg(c.oid::regclass::text, ', ') FROM pg_class c
    WHERE c.relkind = 'r' AND coalesce(pg_partition_root(c.oid), c.oid)::regclass::text = ANY(%s)
        AND pg_relation_size(c.oid) > 0"""


@cache
def tables() -> list[str]:
    """Those of Django's models, and that of the attempts, which is ours."""
    names = {*connection.introspection.django_table_names(only_existing=True, include_views=False)}
    return sorted(names - {*KEPT} | {partitions.ATTEMPTS.table})


def empty_tables(*_: Any) -> None:
    """Delete every row that a test committed. Stands in for ``TransactionTestCase._fixture_teardown``."""
    with connection.cursor() as cursor:
        cursor.execute(WRITTEN, [tables()])
        [(written,)] = cursor.fetchall()
        if written:
            cursor.execute(f"TRUNCATE {written} CASCADE")
