"""One job's instants compared with its records, in one pass over the moments at which anything changes.

Such a moment is the beginning or end of a piece of the timeline, of a range or of catch-up, or the time of a trigger.
Between two of them all instants share one fate, and it is enough to count them.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from operator import itemgetter
from typing import NamedTuple
from uuid import UUID

from jobs.actions.ledger_audit.expected import TICK, Piece
from jobs.actions.ledger_audit.findings import JobAudit
from jobs.core.calendar.timetable import Listed, Timetable
from jobs.models import CatchUp, Origin, SkippedRange

_SCHEDULED = frozenset((Origin.SCHEDULE.value, Origin.CATCHUP.value))
_NO_TIMES = Listed(())
#: The order of changes at one moment: first ends, then beginnings, then changes to pieces that have begun.
_ENDS, _BEGINS, _THEN = range(3)
_Change = tuple[datetime, int, Callable[[], None]]


class Recorded(NamedTuple):
    """The facts that the audit reads of a trigger. ``withdrawn``: it ended before its time."""

    job_id: UUID
    at: datetime
    origin: str
    withdrawn: bool | None
    replay_count: int

    @property
    def is_scheduled(self) -> bool:
        """Firings asked for by hand stand beside the schedule."""
        return self.origin in _SCHEDULED

    @property
    def must_be_expected(self) -> bool:
        """A trigger that was withdrawn by hand beforehand may outlive its schedule."""
        return self.is_scheduled and not self.withdrawn and not self.replay_count


class Comparison:
    """Notes every difference in ``result``; runs once.

    ``pieces`` are the job's timeline as ``expected`` gives it, ``ranges`` its ranges of skipped firings, ``in_hand``
    its unfinished catch-up after outages.
    """

    def __init__(
        self,
        result: JobAudit,
        *,
        pieces: Sequence[Piece],
        ranges: Sequence[SkippedRange],
        in_hand: Sequence[CatchUp],
    ) -> None:
        self._result = result
        self._ranges = ranges
        self._counted = [0] * len(ranges)
        # The state where the pass has come to, and how many of the instants of ``_times`` it has gone by.
        self._times: Timetable = _NO_TIMES
        self._gone_by = 0
        self._demanded = False
        self._open: set[int] = set()
        self._in_hand = 0
        changes = [*self._of_pieces(pieces), *self._of_ranges(), *self._of_catch_up(in_hand)]
        self._changes = deque(sorted(changes, key=itemgetter(0, 1)))

    def run(self, recorded: Iterable[Recorded], *, since: datetime, until: datetime) -> None:
        """``recorded`` are the job's triggers from ``since`` to ``until`` in the order of time.

        A range that reaches over either covers instants like any other; its count must only be large enough.
        """
        for record in recorded:
            self._change_up_to(record.at)
            self._compare(record)
        if self._changes:
            self._change_up_to(self._changes[-1][0])
        for skipped, counted in zip(self._ranges, self._counted, strict=True):
            whole = since <= skipped.from_at and skipped.until_at <= until
            fits = counted == skipped.count if whole else counted <= skipped.count
            if not fits and not self._result.is_unproven(skipped.from_at):
                detail = f"the range to {skipped.until_at} counts {skipped.count}, the schedule {counted}"
                self._result.add("miscounted", skipped.from_at, detail)

    def _of_pieces(self, pieces: Sequence[Piece]) -> Iterator[_Change]:
        for piece in pieces:
            yield piece.after + TICK, _BEGINS, partial(self._begin, piece)
            if piece.after < piece.optional_from <= piece.until:
                yield piece.optional_from, _THEN, self._only_allow
            yield piece.until + TICK, _ENDS, self._end

    def _of_ranges(self) -> Iterator[_Change]:
        for index, skipped in enumerate(self._ranges):
            yield skipped.from_at, _BEGINS, partial(self._open.add, index)
            yield skipped.until_at + TICK, _ENDS, partial(self._open.remove, index)

    def _of_catch_up(self, in_hand: Sequence[CatchUp]) -> Iterator[_Change]:
        """The instants that catch-up still has to decide."""
        for row in in_hand:
            stretches = [(at, at) for at in row.tail]
            if row.cursor < row.until_at:
                stretches.append((row.cursor + TICK, row.until_at))
            for first, last in stretches:
                yield first, _BEGINS, partial(self._take, 1)
                yield last + TICK, _ENDS, partial(self._take, -1)

    def _begin(self, piece: Piece) -> None:
        self._times, self._gone_by = piece.times, piece.times.rank(piece.after)
        self._demanded = piece.optional_from > piece.after

    def _only_allow(self) -> None:
        self._demanded = False

    def _end(self) -> None:
        self._times, self._gone_by = _NO_TIMES, 0

    def _take(self, step: int) -> None:
        self._in_hand += step

    def _change_up_to(self, at: datetime) -> None:
        while self._changes and self._changes[0][0] <= at:
            moment, _, change = self._changes.popleft()
            self._go_by(self._times.rank(moment - TICK))
            change()

    def _compare(self, record: Recorded) -> None:
        """Compare the instants before a trigger, and the one it stands at."""
        rank = self._times.rank(record.at)
        named = rank > self._gone_by and self._times.nth(rank - 1) == record.at
        self._go_by(rank - named)
        if named:
            self._gone_by = rank
            self._count(1)
            records = len(self._open) + record.is_scheduled
            if records > 1:
                self._result.add("twice", record.at, f"in {records} records")
        elif record.must_be_expected and not self._result.is_unproven(record.at):
            detail = f"a trigger ({record.origin}) for an instant no schedule names"
            self._result.add("unexpected", record.at, detail)

    def _go_by(self, rank: int) -> None:
        """Compare the instants without a trigger, up to that rank."""
        first, self._gone_by = self._gone_by, rank
        number = rank - first
        if not number:
            return
        self._count(number)
        if len(self._open) > 1:
            self._note("twice", first, number, f"in {len(self._open)} records")
        elif self._demanded and not self._open and not self._in_hand:
            self._note("missing", first, number, "no trigger, no range")

    def _count(self, number: int) -> None:
        self._result.instants += number * self._demanded
        for index in self._open:
            self._counted[index] += number

    def _note(self, kind: str, first: int, number: int, detail: str) -> None:
        times = self._times
        self._result.add_all(kind, number, lambda index: times.nth(first + index), detail)
