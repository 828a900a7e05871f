"""Rows by the million: one ``INSERT … SELECT`` a chunk. Columns that are not given have the model's own defaults."""

from typing import Any

from django.db import connection, models
from psycopg import sql

from benchmarks.stage import Stage

CHUNK = 100_000


def grow(
    stage: Stage, model: type[models.Model], count: int, *, what: str, source: str = "", **columns: Any
) -> Any:
    """Insert ``count`` rows in one transaction. Returns the database's clock just before they became visible.

    A column is a value, or ``psycopg.sql`` that may use the row's number ``n`` (from 0 on) and the tables that
    ``source`` joins to it (SQL that follows ``FROM generate_series(…) n``).
    """
    given = {model._meta.get_field(name).column: value for name, value in columns.items()}
    names, values = zip(*(_defaults(model) | given).items(), strict=True)
    insert = sql.SQL(
        "INSERT INTO {table} ({names}) SELECT {values} FROM generate_series({low}, {high}) n {source}"
    )
    parts = {
        "table": sql.Identifier(model._meta.db_table),
        "names": sql.SQL(", ").join(map(sql.Identifier, names)),
        "values": sql.SQL(", ").join(
            value if isinstance(value, sql.Composable) else sql.Literal(value) for value in values
        ),
        "source": sql.SQL(source),
    }
    with stage.db.transaction():
        # Deferred checks of millions of rows would all wait in memory for the commit, and delay it.
        stage.db.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for low in range(0, count, CHUNK):
            stage.say(f"{what}: {low:,} of {count:,}")
            high = min(count, low + CHUNK) - 1
            stage.db.execute(insert.format(**parts, low=sql.Literal(low), high=sql.Literal(high)))
        return stage.value("SELECT clock_timestamp()")


def _defaults(model: type[models.Model]) -> dict[str, Any]:
    """Column -> value of every field with a default, without the key and columns that the database itself fills in."""
    return {
        field.column: field.get_db_prep_save(field.get_default(), connection)
        for field in model._meta.concrete_fields
        if not (field.primary_key or field.generated) and (field.has_default() or _takes_empty_text(field))
    }


def _takes_empty_text(field: Any) -> bool:
    return (
        isinstance(field, models.CharField | models.TextField) and field.blank and not field.has_db_default()
    )
