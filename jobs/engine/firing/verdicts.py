"""What becomes of missed firings: the table of DESIGN §9, applied stretch by stretch. Pure.

Instants come in ascending chunks; the newest that the policy lets run are carried from chunk to chunk in a *tail*, so
that however long an outage was, no more than a chunk and a tail are ever held.
"""

from bisect import bisect_left
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from jobs.core.policies import MisfirePolicy


class Decided(NamedTuple):
    """``misfired`` are older than ``passed_over``; ``tail`` is newer than both, and runs unless pushed out later."""

    misfired: Sequence[datetime]
    passed_over: Sequence[datetime]
    tail: Sequence[datetime]


def most_to_run(policy: str, *, max_catchup: int) -> int:
    """How many missed firings the policy lets run; ``fire_all`` runs every one and is not asked."""
    return {MisfirePolicy.SKIP: 0, MisfirePolicy.FIRE_ONCE: 1, MisfirePolicy.BACKFILL: max_catchup}[
        MisfirePolicy(policy)
    ]


def reason_within_window(policy: str) -> str:
    """Why a firing does not run that the catch-up window would have let run."""
    return "coalesced" if policy == MisfirePolicy.FIRE_ONCE else "misfire"


def decide(
    tail: Sequence[datetime], chunk: Sequence[datetime], *, keep: int, window_start: datetime, last: bool
) -> Decided:
    """Carry the newest ``keep`` on; with the ``last`` chunk, drop those older than the window from the tail as well."""
    pool = [*tail, *chunk] if tail else chunk
    cut = max(0, len(pool) - keep)
    old = bisect_left(pool, window_start)
    if last:
        cut = max(cut, old)
    old = min(old, cut)
    return Decided(pool[:old], pool[old:cut], pool[cut:])
