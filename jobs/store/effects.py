"""Effects: the records by which a handler's effects on a database happen once (``Context.once``, DESIGN §7).

The handler's own transaction writes a record beside the effect: both commit or neither does. Its key holds the
trigger's id, so every attempt and every replay of one firing finds it, under any fence; two at once wait for each
other. The connection is the handler's: Django's, psycopg's or any of its kind, to any database with the table.
"""

from typing import Any
from uuid import UUID

from django.db import connections
from django.db.utils import DEFAULT_DB_ALIAS

from jobs.core.errors import CarillonError
from jobs.store import db
from jobs.telemetry import get_logger

log = get_logger()
_SQL = db.queries("effects")
_IDLE = 0


class NoTransaction(CarillonError):
    """``once`` was called where its record would be committed before, and without, the effect."""


def record(*, trigger_id: UUID, fence: int, key: str, using: Any = None) -> bool:
    """Record an effect in the caller's open transaction. False: it was made before, and the caller must leave it out.

    ``using``: a connection of Django's or psycopg's, the name of one of Django's, or None for the default one. Raises
    ``NoTransaction``, and the errors of the database.
    """
    connection = connections[using or DEFAULT_DB_ALIAS] if using is None or isinstance(using, str) else using
    _check(connection)
    values = {"trigger_id": str(trigger_id), "key": key}
    with connection.cursor() as cursor:
        cursor.execute(_SQL["record"].sql, {**values, "fence": fence})
        first = cursor.rowcount == 1
        if not first:
            cursor.execute(_SQL["count_duplicate"].sql, values)
    return _told(first, trigger_id, key)


async def record_async(*, trigger_id: UUID, fence: int, key: str, using: Any) -> bool:
    """``record`` on an ``AsyncConnection`` of psycopg's."""
    _check(using)
    values = {"trigger_id": str(trigger_id), "key": key}
    async with using.cursor() as cursor:
        await cursor.execute(_SQL["record"].sql, {**values, "fence": fence})
        first = cursor.rowcount == 1
        if not first:
            await cursor.execute(_SQL["count_duplicate"].sql, values)
    return _told(first, trigger_id, key)


def duplicates_prevented(trigger_id: UUID) -> int:
    """How often effects of this trigger in Carillon's own database were left out because they had been made."""
    return int(_SQL["duplicates"](trigger_id=trigger_id)[0].count)


def _check(connection: Any) -> None:
    if hasattr(connection, "in_atomic_block"):
        open_now = connection.in_atomic_block or not connection.get_autocommit()
    else:
        open_now = not connection.autocommit or connection.info.transaction_status != _IDLE
    if not open_now:
        raise NoTransaction(
            "ctx.once needs an open transaction that holds the effect too: call it inside transaction.atomic(), or "
            "conn.transaction()."
        )


def _told(first: bool, trigger_id: UUID, key: str) -> bool:
    if not first:
        log.info("duplicate prevented", trigger_id=str(trigger_id), key=key)
    return first
