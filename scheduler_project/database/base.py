"""The additions to Django's backend: errors without rows and values, and waits that are bounded through any pooler.

**Errors.** "DETAIL:  Failing row contains (…)" holds payloads, "LINE 1: …" the statement with its values, "CONTEXT" a
document. An error's text goes to the log, to Celery's results and events (so to Flower) and to attempts; payloads may
hold credentials. So the text is cut where an error comes in, once for all of these. A program loses nothing: the part
that was cut is in ``error.__cause__.diag`` as before.

**Waits.** Parameters of the session bound them. Behind a pooler that gives sessions out by transaction (Django's
``DISABLE_SERVER_SIDE_CURSORS`` says so) the session's next owner would find these parameters, and the next transaction
would not. There they are set until the transaction's end, in the message that holds its first statement. So they cost
no round trip, and nothing outlives the transaction (ADR 31).
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
#: The class of SQLSTATE for values that a type refuses; the first line of such an error quotes the value. Other errors
#: quote only names.
_DATA_EXCEPTION = "22"


def words_of(error: psycopg.Error) -> tuple[object, ...]:
    """The arguments of ``error`` without values. They stay as they are where the error is not from the server."""
    said = error.diag.message_primary
    if not said:
        return error.args
    return (_QUOTED.sub('"…"', said) if (error.sqlstate or "").startswith(_DATA_EXCEPTION) else said,)


class Discreet(DatabaseErrorWrapper):
    """Cuts the arguments of psycopg's error before Django's wrapper copies them into its own error."""

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
    #: The text that goes before the first statement of each transaction.
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
        """Execute a statement. If it begins a transaction, the bounds of its waits go before it in the same message."""
        if self.connection.pgconn.transaction_status != TransactionStatus.IDLE:
            return execute(statement, parameters, many, context)
        if many:  # one message for each, or a pipeline that takes one statement per message
            with atomic(self.alias), self.cursor() as cursor:
                cursor.execute("SELECT")  # opens the transaction
                return execute(statement, parameters, many, context)
        opened = self._opening + statement if isinstance(statement, str) else SQL(self._opening) + statement
        answer = execute(opened, parameters, many, context)
        # The caller must find the statement's own result.
        while context["cursor"].nextset():
            pass
        return answer

    def _configure_timezone(self, connection: Any) -> bool:
        return False if self.by_transaction else super()._configure_timezone(connection)  # type: ignore[misc]

    def is_usable(self) -> bool:
        """Whether the connection still works. The server is asked only if it has sent something unasked, as it does
        when it ends a connection. So the first statement of a request need not wait for another one.
        """
        if self.connection.closed:
            return False
        poll = select.poll()
        poll.register(self.connection.fileno(), select.POLLIN)
        return not poll.poll(0) or super().is_usable()

    @cached_property
    def wrap_database_errors(self) -> Discreet:
        return Discreet(self)
