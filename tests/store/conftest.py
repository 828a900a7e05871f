"""Fixtures of the store's tests: tables as the planner has never seen them."""

from django.db import connection

#: Planners take rows to be as ``ANALYZE`` last found them, even in another test: autovacuum may have run. The same is
#: true of partitions, which hold the rows.
FORGET = """
    SELECT pg_clear_attribute_stats(schemaname::text, tablename::text, attname::text, inherited)
    FROM pg_stats
    WHERE tablename = ANY(%(tables)s)
       OR (schemaname || '.' || tablename)::regclass IN (
          SELECT inhrelid FROM pg_inherits WHERE inhparent = ANY(%(tables)s::regclass[]))
"""


def make_new(*tables: str) -> None:
    """Empty the tables: earlier tests left them larger than their rows, and plans depend on size.

    From Postgres 18 on, forget their statistics, too.
    """
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {', '.join(tables)} CASCADE")
        if connection.pg_version >= 180000:
            cursor.execute(FORGET, {"tables": list(tables)})
