"""Buckets that are counted in Postgres, where there is no Redis: one statement per exchange, by Postgres' clock.

The statement is a transaction of its own on a session of this thread's own, so no dispatch has its locks, and it is
over within milliseconds. Rows are written in the order of their names, so two exchanges never wait for each other in a
circle. A row says when its bucket is full again. The row of a full bucket says nothing and is removed. The table is
unlogged: nothing is flushed, and after a crash of Postgres all buckets are full (docs/adr/0030).
"""

import hashlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, LiteralString, cast

import psycopg

from jobs.limits.exchange import DEBT_SECONDS, TIMEOUT_SECONDS, Answer, Line
from jobs.own_session import own_session

#: Buckets in one statement. Others may have to wait for their locks.
_SLICE = 500
#: Each process that exchanges removes full buckets this often, and at most so many at once.
SWEEP_SECONDS = 10.0
MAX_SWEPT = 5_000
#: Longer names are hashed: a tenant chooses the target of its webhook, and an index bounds the length of its keys.
MAX_NAME = 200
_EXCHANGE, _SWEEP = (
    cast(LiteralString, Path(__file__).with_name(f"{name}.sql").read_text()) for name in ("exchange", "sweep")
)
#: A plan made while the table was empty would read the whole table ever after.
_SETTINGS: LiteralString = """
    SELECT set_config('statement_timeout', %s, false), set_config('lock_timeout', %s, false),
           set_config('synchronous_commit', 'off', false), set_config('plan_cache_mode', 'force_generic_plan', false),
           set_config('enable_seqscan', 'off', false)
"""


class PostgresWire:
    """The session. It is made at first use, and closed when there has been nothing to exchange for a while."""

    failures: tuple[type[Exception], ...] = (psycopg.Error, OSError)

    def __init__(self) -> None:
        self._session: psycopg.Connection[Any] | None = None
        self._swept_at = time.monotonic()

    def call(self, lines: Sequence[Line]) -> list[Answer]:
        try:
            session = self._connected()
            self._sweep(session)
            found = [self._exchange(session, some) for some in _slices(lines)]
        except self.failures:
            self.rest()
            raise
        return [answer for answers in found for answer in answers]

    def refused(self, failure: Exception) -> bool:
        """Postgres refuses when a lock or a time-out is in the way, or a disk is full."""
        return isinstance(failure, psycopg.Error) and failure.sqlstate is not None

    def rest(self) -> None:
        """Close the session, as sessions cost Postgres a lot."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def failure(self, *, patience_seconds: float) -> Exception | None:
        try:
            with own_session(timeout_seconds=patience_seconds) as session:
                self._settle(session, patience_seconds)
                session.execute("SELECT 1 FROM jobs_rate LIMIT 1")
        except self.failures as error:
            return error
        return None

    def _connected(self) -> psycopg.Connection[Any]:
        if self._session is None:
            self._session = own_session(timeout_seconds=TIMEOUT_SECONDS)
            self._session.prepare_threshold = 1
            self._settle(self._session, TIMEOUT_SECONDS)
        return self._session

    @staticmethod
    def _settle(session: psycopg.Connection[Any], patience_seconds: float) -> None:
        milliseconds = str(round(patience_seconds * 1000))
        session.execute(_SETTINGS, [milliseconds, milliseconds])

    @staticmethod
    def _exchange(session: psycopg.Connection[Any], lines: Sequence[Line]) -> list[Answer]:
        names = [_name(line.account.bucket.key) for line in lines]
        asked = [list(map(float, values)) for values in zip(*(line.values for line in lines), strict=True)]
        rows = session.execute(_EXCHANGE, [names, *asked, DEBT_SECONDS]).fetchall()
        answers = {bucket: Answer(held, full_in) for bucket, held, full_in in rows}
        return [answers[name] for name in names]

    def _sweep(self, session: psycopg.Connection[Any]) -> None:
        now = time.monotonic()
        if now >= self._swept_at + SWEEP_SECONDS:
            self._swept_at = now
            session.execute(_SWEEP, [MAX_SWEPT])


def _slices(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """At most ``_SLICE`` lines together, and no bucket twice among them, as a statement writes a row once."""
    some: dict[str, Line] = {}
    for line in lines:
        if len(some) == _SLICE or line.account.bucket.key in some:
            yield list(some.values())
            some = {}
        some[line.account.bucket.key] = line
    if some:
        yield list(some.values())


def _name(key: str) -> str:
    if len(key) <= MAX_NAME and key.isprintable():
        return key
    return "hashed:" + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
