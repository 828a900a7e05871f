"""Activity: what statements of the store decided is counted in memory, once it is committed; then added on record.

Counting asks no statement: it goes by what a statement returned. ``add`` writes a process's counts to the present
minute and to the totals that ``/metrics`` shows.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

import orjson

from jobs.activity import Key, OwnRows, Rows, activity, own
from jobs.core.activity import (
    DECLARED_TYPES,
    DURATION_BUCKETS,
    DURATION_SUM,
    LAG_BUCKETS,
    LAG_SUM,
    SKIPS,
    TIMES,
    label_of,
    label_of_error,
    timed,
)
from jobs.core.states import AttemptState, TriggerState
from jobs.store import db

_SQL = db.queries("activity")
#: Rows a statement writes at most: so many, and it is over in some milliseconds.
BATCH = 500
#: What processes tell of attempts that failed, by job type and error code.
ERRORS = "attempt_errors"


def count(rows: Iterable[Any], kind: str) -> None:
    """One ``kind`` for each row with a tenant_id and a job_type."""
    keys = Counter((row.tenant_id, row.job_type) for row in rows)
    _keep([(key, ((kind, number),)) for key, number in keys.items()])


def count_skips(skips: Iterable[tuple[Any, str, int]]) -> None:
    """Firings that were recorded as skipped: whose they are (tenant_id, job_type), the reason, and how many."""
    _keep([((of.tenant_id, of.job_type), ((f"skipped_{reason}", number),)) for of, reason, number in skips])


def count_ended(rows: Iterable[Any]) -> None:
    """Triggers that were skipped or cancelled, each with its reason."""
    kinds = Counter((row.tenant_id, row.job_type, SKIPS.get(row.reason, "cancelled")) for row in rows)
    _keep([((tenant_id, job_type), ((kind, n),)) for (tenant_id, job_type, kind), n in kinds.items()])


def count_cancelled(rows: Iterable[Any]) -> None:
    """Those of the rows that are cancelled; the others were asked to stop, and are counted when they do."""
    count((row for row in rows if row.state == TriggerState.CANCELLED), "cancelled")


def count_started(rows: Iterable[Any]) -> None:
    """Attempts that a claim started."""
    _keep(
        [
            (
                (row.tenant_id, row.job_type),
                (
                    ("started", 1),
                    *timed((row.attempt_started_at - row.due_at).total_seconds(), LAG_SUM, LAG_BUCKETS),
                ),
            )
            for row in rows
        ]
    )


def count_finished(
    finishes: Iterable[Any], states: Mapping[UUID, TriggerState], seconds: Mapping[UUID, float]
) -> None:
    """Outcomes: how each attempt ended, how long it took, and what became of its trigger; one without a state is stale.

    ``finishes``: of ``execution.Finish``.
    """
    counted, errors = [], Counter[tuple[str, str]]()
    for finish in finishes:
        state = states.get(finish.token.id)
        if state is None:
            counts: list[tuple[str, int]] = [("ended_stale", 1)]
        else:
            if finish.attempt_state in (AttemptState.FAILED, AttemptState.TIMED_OUT):
                errors[label_of(finish.job_type), label_of_error(finish.error_code)] += 1
            duration = timed(seconds[finish.token.id], DURATION_SUM, DURATION_BUCKETS)
            counts = [(f"ended_{finish.attempt_state}", 1), *duration, *_fate(state, finish.reason)]
        counted.append(((finish.tenant_id, finish.job_type), counts))
    _keep(counted)
    if errors:
        told = [((ERRORS, labels), ((TIMES, number),)) for labels, number in errors.items()]
        db.on_commit(partial(own.add_all, told))


def count_released(rows: Iterable[Any]) -> None:
    """Triggers taken from a worker that is gone, or given up by one; how long they took says nothing of handlers.

    A row without an attempt_state was reaped: its attempt is lost.
    """
    _keep(
        [
            (
                (row.tenant_id, row.job_type),
                (
                    (f"ended_{getattr(row, 'attempt_state', 'lost')}", 1),
                    *_fate(TriggerState(row.state), row.reason),
                ),
            )
            for row in rows
        ]
    )


def _fate(state: TriggerState, reason: str) -> tuple[tuple[str, int], ...]:
    """What became of a trigger whose attempt ended; that it succeeded is told by the attempt."""
    if state is TriggerState.RETRYING:
        return (("retried", 1),)
    if state is TriggerState.DEAD:
        return ((f"buried_{reason}", 1),)
    return (("cancelled", 1),) if state is TriggerState.CANCELLED else ()


def _keep(counted: Sequence[tuple[Key, Iterable[tuple[str, int]]]]) -> None:
    if counted:
        db.on_commit(partial(activity.add_all, counted))


def add(rows: Rows) -> None:
    """Add counts to the present minute, by the database's clock. Commits batch by batch; takes from ``rows`` what is
    written, so that what is left after an error can be tried again. After an uncertain outcome a batch may be counted
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
    """Add what a process tells of itself to the totals. All of it or nothing."""
    documents = [
        {"name": name, "labels": labels, "kind": kind, "count": number}
        for (name, labels), counts in sorted(rows.items())
        for kind, number in sorted(counts.items())
    ]
    _SQL["add_own"](rows=orjson.dumps(documents).decode())
