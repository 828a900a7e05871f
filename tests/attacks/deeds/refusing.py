"""Ways to make the database refuse a row: its error then tells of the row."""

from typing import Any

from django.db import connection


def violate(text: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE jobs_job SET status_reason = %s, max_concurrent = -1", [text])


class refusing:
    """A CHECK that new rows of a table must meet."""

    def __init__(self, table: str, check: str) -> None:
        self._add = f"ALTER TABLE {table} ADD CONSTRAINT canary CHECK ({check}) NOT VALID"
        self._drop = f"ALTER TABLE {table} DROP CONSTRAINT canary"

    def __enter__(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(self._add)

    def __exit__(self, *_: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(self._drop)
