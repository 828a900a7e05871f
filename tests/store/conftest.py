"""What the store's tests share: tables as the planner has never seen them."""

from django.db import connection

#: Planners take rows for what ``ANALYZE`` found last, be it in another test: autovacuum may have
#: come by. So of partitions, where their rows are.
FORGET = """
    SELECT pg_clear_attribute_stats(schemaname::text, tablename::text, attname::text, inherited)
    FROM pg_stats
    WHERE tablename = ANY(%(tables)s)
       OR (schemaname || '.' || tablename)::regclass IN (
          SELECT inhrelid FROM pg_inherits WHERE inhparent = ANY(%(tables)s::regclass[]))
"""


def make_new(*tables: str) -> None:
    """Empty the tables: what earlier tests left makes them larger than their rows, and plans look at size.

    From Postgres 18 on, forget what is known of them too.
    """
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {', '.join(tables)} CASCADE")
        if connection.pg_version >= 180000:
            cursor.execute(FORGET, {"tables": list(tables)})
