"""Activity: decisions of the store's statements are counted in memory, once committed; then reported and added up.

Counting needs no statement of its own: it goes by the rows that a statement returned. ``report`` writes a process's
counts as they are. ``fold`` adds the reports of all processes to their minutes and to the totals that ``/metrics``
shows.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby, islice
from operator import attrgetter
from typing import Any

import orjson

from jobs.activity import Key, OwnKey, OwnRows, Rows, activity, own
from jobs.core.activity import (
    DECLARED_TYPES,
    DURATION_SUM,
    LAG_SUM,
    SECONDS_SUM,
    SKIPS,
    TIMES,
    Counts,
    label_of,
    label_of_error,
)
from jobs.core.states import AttemptState, TriggerState
from jobs.models.firings.trigger import Origin
from jobs.store import db

_SQL = db.queries("activity")
#: The most keys of tenants that a report holds.
BATCH = 500
#: A statement adds up this many reports at most. With this many counts it takes no further one: it is over in some ten
#: milliseconds.
REPORTS, FOLDED = 200, 2_000
#: Processes' counts of attempts that failed, by job type and error code.
ERRORS = "attempt_errors"
#: Counts of workflow runs by their event, and how long they took, by their end.
RUNS, RUN_SECONDS = "workflow_runs", "workflow_run_seconds"
_OF_RUNS = "workflow_run."
#: Kinds of events that are counted.
RUN_EVENTS = tuple(f"{_OF_RUNS}{word}" for word in ("started", "retried", "succeeded", "failed", "cancelled"))


#: Asked several times for each firing: in C it takes a third less.
_key_of: Callable[[Any], Key] = attrgetter("tenant_id", "job_type")
_SUCCEEDED, _WORKFLOW = AttemptState.SUCCEEDED, Origin.WORKFLOW.value


def count(rows: Iterable[Any], kind: str) -> None:
    """Count one ``kind`` for each row, which has a tenant_id and a job_type."""
    counted = _Counted()
    for key, of_it in groupby(map(_key_of, rows)):
        counted.add(key, (kind, len(list(of_it))))
    counted.keep()


def count_first(rows: Iterable[Any]) -> None:
    """Count as created the rows that are tasks of workflows and were never queued before: they are being queued, or
    have ended instead. The database makes them at others' commits, where no process could count.

    Each row has its ``fence`` and ``replay_count`` from before it was queued.
    """
    count(
        (row for row in rows if row.origin == _WORKFLOW and not row.fence and not row.replay_count),
        "created",
    )


def count_skips(skips: Iterable[tuple[Any, str, int]]) -> None:
    """Count firings that were recorded as skipped: by owner (tenant_id, job_type), with the reason, and how many."""
    counted = _Counted()
    for of, reason, number in skips:
        counted.add(_key_of(of), (f"skipped_{reason}", number))
    counted.keep()


def count_ended(rows: Iterable[Any]) -> None:
    """Count triggers that were skipped or cancelled, each with its reason."""
    counted = _Counted()
    for row in rows:
        counted.add(_key_of(row), (SKIPS.get(row.reason, "cancelled"), 1))
    counted.keep()


def count_cancelled(rows: Iterable[Any]) -> None:
    """Count the rows that are cancelled; the others were asked to stop, and are counted when they do."""
    count((row for row in rows if row.state == TriggerState.CANCELLED), "cancelled")


def count_started(rows: Iterable[Any]) -> None:
    """Count attempts that a claim started."""
    lags = defaultdict[Key, list[float]](list)
    for key, of_it in groupby(rows, _key_of):
        lags[key] += [(row.attempt_started_at - row.due_at).total_seconds() for row in of_it]
    counted = _Counted()
    for key, seconds in lags.items():
        counted.add(key, ("started", len(seconds)))
        counted.add_times(key, LAG_SUM, seconds)
    counted.keep()


class Outcomes:
    """Counts outcomes: how each attempt ended, how long it took, and the new state of its trigger.

    ``finishes``: of ``execution.Finish``. They are looked at before the statement that writes them, while the processor
    has them at hand: afterwards it takes twice as long.
    """

    def __init__(self, finishes: Sequence[Any]) -> None:
        self._finishes = finishes
        owners = [key for key, _ in groupby(map(_key_of, finishes))]
        #: Whose they all are; None if they are of several.
        self._owner = owners[0] if len(owners) == 1 else None
        self._all_succeed = [finish.attempt_state for finish in finishes].count(_SUCCEEDED) == len(finishes)

    def count(self, rows: Sequence[Any]) -> None:
        """Count once committed. ``rows``: those that were written, each with its place (``nth``, from 1 on) among
        ``finishes``, its state and its seconds. The others were stale.
        """
        counted, others = _Counted(), Counter[Key]()
        if not self._all_succeed or len(rows) < len(self._finishes):
            others = self._count_others({row.nth: row for row in rows}, counted)
        for key, seconds in self._durations(rows).items():
            counted.add_times(key, DURATION_SUM, seconds)
            if successes := len(seconds) - others[key]:
                counted.add(key, (f"ended_{_SUCCEEDED}", successes))
        counted.keep()

    def _durations(self, rows: Sequence[Any]) -> Mapping[Key, list[float]]:
        """How long the attempts took, in seconds by owner."""
        if self._owner is not None:
            return {self._owner: [row.seconds for row in rows]} if rows else {}
        durations = defaultdict[Key, list[float]](list)
        for row in rows:
            durations[_key_of(self._finishes[row.nth - 1])].append(row.seconds)
        return durations

    def _count_others(self, written: Mapping[int, Any], counted: "_Counted") -> Counter[Key]:
        """Count those that did not succeed. Returns how many of these were written, by owner."""
        others, errors = Counter[Key](), Counter[tuple[str, str]]()
        for nth, finish in enumerate(self._finishes, 1):
            key, ended = _key_of(finish), finish.attempt_state
            row = written.get(nth)
            if row is None:
                counted.add(key, ("ended_stale", 1))
            elif ended is not _SUCCEEDED:
                others[key] += 1
                counted.add(key, (f"ended_{ended}", 1), *_fate(row.state, finish.reason))
                if ended in (AttemptState.FAILED, AttemptState.TIMED_OUT):
                    errors[label_of(finish.job_type), label_of_error(finish.error_code)] += 1
        if errors:
            told = [((ERRORS, labels), ((TIMES, number),)) for labels, number in errors.items()]
            db.on_commit(partial(own.add_all, told))
        return others


def count_released(rows: Iterable[Any]) -> None:
    """Count triggers taken from a worker that is gone, or given up by one; their durations say nothing of handlers.

    A row without an attempt_state was reaped: its attempt is lost.
    """
    counted = _Counted()
    for row in rows:
        ended = getattr(row, "attempt_state", "lost")
        counted.add(_key_of(row), (f"ended_{ended}", 1), *_fate(row.state, row.reason))
    counted.keep()


def count_runs(events: Iterable[Any]) -> None:
    """Count runs of workflows by their events: the database ends them, so no process could count. Call in the
    transaction that reads each event once.
    """
    told: list[tuple[OwnKey, Iterable[tuple[str, int]]]] = []
    times: list[tuple[OwnKey, str, Sequence[float]]] = []
    for event in events:
        if event.kind in RUN_EVENTS:
            word, seconds = event.kind.removeprefix(_OF_RUNS), event.data.get("seconds")
            told.append(((RUNS, (word,)), ((TIMES, 1),)))
            if seconds is not None:
                times.append(((RUN_SECONDS, (word,)), SECONDS_SUM, (seconds,)))
    if told:
        db.on_commit(partial(own.add_all, told, times))


def _fate(state: str, reason: str) -> tuple[tuple[str, int], ...]:
    """The counts of a trigger whose attempt ended; a success is counted by its attempt alone."""
    if state == TriggerState.RETRYING:
        return (("retried", 1),)
    if state == TriggerState.DEAD:
        return ((f"buried_{reason}", 1),)
    return (("cancelled", 1),) if state == TriggerState.CANCELLED else ()


class _Counted(dict[Key, Counts]):
    """The counts and times of one statement's rows."""

    def __init__(self) -> None:
        self._times: list[tuple[Key, str, list[float]]] = []

    def add_times(self, key: Key, kind: str, seconds: list[float]) -> None:
        self._times.append((key, kind, seconds))

    def add(self, key: Key, *pairs: tuple[str, int]) -> None:
        """Add the key's (kind, count) pairs."""
        counts = self.get(key)
        if counts is None:
            counts = self[key] = {}
        for kind, number in pairs:
            counts[kind] = counts.get(kind, 0) + number

    def keep(self) -> None:
        """Count it all once it is committed."""
        if self:
            counted = [(key, counts.items()) for key, counts in self.items()]
            db.on_commit(partial(activity.add_all, counted, self._times))


def report(rows: Rows, own_rows: OwnRows) -> None:
    """Report a process's counts, and those of itself, for the present minute by the database's clock. Commits batch by
    batch. Takes reported counts out of both, so that the rest can be tried again after an error. After an uncertain
    outcome a batch may be counted twice.
    """
    while rows or own_rows:
        batch = list(islice(rows, BATCH))
        counts = [{"tenant_id": key[0], "job_type": key[1], **rows[key]} for key in batch]
        of_itself = [
            {"name": name, "labels": labels, "counts": numbers}
            for (name, labels), numbers in own_rows.items()
        ]
        _SQL["report"](
            size=len(counts) + len(of_itself),
            counts=orjson.dumps(counts).decode(),
            own=orjson.dumps(of_itself).decode(),
        )
        own_rows.clear()
        for key in batch:
            del rows[key]


def fold() -> bool:
    """Add the oldest reports to the record. Returns whether more may wait. Several processes may fold at once."""
    [row] = _SQL["fold"](reports=REPORTS, size=FOLDED, declared_types=DECLARED_TYPES)
    return bool(row.more)
