"""Reading archives: whether they are whole, and their rows back in a table."""

import hashlib

from django.db import connection
from psycopg import sql

from jobs.core.errors import Conflict
from jobs.store import db, partitions
from jobs.store.archive.place import Damaged, Manifest, Place
from jobs.store.archive.writing import columns_of, pages


def verify(manifest: Manifest, place: Place) -> None:
    """Read a whole archive. Raises ``Damaged`` where it differs from the archive that was written."""
    sha256, rows = hashlib.sha256(), 0
    for page in place.lines(manifest):
        for line in page:
            sha256.update(line + b"\n")
        rows += len(page)
    _check(manifest, rows=rows, sha256=sha256.hexdigest())


def restore(manifest: Manifest, place: Place) -> str:
    """Put the rows of an archive into a table of their own, which nothing but SQL reads. Returns its name.

    Raises ``Damaged``, also where the table no longer has a column of theirs, and ``Conflict`` where they are there
    already. Then nothing has changed.
    """
    if manifest.table not in {of.table for of in partitions.ALL}:
        raise Damaged(f"{manifest.name}: there is no table {manifest.table} of which it could be a part")
    name = f"restored_{manifest.partition}_{manifest.token}"
    if gone := manifest.columns.keys() - columns_of(manifest.table).keys():
        raise Damaged(
            f"{manifest.name}: {manifest.table} no longer has {', '.join(sorted(gone))}; restore it with "
            "the release "
            "that wrote it"
        )
    table = sql.Identifier(name)
    create = sql.SQL("CREATE TABLE {} AS SELECT {} FROM {} WITH NO DATA").format(
        table, sql.SQL(", ").join(map(sql.Identifier, manifest.columns)), sql.Identifier(manifest.table)
    )
    insert = sql.SQL(
        "INSERT INTO {table} SELECT r.* FROM unnest(%s::text[]) AS line,"
        " json_populate_record(NULL::{table}, line::json) r"
    ).format(table=table)
    with db.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [name])
        if cursor.fetchone()[0]:
            raise Conflict(f"There is already a table {name}: DROP TABLE {name}; then restore it again.")
        cursor.execute(create)
        for page in place.lines(manifest):
            cursor.execute(insert, [[line.decode() for line in page]])
        key = sql.SQL(", ").join(map(sql.Identifier, manifest.key))
        cursor.execute(sql.SQL("CREATE INDEX ON {} ({})").format(table, key))
        sha256, rows = hashlib.sha256(), 0
        for restored in pages(name, manifest.key):
            sha256.update("".join(f"{line}\n" for line in restored).encode())
            rows += len(restored)
        _check(manifest, rows=rows, sha256=sha256.hexdigest())
    return name


def _check(manifest: Manifest, *, rows: int, sha256: str) -> None:
    if rows != manifest.rows:
        raise Damaged(f"{manifest.name}: it has {rows:,} rows, and {manifest.rows:,} were written")
    if sha256 != manifest.sha256:
        raise Damaged(f"{manifest.name}: its rows are not those that were written")
