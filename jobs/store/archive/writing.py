"""Writing archives: a page of rows at a time, so that nothing waits and no snapshot grows old."""

import hashlib
import secrets
from collections.abc import Generator, Iterator, Sequence
from typing import Any

from django.db import connection
from psycopg import sql

from jobs.core.instants import instant_text
from jobs.store import db
from jobs.store.archive.place import Manifest, Place
from jobs.store.partitions import Partition
from tenants.clock import database_now

#: Rows that are read at once; one may be 64 KiB and more.
PAGE = 1_000
#: Rows that are counted at once; only their key is read.
COUNTED = 500_000
_COLUMNS = """
    SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute
    WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""


def write(partition: Partition, place: Place) -> Generator[int, None, Manifest]:
    """Write all rows of a partition, one page per step, then its manifest. Yields how many rows are written so far, and
    returns the manifest.

    Raises ``FAULTS`` where the place does not take them; then there is no archive.
    """
    of, name = partition.of, partition.name
    token = secrets.token_hex(4)
    sha256, rows = hashlib.sha256(), 0
    with place.writing(of.table, f"{name}.{token}") as file:
        for page in pages(name, of.key):
            lines = "".join(f"{line}\n" for line in page).encode()
            file.write(lines)
            sha256.update(lines)
            rows += len(page)
            yield rows
    manifest = Manifest(
        table=of.table,
        partition=name,
        token=token,
        since=instant_text(partition.since),
        until=instant_text(partition.until),
        rows=rows,
        size=place.size(of.table, f"{name}.{token}"),
        sha256=sha256.hexdigest(),
        key=of.key,
        columns=columns_of(name),
        written_at=instant_text(database_now()),
    )
    place.keep(manifest)
    return manifest


def is_whole(manifest: Manifest) -> bool:
    """Whether the partition has just as many rows as its archive: none came while it was written."""
    table = sql.Identifier(manifest.partition)
    walk, rows = _Walk(manifest.partition, manifest.key), 0
    count = sql.SQL(
        "WITH page AS (SELECT {columns} FROM {table} {beyond} ORDER BY {columns} LIMIT {limit}) "
        "SELECT (SELECT count(*) FROM page), {found} FROM page ORDER BY {last} LIMIT 1"
    )
    while page := walk.page(count, table=table, limit=COUNTED):
        rows += page[0][0]
        if page[0][0] < COUNTED:
            break
    return rows == manifest.rows


def columns_of(table: str) -> dict[str, str]:
    """name -> type, in order."""
    with db.atomic(), connection.cursor() as cursor:
        cursor.execute(_COLUMNS, [table])
        return dict(cursor.fetchall())


def pages(table: str, key: Sequence[str]) -> Iterator[list[str]]:
    """The rows of a table as JSON, a page at a time, in the order of its key."""
    walk = _Walk(table, key)
    read = sql.SQL(
        "SELECT row_to_json(t)::text, {found} FROM {table} t {beyond} ORDER BY {columns} LIMIT {limit}"
    )
    while page := walk.page(read, table=sql.Identifier(table), limit=PAGE):
        yield [line for line, *_ in page]
        if len(page) < PAGE:
            return


class _Walk:
    """Goes from page to page of a table in its key's order. A statement gives one column, then the key as ``found``."""

    def __init__(self, table: str, key: Sequence[str]) -> None:
        types = columns_of(table)
        names = [sql.Identifier(column) for column in key]
        comma = sql.SQL(", ")
        self._columns = comma.join(names)
        self._last = comma.join(sql.SQL("{} DESC").format(name) for name in names)
        self._found = comma.join(sql.SQL("{}::text").format(name) for name in names)
        self._values = comma.join(sql.SQL("{}::" + types[column]).format(sql.Placeholder()) for column in key)
        self._after: Sequence[str] = ()

    def page(self, statement: sql.SQL, **parts: Any) -> list[Any]:
        """The rows that the statement finds beyond the page before."""
        beyond = (
            sql.SQL("WHERE ({}) > ({})").format(self._columns, self._values) if self._after else sql.SQL("")
        )
        own = {"columns": self._columns, "last": self._last, "found": self._found, "beyond": beyond}
        with db.atomic(), connection.cursor() as cursor:
            cursor.execute(statement.format(**own, **parts), self._after)
            rows: list[Any] = cursor.fetchall()
        if rows:
            self._after = rows[-1][1:]
        return rows
