"""What ours has beside Django's: errors without rows and values, and waits that are bounded through any pooler.

**Errors.** "DETAIL:  Failing row contains (…)" holds payloads, "LINE 1: …" the statement with its values, "CONTEXT" a
document. An error's text goes to the log, to Celery's results and events (so to Flower) and to attempts; payloads may
hold credentials. So the text is cut where an error comes in, once for all of these. Nothing is lost to a program: what
was cut is in ``error.__cause__.diag`` as before.

**Waits.** What bounds them are parameters of the session. Behind a pooler that gives sessions out by transaction (told
by ``DISABLE_SERVER_SIDE_CURSORS``, as Django would have it) the session's next owner would find them, and the next
transaction would not. There they are set until the transaction's end, in the message that holds its first statement: so
they cost no round trip, and nothing outlives the transaction (ADR 31).
"""

import re
import select
from collections.abc import Callable, Mapping
from functools import cached_property
from types import TracebackType
from typing import Any

import psycopg
from django.db.backends.postgresql import base
from django.db.transaction import atomic
from django.db.utils import DatabaseErrorWrapper
from psycopg.pq import TransactionStatus
from psycopg.sql import SQL

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
    #: What the first statement of each transaction is preceded by.
    _opening = ""

    @property
    def by_transaction(self) -> bool:
        """Whether each transaction may have another session of Postgres: no statement is prepared, no plan kept."""
        return bool(self.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS"))

    def configure(self, parameters: Mapping[str, str]) -> None:
        """Set parameters of Postgres, such as ``{"lock_timeout": "10s"}``, for all statements from here on."""
        if self.by_transaction:
            self._parameters |= {**parameters, "TimeZone": self.timezone_name}
            self._opening = "".join(f"SET LOCAL {name} = '{v}'; " for name, v in self._parameters.items())
            if self._open not in self.execute_wrappers:
                self.execute_wrappers.append(self._open)
        elif parameters:
            settings = ", ".join(f"set_config('{name}', '{v}', false)" for name, v in parameters.items())
            with self.cursor() as cursor:
                cursor.execute(f"SELECT {settings}")

    @cached_property
    def _parameters(self) -> dict[str, str]:
        return {}

    def _open(
        self,
        execute: Callable[..., Any],
        statement: Any,
        parameters: Any,
        many: bool,
        context: dict[str, Any],
    ) -> Any:
        """Execute a statement; with what bounds it before it, in one message, where it begins a transaction."""
        if self.connection.pgconn.transaction_status != TransactionStatus.IDLE:
            return execute(statement, parameters, many, context)
        if many:  # a message each, or a pipeline that takes one statement a message
            with atomic(self.alias), self.cursor() as cursor:
                cursor.execute("SELECT")  # opens it
                return execute(statement, parameters, many, context)
        opened = self._opening + statement if isinstance(statement, str) else SQL(self._opening) + statement
        answer = execute(opened, parameters, many, context)
        # The caller is to find the statement's own result.
        while context["cursor"].nextset():
            pass
        return answer

    def _configure_timezone(self, connection: Any) -> bool:
        return False if self.by_transaction else super()._configure_timezone(connection)  # type: ignore[misc]

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
