"""Reading history from a replica of the database, where there is one and it is near enough.

``read`` is the one way there. Lists of history go to the replica. A read that must see an earlier write goes to the
primary. So does every read while the replica is away, further behind than ``CARILLON_REPLICA_MAX_LAG_SECONDS``, or no
replica at all. Each read asks the very session that it is about to use how far that is (``standing``). So the bound
also holds where an address leads to several replicas, and from the first read after a promotion. A read that fails on
the replica is made again on the primary, which shows whether it was a fault of ours.

``store.db.routing`` says which statements may go there; ``watch`` reports outages.
"""

from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime
from typing import Any, TypeVar

from django.db import DatabaseError, InterfaceError, connections, transaction

from jobs.conf import engine_settings
from jobs.store import db
from jobs.store.db.routing import REPLICA, on_replica
from jobs.store.replica.standing import Unfit, Word, judge, standing_of
from jobs.store.replica.watch import WATCH, Condition, examine, is_configured
from jobs.telemetry import Outage

__all__ = ("Condition", "Unfit", "Word", "begin", "condition", "examine", "is_configured", "now", "read")
T = TypeVar("T")
_SQL = db.queries("replica")
#: SQLSTATEs: a write, which is a fault of ours; a time-out, which would only be waited for again on the primary.
_WRITE, _TIMED_OUT = "25006", "57014"
_given_up = Outage("replica gave reads up")


class WriteOnReplica(RuntimeError):
    """A read of history tried to write: a fault of ours, even if the primary would have allowed it."""


def read(action: Callable[[datetime | None], T], *, fresh: bool = False, since: datetime | None = None) -> T:
    """The result of ``action``, read from the replica or the primary. It may be called twice, and must only read.

    It is given the time up to which all commits are shown; None: it reads on the primary, now. ``fresh``: the caller
    accepts only the primary. ``since``: it accepts no state from before then. Inside a transaction the primary is read,
    too: the transaction may have written.
    """
    if fresh or not is_configured() or db.in_transaction():
        return action(None)
    WATCH.begin()
    if not WATCH.condition().is_fit:
        return action(None)
    ours: Any = connections[REPLICA]
    try:
        with on_replica(), WATCH.minding(ours), _one_session(ours):
            [row] = _SQL["standing"].of_history()
            as_of = judge(standing_of(row), WATCH.marks, most=engine_settings().replica_max_lag)
            if since is None or as_of >= since:
                answer = action(as_of)
                _given_up.over()
                return answer
    except Unfit:
        pass  # the watch reports it
    except (DatabaseError, InterfaceError) as error:
        _take(error, ours)
    return action(None)


def _one_session(ours: Any) -> Any:
    """Behind a pooler by transaction: the question how far it is, and the read, use one session of Postgres."""
    return transaction.atomic(using=REPLICA) if ours.by_transaction else nullcontext()


def _take(error: Exception, ours: Any) -> None:
    """Let the read be made again where the replica failed. Raises the error where that would be wrong."""
    if not ours.errors_occurred:
        raise error  # the primary's
    state = db.sqlstate(error)
    ours.close()
    if state == _WRITE:
        raise WriteOnReplica("A read of history wrote, or locked rows.") from error
    if state == _TIMED_OUT:
        raise error
    if state is None or state in db.AWAY or state.startswith(("08", "53")):
        WATCH.doubt(error)
    else:  # it cancelled the read for changes that it must replay, or its schema is that of a moment ago
        _given_up.failed(error)


def begin() -> None:
    """Watch the replica from now on, in the process that serves requests."""
    WATCH.begin()


def condition() -> Condition | None:
    """How the replica is; None: there is none."""
    return WATCH.condition() if is_configured() else None


def now() -> datetime | None:
    """The latest time that the primary's clock can show, to pass as ``since`` of later reads. None: there is no
    replica, or the primary is away.
    """
    if not is_configured():
        return None
    if WATCH.marks:
        return WATCH.marks[-1].primary_now()
    try:
        at: datetime = _SQL["mark"]()[0].at
    except db.TRANSIENT as error:
        db.note_away(error, what="replica")
        return None
    return at
