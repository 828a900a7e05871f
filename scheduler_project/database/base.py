"""Errors of the database without the rows and values that Postgres puts into them.

"DETAIL:  Failing row contains (…)" holds payloads, "LINE 1: …" the statement with its values, "CONTEXT" a document. An
error's text goes to the log, to Celery's results and events (so to Flower) and to attempts; payloads may hold
credentials. So the text is cut where an error comes in, once for all of these. Nothing is lost to a program: what was
cut is in ``error.__cause__.diag`` as before.
"""

import re
import select
from functools import cached_property
from types import TracebackType

import psycopg
from django.db.backends.postgresql import base
from django.db.utils import DatabaseErrorWrapper

_QUOTED = re.compile('".*"', re.DOTALL)
#: The class of SQLSTATE for values that a type refuses; their first line quotes the value. Others quote names alone.
_DATA_EXCEPTION = "22"


def words_of(error: psycopg.Error) -> tuple[object, ...]:
    """The arguments of ``error`` without values; as they are where it is not the server that said it."""
    said = error.diag.message_primary
    if not said:
        return error.args
    return (_QUOTED.sub('"…"', said) if (error.sqlstate or "").startswith(_DATA_EXCEPTION) else said,)


class Discreet(DatabaseErrorWrapper):
    """Django's, which copies the arguments of psycopg's error into its own."""

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(exc_value, psycopg.Error):
            exc_value.args = words_of(exc_value)
        super().__exit__(exc_type, exc_value, traceback)  # type: ignore[arg-type]


class DatabaseWrapper(base.DatabaseWrapper):
    def is_usable(self) -> bool:
        """Whether the connection still stands. The server is asked only where it has said something unasked, as it
        does when it ends a connection: the first statement of a request need not wait for another.
        """
        if self.connection.closed:
            return False
        poll = select.poll()
        poll.register(self.connection.fileno(), select.POLLIN)
        return not poll.poll(0) or super().is_usable()

    @cached_property
    def wrap_database_errors(self) -> Discreet:
        return Discreet(self)
