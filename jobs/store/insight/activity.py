"""Activity: decisions of the store's statements are counted in memory, once committed; then added to the record.

Counting needs no statement of its own: it goes by the rows that a statement returned. ``add`` writes a process's counts
to the present minute and to the totals that ``/metrics`` shows.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from operator import attrgetter
from typing import Any
from uuid import UUID

import orjson

from jobs.activity import Key, OwnKey, OwnRows, Rows, activity, own
from jobs.core.activity import (
    DECLARED_TYPES,
    DURATION_BUCKETS,
    DURATION_SUM,
    LAG_BUCKETS,
    LAG_SUM,
    SECONDS_BUCKETS,
    SECONDS_SUM,
    SKIPS,
    TIMES,
    Counts,
    label_of,
    label_of_error,
    timed,
)
from jobs.core.states import AttemptState, TriggerState
from jobs.models.firings.trigger import Origin
from jobs.store import db

_SQL = db.queries("activity")
#: The most rows that a statement writes: with so many it is over in some milliseconds.
BATCH = 500
#: Processes' counts of attempts that failed, by job type and error code.
ERRORS = "attempt_errors"
#: Counts of workflow runs by their event, and how long they took, by their end.
RUNS, RUN_SECONDS = "workflow_runs", "workflow_run_seconds"
_OF_RUNS = "workflow_run."
#: Kinds of events that are counted.
RUN_EVENTS = tuple(f"{_OF_RUNS}{word}" for word in ("started", "retried", "succeeded", "failed", "cancelled"))


#: Asked several times for each firing: in C it takes a third less.
_key_of: Callable[[Any], Key] = attrgetter("tenant_id", "job_type")
_SUCCEEDED = AttemptState.SUCCEEDED


def count(rows: Iterable[Any], kind: str) -> None:
    """Count one ``kind`` for each row, which has a tenant_id and a job_type."""
    counted = _Counted()
    for key, number in Counter(map(_key_of, rows)).items():
        counted.add(key, (kind, number))
    counted.keep()


def count_first(rows: Iterable[Any]) -> None:
    """Count as created the rows that are tasks of workflows and were never queued before: they are being queued, or
    have ended instead. The database makes them at others' commits, where no process could count.

    Each row has its ``fence`` and ``replay_count`` from before it was queued.
    """
    count(
        (row for row in rows if row.origin == Origin.WORKFLOW and not row.fence and not row.replay_count),
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
    for row in rows:
        lags[_key_of(row)].append((row.attempt_started_at - row.due_at).total_seconds())
    counted = _Counted()
    for key, seconds in lags.items():
        counted.add(key, ("started", len(seconds)), *timed(seconds, LAG_SUM, LAG_BUCKETS))
    counted.keep()


def count_finished(finishes: Iterable[Any], written: Mapping[UUID, Any]) -> None:
    """Count outcomes: how each attempt ended, how long it took, and the new state of its trigger.

    ``finishes``: of ``execution.Finish``. ``written``: state and seconds by trigger; an outcome without them was stale.
    """
    durations = defaultdict[Key, list[float]](list)
    successes, errors = Counter[Key](), Counter[tuple[str, str]]()
    counted = _Counted()
    for finish in finishes:
        key = _key_of(finish)
        row = written.get(finish.token.id)
        if row is None:
            counted.add(key, ("ended_stale", 1))
            continue
        durations[key].append(row.seconds)
        ended = finish.attempt_state
        if ended is _SUCCEEDED:
            successes[key] += 1
            continue
        counted.add(key, (f"ended_{ended}", 1), *_fate(row.state, finish.reason))
        if ended in (AttemptState.FAILED, AttemptState.TIMED_OUT):
            errors[label_of(finish.job_type), label_of_error(finish.error_code)] += 1
    for key, seconds in durations.items():
        counted.add(key, *timed(seconds, DURATION_SUM, DURATION_BUCKETS))
    for key, number in successes.items():
        counted.add(key, (f"ended_{_SUCCEEDED}", number))
    counted.keep()
    if errors:
        told = [((ERRORS, labels), ((TIMES, number),)) for labels, number in errors.items()]
        db.on_commit(partial(own.add_all, told))


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
    for event in events:
        if event.kind in RUN_EVENTS:
            word, seconds = event.kind.removeprefix(_OF_RUNS), event.data.get("seconds")
            told.append(((RUNS, (word,)), ((TIMES, 1),)))
            if seconds is not None:
                told.append(((RUN_SECONDS, (word,)), timed((seconds,), SECONDS_SUM, SECONDS_BUCKETS)))
    if told:
        db.on_commit(partial(own.add_all, told))


def _fate(state: str, reason: str) -> tuple[tuple[str, int], ...]:
    """The counts of a trigger whose attempt ended; a success is counted by its attempt alone."""
    if state == TriggerState.RETRYING:
        return (("retried", 1),)
    if state == TriggerState.DEAD:
        return ((f"buried_{reason}", 1),)
    return (("cancelled", 1),) if state == TriggerState.CANCELLED else ()


class _Counted(dict[Key, Counts]):
    """The counts of one statement's rows."""

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
            db.on_commit(partial(activity.add_all, [(key, counts.items()) for key, counts in self.items()]))


def add(rows: Rows) -> None:
    """Add counts to the present minute, by the database's clock. Commits batch by batch. Takes written counts out of
    ``rows``, so that the rest can be tried again after an error. After an uncertain outcome a batch may be counted
    twice.
    """
    keys = sorted(rows)
    for first in range(0, len(keys), BATCH):
        batch = keys[first : first + BATCH]
        documents: list[dict[str, Any]] = [
            {"tenant_id": tenant_id, "job_type": job_type, **rows[tenant_id, job_type]}
            for tenant_id, job_type in batch
        ]
        _SQL["add"](rows=orjson.dumps(documents).decode(), declared_types=DECLARED_TYPES)
        for key in batch:
            del rows[key]


def add_own(rows: OwnRows) -> None:
    """Add a process's counts of itself to the totals. All of them or none."""
    documents = [
        {"name": name, "labels": labels, "kind": kind, "count": number}
        for (name, labels), counts in sorted(rows.items())
        for kind, number in sorted(counts.items())
    ]
    _SQL["add_own"](rows=orjson.dumps(documents).decode())
