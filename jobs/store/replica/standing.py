"""How old the answers of a replica are at most, as the primary's log tells it.

``pg_last_xact_replay_timestamp()`` alone stands still while nothing is written, and an idle primary would look like a
replica that lags. So the primary is asked for *marks*: the place that its log has reached, and when. A replica that has
replayed up to a mark shows all commits up to then, even if there were none. The last mark that it has passed says how
old its answers are. Before it has passed one, the last commit that it replayed says so.

All times are the primary's. How long ago a mark was taken is measured by this process's monotonic clock, so that the
clocks of three machines need not agree.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any


class Word(StrEnum):
    """How the replica is, in a word."""

    OK = "ok"
    #: Not known yet: the process has only begun to ask.
    UNKNOWN = "unknown"
    BEHIND = "behind"
    AWAY = "away"
    #: The server there is no replica, or not ours.
    REFUSED = "refused"


class Unfit(Exception):
    """History must not be read there at present. The message says why, and what to do where that is for people."""

    def __init__(self, word: Word, text: str) -> None:
        super().__init__(text)
        self.word = word


@dataclass(frozen=True, slots=True)
class Mark:
    """All commits on the primary by ``at`` lie before ``lsn``. ``asked``: the monotonic clock before the question."""

    at: datetime
    lsn: int
    cluster: int
    database: int
    asked: float

    def primary_now(self) -> datetime:
        """The latest time that the primary's clock can show."""
        return self.at + timedelta(seconds=time.monotonic() - self.asked)


@dataclass(frozen=True, slots=True)
class Standing:
    """The replica's own report of itself: a row of ``sql/replica.sql: standing``."""

    replays: bool
    lsn: int | None
    replayed_at: datetime | None
    cluster: int
    database: int

    def as_of(self, marks: Sequence[Mark]) -> datetime | None:
        """The time up to which all commits are shown; None: that is not known. ``marks``: the oldest first."""
        passed = [mark.at for mark in marks if self.lsn is not None and mark.lsn <= self.lsn]
        return passed[-1] if passed else self.replayed_at


def judge(found: Standing, marks: Sequence[Mark], *, most: timedelta) -> datetime:
    """The time up to which all commits are shown. Raises ``Unfit`` where that is more than ``most`` ago, or the server
    is no replica of the primary that the marks are of.
    """
    if not found.replays:
        raise Unfit(
            Word.REFUSED,
            "DATABASE_REPLICA_URL leads to a server that is not in recovery: it is not a replica, or was "
            "promoted. Set it to a streaming replica of the server at DATABASE_URL, or unset it.",
        )
    if not marks:
        raise Unfit(Word.UNKNOWN, "The primary's position is not known yet.")
    last = marks[-1]
    if (found.cluster, found.database) != (last.cluster, last.database):
        raise Unfit(
            Word.REFUSED,
            "DATABASE_REPLICA_URL leads to another cluster or database than DATABASE_URL: the system identifiers are "
            f"{found.cluster} and {last.cluster}, the databases' numbers {found.database} and {last.database}. Set it "
            "to a streaming replica of that server, or unset it.",
        )
    as_of, now = found.as_of(marks), last.primary_now()
    if as_of is not None and now - as_of <= most:
        return as_of
    if now - marks[0].at <= most:
        # It may be only an instant behind the primary: nothing was written for long before the first mark.
        raise Unfit(Word.UNKNOWN, "Its lag is not known yet.")
    how = "behind by an unknown time" if as_of is None else f"{(now - as_of).total_seconds():.1f} s behind"
    raise Unfit(
        Word.BEHIND,
        f"It is {how}, and CARILLON_REPLICA_MAX_LAG_SECONDS allows {most.total_seconds():g}.",
    )


def standing_of(row: Any) -> Standing:
    return Standing(row.replays, row.lsn, row.replayed_at, row.cluster, row.database)
