"""A thread of a web process that watches the replica: takes marks of the primary, and asks the replica how far it is.

Requests go by its last finding, so none waits for a replica that is away, hangs or lags. It reports an outage once,
however many reads fail because of it. When the replica falls silent, it cuts the connections of the requests that wait
for it; these read again on the primary. It holds a session of each server, past a pooler where a way is known.
"""

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, LiteralString, cast

import psycopg
from django.db import connections
from psycopg.rows import namedtuple_row

from jobs.conf import engine_settings
from jobs.own_session import own_session
from jobs.store import db
from jobs.store.db.routing import PRIMARY, REPLICA
from jobs.store.replica.standing import Mark, Unfit, Word, judge, standing_of
from jobs.telemetry import Outage

LOOK_EVERY_SECONDS = 1.0
#: A server that has not answered for this long counts as away.
PATIENCE_SECONDS = 2.0
#: A finding that is older says nothing any more. No look lasts longer.
STALE_SECONDS = LOOK_EVERY_SECONDS + 3 * PATIENCE_SECONDS
_SQL = db.queries("replica")


def is_configured() -> bool:
    return REPLICA in connections.settings


@dataclass(frozen=True, slots=True)
class Condition:
    """A finding of the watch, and its time by the monotonic clock. ``lag_seconds``: how old the replica's answers are
    at most; None: it never gave one.
    """

    word: Word
    reason: str = ""
    as_of: datetime | None = None
    looked: float = float("-inf")
    lag_seconds: float | None = None

    @property
    def is_fit(self) -> bool:
        return self.word is Word.OK


class Watch:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pid = 0
        self._sessions: dict[str, psycopg.Connection[Any]] = {}
        self._busy: set[Any] = set()
        self._outage = Outage("replica not used")
        self._found = Condition(Word.UNKNOWN, "The process has not checked it yet.")
        #: The oldest first; none older than may matter.
        self.marks: tuple[Mark, ...] = ()

    def begin(self) -> None:
        """Start the thread, in the process that serves requests. May be repeated."""
        with self._lock:
            if self._pid == os.getpid() or not is_configured():
                return
            self._pid = os.getpid()
        threading.Thread(target=self._run, name="carillon-replica", daemon=True).start()

    def _run(self) -> None:
        while is_configured():
            self.look()
            time.sleep(LOOK_EVERY_SECONDS)

    def condition(self) -> Condition:
        """The last finding; its lag is as of now."""
        found, lag = self._found, None
        if found.word is Word.OK and time.monotonic() - found.looked > STALE_SECONDS:
            found = Condition(Word.UNKNOWN, "It has not been checked recently.", found.as_of, found.looked)
        if found.as_of is not None and self.marks:
            lag = max(0.0, (self.marks[-1].primary_now() - found.as_of).total_seconds())
        return Condition(found.word, found.reason, found.as_of, found.looked, lag)

    def doubt(self, error: Exception) -> None:
        """A request lost the replica: none goes there until the next look has found it. That look reports it."""
        self._found = Condition(Word.AWAY, _first_line(error), self._found.as_of, self._found.looked)

    @contextmanager
    def minding(self, ours: Any) -> Iterator[None]:
        """Cut Django's connection ``ours`` if the replica falls silent while its thread is inside."""
        ours.close_if_health_check_failed()
        ours.ensure_connection()
        raw = ours.connection
        with self._lock:
            self._busy.add(raw)
        try:
            yield
        finally:
            with self._lock:
                self._busy.discard(raw)

    def look(self) -> None:
        """One turn: two statements. Never raises an error that a server may cause."""
        try:
            self._take_mark()
        except (psycopg.Error, Unfit) as error:
            db.note_away(error, what="replica")
        asked = time.monotonic()
        try:
            found = standing_of(self._ask(REPLICA, "standing"))
            as_of = judge(found, self.marks, most=engine_settings().replica_max_lag)
        except Unfit as unfit:
            self._tell(unfit, asked)
        except psycopg.Error as error:
            self._tell(Unfit(Word.AWAY, _first_line(error)), asked)
        else:
            self._found = Condition(Word.OK, as_of=as_of, looked=asked)
            self._outage.over()

    def _tell(self, unfit: Unfit, asked: float) -> None:
        self._found = Condition(unfit.word, str(unfit), self._found.as_of, asked)
        if unfit.word is Word.AWAY:
            with self._lock:
                for raw in self._busy:
                    _cut(raw)
        if unfit.word is not Word.UNKNOWN:
            self._outage.failed(unfit, status=unfit.word)

    def _take_mark(self) -> None:
        asked = time.monotonic()
        row = self._ask(PRIMARY, "mark")
        mark = Mark(row.at, row.lsn, row.cluster, row.database, asked)
        # One mark more than may be used, so that a replica that has passed none of them is known to be behind.
        oldest = mark.at - engine_settings().replica_max_lag - timedelta(seconds=2 * LOOK_EVERY_SECONDS)
        self.marks = (*(one for one in self.marks if one.at >= oldest), mark)

    def _ask(self, server: str, name: str) -> Any:
        """The one row of a statement, on a session that stays open. Raises ``psycopg.Error``, ``Unfit``."""
        session = self._sessions.get(server)
        if session is None or session.closed:
            session = own_session(timeout_seconds=PATIENCE_SECONDS, alias=server)
            session.prepare_threshold = None  # behind a pooler the next statement may have another session
            self._sessions[server] = session
        silent = threading.Event()

        def give_up() -> None:
            silent.set()
            _cut(session)

        timer = threading.Timer(PATIENCE_SECONDS, give_up)
        timer.daemon = True
        timer.start()
        try:
            with session.cursor(row_factory=namedtuple_row) as cursor:
                return cursor.execute(cast(LiteralString, _SQL[name].sql)).fetchone()
        except psycopg.Error:
            session.close()
            if silent.is_set():
                raise Unfit(Word.AWAY, f"It did not answer within {PATIENCE_SECONDS:g} s.") from None
            raise
        finally:
            timer.cancel()


def examine() -> Unfit | None:
    """Find the fault of the configured replica by asking both servers once; None: there is none. For checks.

    How far it is behind does not count. Raises ``psycopg.Error`` where the primary cannot be asked.
    """
    watch = Watch()
    watch._take_mark()
    try:
        judge(standing_of(watch._ask(REPLICA, "standing")), watch.marks, most=timedelta(days=36500))
    except psycopg.Error as error:
        return Unfit(Word.AWAY, _first_line(error))
    except Unfit as unfit:
        return unfit if unfit.word is not Word.UNKNOWN else None
    finally:
        for session in watch._sessions.values():
            session.close()
    return None


def _cut(raw: Any) -> None:
    """Let a thread that waits at this connection fail at once, as when the server ends it."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(raw.fileno())) as twin:
        twin.shutdown(socket.SHUT_RDWR)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


WATCH = Watch()
