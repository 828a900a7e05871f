"""Emptying the database after a test that commits: as empty as after Django's ``flush``, for a fraction of the time.

``flush`` truncates every table, with all its indexes, and makes all content types and permissions again. This module
truncates only tables that have a file on disk, and those that point to them. Content types and permissions stay.
"""

from functools import cache
from typing import Any

from django.db import connection

from jobs.store import partitions

#: Migrations make their rows; no test changes them.
KEPT = ("django_content_type", "auth_permission")
#: An empty file means that no row was written since the last time, not even by a test that was rolled back.
WRITTEN = """
    SELECT string_agg(c.oid::regclass::text, ', ') FROM pg_class c
    WHERE c.relkind = 'r' AND coalesce(pg_partition_root(c.oid), c.oid)::regclass::text = ANY(%s)
        AND pg_relation_size(c.oid) > 0"""


@cache
def tables() -> list[str]:
    """The tables of Django's models, and the table of the attempts, which Carillon makes."""
    names = {*connection.introspection.django_table_names(only_existing=True, include_views=False)}
    return sorted(names - {*KEPT} | {partitions.ATTEMPTS.table})


def empty_tables(*_: Any) -> None:
    """Delete every row that a test committed. Stands in for ``TransactionTestCase._fixture_teardown``."""
    with connection.cursor() as cursor:
        cursor.execute(WRITTEN, [tables()])
        [(written,)] = cursor.fetchall()
        if written:
            cursor.execute(f"TRUNCATE {written} CASCADE")
