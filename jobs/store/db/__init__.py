"""Named SQL: loads ``store/sql/*.sql`` and executes a query by its name.

A file holds queries of one noun. Each begins with a header: ``-- name:``, then the purpose and, where it applies,
``transition:``, ``locks:``, ``index:``, ``plan:``, ``settings:`` of the planner, for that statement alone, and
``returns:``. Tests hold the headers to ``core.states``. With ``plan: kept``, the connections of a process that called
``keep_plans`` parse and plan the statement once. It is for statements of every message: to plan them costs more than to
execute them, and their plan is the same with all parameters. ``@each kind: {kind} = excluded.{kind}@`` is written out,
with commas, for each of ``LISTS["kind"]``.

Queries take named parameters and give named tuples. They join the caller's transaction, or commit by themselves when
there is none. A server that is away raises one of ``DISCONNECTED``. A server that is there and gave a statement up (a
time-out, a lock, a deadlock, no room) raises ``StatementFailed``. Faults of ours raise Django's own errors.
``until_connected`` waits the first two out for statements that are safe to repeat.
"""

import random
import re
import time
from collections import namedtuple
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar, cast

import psycopg
from django.db import (
    DatabaseError,
    InterfaceError,
    InternalError,
    OperationalError,
    connection,
    connections,
    transaction,
)
from django.db.backends.signals import connection_created
from django.db.utils import DEFAULT_DB_ALIAS
from psycopg.pq import TransactionStatus

from jobs.core.activity import KINDS
from jobs.store.db.routing import PRIMARY, server_of_history
from jobs.store.db.values import as_literal, read_fast
from jobs.telemetry import Outage

T = TypeVar("T")
#: No statement of a beat waits longer for a lock: the rows of all tenants meet in its statements.
LOCK_PATIENCE = timedelta(milliseconds=50)
#: The database ends a beat's transaction that idles for this long, with all the locks it holds.
IDLE_PATIENCE = timedelta(seconds=5)
#: Executions of a statement after which its plan is kept.
KEEP_AFTER = 2
_keeping = False
DISCONNECTED = (OperationalError, InterfaceError)
#: One each for the process, whichever thread meets them: the database is away; it is there and gives statements up.
_outage, _given_up = Outage("database away"), Outage("statement failed")
#: SQLSTATEs of a server that is there and as good as away. It is going down, or coming up. It ended our connection, or
#: our transaction, for idling, as it does when it was frozen itself. It is a standby that is not promoted yet. The last
#: two are InternalErrors to Django, as are faults of ours. Class 08, of broken connections, counts as well.
AWAY = {"57P01", "57P02", "57P03", "57P05", "25P03", "25006"}
#: No transaction is open. The state of a broken connection is unknown, and it has nothing open any more.
_AT_REST = (TransactionStatus.IDLE, TransactionStatus.UNKNOWN)
_DIRECTORY = Path(__file__).parent.parent / "sql"
LISTS = {"kind": KINDS}
_EACH = re.compile(r"@each (\w+): (.+?)@")
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_HEADER = re.compile(r"^-- (transition|locks|index|plan|settings|returns): (.+)$", re.MULTILINE)


class StatementFailed(DatabaseError):
    """The server is there and gave a statement up: a time-out, a lock time-out, a deadlock, a full disk.

    It is a failure of the step that asked. A new connection, or another process, would change nothing.
    """


#: Errors that pass: an action that may be repeated can be tried again after these.
TRANSIENT = (*DISCONNECTED, StatementFailed)


@dataclass(frozen=True)
class Query:
    """One named statement. ``headers`` holds its header lines by keyword, a list each."""

    name: str
    sql: str
    headers: dict[str, list[str]] = field(default_factory=dict)

    def __call__(self, **parameters: Any) -> list[Any]:
        """Execute with named parameters; returns the rows as named tuples (empty when it returns none)."""
        if not (_keeping and "plan" in self.headers):
            return self.planned(**parameters)
        with _told_apart():
            rows = self._kept({name: as_literal(value) for name, value in parameters.items()})
        note_answer()
        return rows

    def planned(self, **parameters: Any) -> list[Any]:
        """As a call, planned for these parameters: for the few with which a kept plan would be a bad one."""
        with _told_apart():
            rows = self._planned({name: as_literal(value) for name, value in parameters.items()})
        note_answer()
        return rows

    def prepared(self, **parameters: Any) -> list[Any]:
        """As a call, but planned once per connection. For processes with connections of their own, and statements whose
        plan never changes: they read their parameters, and a few rows by a unique key. The database is told no actor
        (``trail.sign_statements``)."""
        if cast(Any, connection).by_transaction:
            return self(**parameters)
        connection.close_if_health_check_failed()
        with _told_apart():
            rows = self._kept(parameters)
        note_answer()
        return rows

    def of_history(self, **parameters: Any) -> list[Any]:
        """As a call, on the server that history is read from (``routing``). For statements that only read."""
        if (server := server_of_history()) == PRIMARY:
            return self(**parameters)
        with connections[server].cursor() as cursor:
            read_fast(cursor)
            cursor.execute(self.sql, {name: as_literal(value) for name, value in parameters.items()})
            return _rows(self.sql, cursor)

    def _planned(self, parameters: dict[str, Any]) -> list[Any]:
        with self.settled(), connection.cursor() as cursor:
            read_fast(cursor)
            cursor.execute(self.sql, parameters)
            return _rows(self.sql, cursor)

    @contextmanager
    def settled(self) -> Iterator[None]:
        """Within the settings of the planner that the statement's header asks for, if any."""
        if "settings" not in self.headers:
            yield
            return
        with transaction.atomic(), connection.cursor() as cursor:
            for setting in self.headers["settings"]:
                cursor.execute(f"SET LOCAL {setting}")
            yield
            for setting in self.headers["settings"]:
                cursor.execute(f"RESET {setting.split()[0]}")

    def _kept(self, parameters: dict[str, Any]) -> list[Any]:
        # Django's cursors write parameters into the text, so that no two statements are the same to the server.
        connection.ensure_connection()
        connection.validate_no_broken_transaction()
        with connection.wrap_database_errors:
            cursor = _kept_cursor()
            cursor.execute(self.sql, parameters)
            return _rows(self.sql, cursor)


def _kept_cursor() -> psycopg.Cursor[Any]:
    """The connection's one cursor for kept statements: a cursor's look for loaders costs as much as a small result."""
    ours = cast(Any, connection)
    cursor: psycopg.Cursor[Any] | None = getattr(ours, "carillon_cursor", None)
    if cursor is None or cursor.connection is not connection.connection:
        cursor = psycopg.Cursor(connection.connection)
        read_fast(cursor)
        ours.carillon_cursor = cursor
    ours.connection.prepare_threshold = KEEP_AFTER
    return cursor


def _rows(sql: str, cursor: Any) -> list[Any]:
    row = _row_types.get(sql)
    if row is None:
        # Asked for once per statement, because it is built each time.
        names = cursor.description
        row = _row_types[sql] = namedtuple("Row", [column.name for column in names]) if names else _NoRow
    # As namedtuple._make does, without its Python.
    return [] if row is _NoRow else list(map(partial(tuple.__new__, row), cursor.fetchall()))


class _NoRow(tuple[()]):
    """The row type of a statement that returns nothing."""

    __slots__ = ()


_row_types: dict[str, type[tuple[Any, ...]]] = {}


@cache
def queries(noun: str) -> dict[str, Query]:
    """Every query of ``sql/<noun>.sql`` by name."""
    parts = _NAME.split((_DIRECTORY / f"{noun}.sql").read_text())[1:]
    found = {}
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        headers: dict[str, list[str]] = {}
        for keyword, value in _HEADER.findall(text):
            headers.setdefault(keyword, []).append(value.strip())
        found[name] = Query(name, _EACH.sub(_written_out, text.strip()), headers)
    return found


def _written_out(each: re.Match[str]) -> str:
    name, template = each.groups()
    return ", ".join(template.replace(f"{{{name}}}", column) for column in LISTS[name])


def all_queries() -> dict[str, Query]:
    """Every query of the store as ``noun.name``."""
    return {
        f"{path.stem}.{name}": query
        for path in sorted(_DIRECTORY.glob("*.sql"))
        for name, query in queries(path.stem).items()
    }


def keep_plans() -> None:
    """Keep the plans of statements that say so, on every Carillon connection that this process makes from here on.

    Behind a pooler by transaction none is kept, because plans belong to a session.
    """
    global _keeping
    _keeping = not cast(Any, connection).by_transaction
    if _keeping:
        connection_created.connect(_settle)


def _settle(connection: Any, **_: Any) -> None:
    if connection.alias != DEFAULT_DB_ALIAS:
        return  # a team's own database: its plans are not ours to choose, and it need not be Postgres
    # A plan made while a table was empty would always read the whole table later: these settings prevent such plans.
    connection.configure({"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off"})


@contextmanager
def atomic() -> Iterator[None]:
    """A transaction on the store's connection; a savepoint inside one. Its commit may raise as any statement may."""
    with _told_apart(), transaction.atomic():
        yield


@contextmanager
def _told_apart() -> Iterator[None]:
    """Raise ``DISCONNECTED`` where the server is away, and ``StatementFailed`` where it only gave a statement up."""
    try:
        yield
    except OperationalError as error:
        if is_away(error):
            raise
        raise StatementFailed(*error.args) from error.__cause__
    except InternalError as error:
        if is_away(error):
            raise OperationalError(*error.args) from error.__cause__
        raise


def is_away(error: BaseException) -> bool:
    """Whether the error says that the server cannot serve at present, or has lost us; not that a statement failed.

    An error without SQLSTATE comes from the client: it could not connect, or the connection broke.
    """
    if not isinstance(error, OperationalError | InternalError):
        return isinstance(error, InterfaceError)
    state = sqlstate(error)
    if state is None:
        return isinstance(error, OperationalError)
    ended = connection.connection is not None and connection.connection.closed
    return ended or state in AWAY or state.startswith("08")


def sqlstate(error: BaseException) -> str | None:
    """The SQLSTATE that the server gave the error; None when the error does not come from the server."""
    return getattr(error.__cause__, "sqlstate", None)


def in_transaction() -> bool:
    """Whether the caller is inside a transaction, and so holds a connection that must not be given up."""
    return connection.in_atomic_block


def on_commit(action: Callable[[], object]) -> None:
    """Call ``action`` once all writes of this thread so far are committed: at once outside a transaction, never after a
    rollback.
    """
    if connection.in_atomic_block:
        transaction.on_commit(action)
    else:
        action()


def end_leftovers() -> bool:
    """Roll back anything that foreign code left open on this thread's connection. Returns whether there was anything.

    It may be a transaction, a block of Django's or a mode in which each statement opens one. Every later write of ours
    would wait in it, uncommitted, with its rows locked. The connection is dropped, so nothing of it is left.
    """
    ours = cast(Any, transaction.get_connection())  # looked up once: that takes a microsecond
    raw = ours.connection
    if raw is None:
        return False
    if raw.autocommit and raw.pgconn.transaction_status in _AT_REST and not ours.in_atomic_block:
        return False
    with suppress(
        psycopg.Error
    ):  # the connection broke in between; the server rolls back its open transaction
        raw.rollback()
    # Inside a block Django would keep the connection, closed, and refuse to make a new one.
    ours.in_atomic_block = ours.closed_in_transaction = False
    ours.close()
    return True


def bound(*, statements: timedelta) -> None:
    """Bound the cost of this thread's connection to others, from now on: no statement takes longer than ``statements``,
    or waits longer for a lock than ``LOCK_PATIENCE``. No transaction idles for long, even if this process is frozen.
    """
    connection.ensure_connection()
    ours = cast(Any, connection)
    known, longest = getattr(ours, "carillon_bound", (None, None))
    if known is connection.connection and longest == statements:
        return
    names = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
    spans = (statements, LOCK_PATIENCE, IDLE_PATIENCE)
    ours.configure({n: str(round(s.total_seconds() * 1000)) for n, s in zip(names, spans, strict=True)})
    ours.carillon_bound = (connection.connection, statements)


def connect_ahead() -> None:
    """Connect now if the server can be reached, so that the first statement need not."""
    try:
        connection.ensure_connection()
    except DISCONNECTED as error:
        note_away(error, what="connect ahead")


def disconnect() -> None:
    """Drop this process's connection, so that the next statement makes a new one."""
    connection.close()


def note_away(error: BaseException, *, what: str) -> None:
    """Report a ``TRANSIENT``, or any other sign of a server that is away.

    The next statement that goes well ends an outage, and so does the next connection: code that asks by the ORM alone
    gives no other sign.
    """
    given_up = isinstance(error, StatementFailed) or (
        isinstance(error, OperationalError) and not is_away(error)
    )
    (_given_up if given_up else _outage).failed(error, what=what)


def note_answer() -> None:
    """The server answered."""
    _outage.over()
    _given_up.over()


def _note_connection(connection: Any, **_: Any) -> None:
    if connection.alias == DEFAULT_DB_ALIAS:
        note_answer()


connection_created.connect(_note_connection, dispatch_uid="carillon-outage")


def until_connected(action: Callable[[], T], *, patience_seconds: float, what: str) -> T:
    """Repeat ``action`` while the database is away, or gives it up, for up to ``patience_seconds``; then raise.

    For actions that may be repeated after an uncertain outcome: a CAS on ``(id, fence, state)``, a read. Waits
    0.05 s to 2 s with jitter between tries, so that a restarted server is not stormed.
    """
    give_up = time.monotonic() + patience_seconds
    delay = 0.1
    while True:
        try:
            return action()
        except TRANSIENT as error:
            if connection.in_atomic_block or time.monotonic() > give_up:
                raise
            note_away(error, what=what)
            if not isinstance(error, StatementFailed):
                disconnect()
            time.sleep(delay * random.uniform(0.5, 1.0))  # noqa: S311
            delay = min(2.0, delay * 2)
