"""Jobs that miss firings while nothing runs, a beat that catches up with them, and the records that result."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta

from jobs.actions.ledger_audit import audit
from jobs.core.schedule import fire_times
from jobs.engine.firing.catchup import CatchUps
from jobs.engine.firing.pace import Pace
from jobs.models import CatchUp, Job, SkippedRange, Trigger
from jobs.store.jobs import schedule_of
from tests import factories
from tests.engine.conftest import Beat
from tests.factories import HOUR, SECOND

Clock = Callable[[timedelta], None]
DAY = 24 * HOUR
BUDGET = timedelta(seconds=30)


class Time:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def firings(job: Job) -> Counter[tuple[str, str, str]]:
    """(origin, state, reason) of the job's triggers due by now, with the number of triggers of each."""
    due = Trigger.objects.filter(job=job, scheduled_for__lte=factories.now())
    return Counter(due.values_list("origin", "state", "reason"))


def ranges(job: Job) -> list[tuple[str, int]]:
    return list(SkippedRange.objects.filter(job=job).order_by("from_at").values_list("reason", "count"))


def unaccounted(job: Job) -> list[datetime]:
    """Instants up to now with no record or with two; and ranges whose count is not the number of instants in them."""
    schedule, by = schedule_of(Job.objects.get(id=job.id)), factories.now()
    expected = fire_times(schedule, after=job.created_at, until=by, limit=1_000_000)
    recorded = Trigger.objects.filter(job=job, scheduled_for__lte=by)
    found = Counter(recorded.values_list("scheduled_for", flat=True))
    for record in SkippedRange.objects.filter(job=job):
        within = [at for at in expected if record.from_at <= at <= record.until_at]
        found.update(within)
        assert (len(within), within[0], within[-1]) == (record.count, record.from_at, record.until_at)
    assert found.keys() <= set(expected)
    return [at for at in expected if found[at] != 1]


def differences() -> list[tuple[str, datetime]]:
    found = audit(
        jobs=Job.objects.all(), since=factories.utc(2000, 1, 1), until=factories.now() - SECOND, keep=20
    )
    return [(kind, at) for result in found for kind, at, _ in result.differences]


class Engine:
    """A beat whose pace has a clock of its own; its queued triggers succeed at once."""

    def __init__(self, beat: Beat) -> None:
        self.beat, self.time = beat, Time()
        pace = Pace(monotonic=self.time)
        beat.cycle._pace, beat.cycle._catch_ups = pace, CatchUps(pace=pace)

    def turn(self) -> None:
        # Firings that run late are due one microsecond after another.
        factories.advance_clock(timedelta(milliseconds=1))
        self.beat.turn()
        done = {"state": "succeeded", "finished_at": factories.now()}
        Trigger.objects.filter(state="queued").update(**done)

    def settle(self, *, most: int = 1000) -> None:
        """Let seconds pass until there is nothing left to catch up with."""
        for _ in range(most):
            self.turn()
            self.time.seconds += 1
            unfinished = CatchUp.objects.filter(finished_at=None)
            waiting = Trigger.objects.filter(state="pending", due_at__lte=factories.now())
            if not unfinished.exists() and not waiting.exists():
                return
        raise AssertionError(f"still catching up after {most} turns: {list(unfinished.values())}")
