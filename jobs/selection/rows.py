"""A queryset's results as plain rows, for pages that only show them: a page of models costs four times as much."""

from collections import namedtuple
from collections.abc import Iterator
from functools import cache
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import QuerySet
from django.db.models.query import BaseIterable

from jobs.store.db.values import read_fast


def as_rows(queryset: QuerySet[Any]) -> QuerySet[Any]:
    """The same rows, each a named tuple of its columns as the store's own queries give them.

    It may be filtered, ordered and cut further, like any queryset.
    """
    rows: Any = queryset.all()
    rows._iterable_class = _Rows
    return rows  # type: ignore[no-any-return]


class _Rows(BaseIterable):  # type: ignore[type-arg]
    def __iter__(self) -> Iterator[Any]:
        try:
            sql, parameters = self.queryset.query.get_compiler(connection=connection).as_sql()
        except EmptyResultSet:
            return iter(())
        with connection.cursor() as cursor:
            read_fast(cursor)
            cursor.execute(sql, parameters)
            row = _type_of(tuple(column.name for column in cursor.description))
            return map(row._make, cursor.fetchall())


@cache
def _type_of(names: tuple[str, ...]) -> Any:
    return namedtuple("Row", names)
