"""The audit counts where it may and looks where it must: it finds the same as a look at every single instant.

Random timelines, and ledgers that are right except for a few faults. 700 examples a run.
"""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.actions.ledger_audit.comparison import Comparison, Recorded
from jobs.actions.ledger_audit.expected import expected
from jobs.actions.ledger_audit.findings import JobAudit
from jobs.models import CatchUp, Job, JobVersion, SkippedRange
from tenants.models import Tenant
from tests.interfaces import instant_by_instant

#: Clocks change in Berlin a day later.
START = datetime(2026, 3, 28, 1, tzinfo=UTC)
MINUTE, TICK = timedelta(minutes=1), timedelta(microseconds=1)
LENGTH = 2 * 24 * 60
JOB_ID = UUID(int=1)
moments = st.one_of(
    st.integers(0, LENGTH).map(lambda minutes: START + minutes * MINUTE),
    st.integers(0, LENGTH * 60_000_000).map(lambda us: START + us * TICK),
)
PLAIN = {
    "cron_expression": "",
    "cron_dialect": "unix",
    "timezone": "UTC",
    "interval_seconds": None,
    "run_at": None,
    "starts_at": None,
    "ends_at": None,
    "dst_policy": "vixie",
    "created_at": START.isoformat(),
}
CRONS = ("*/7 * * * *", "30 1-3 * * *", "0 * * * *", "15 2 * * *", "*/30 2 * * SUN")


def text(moment: datetime | None) -> str | None:
    return moment and moment.isoformat()


@st.composite
def schedules(draw: st.DrawFn) -> dict[str, Any]:
    """The schedule of an entry of a timeline; some can no longer be computed."""
    kind = draw(st.sampled_from(("interval", "cron", "cron", "quartz", "once", "immediate")))
    own: dict[str, Any] = {"schedule_type": kind, "created_at": text(draw(moments))}
    if kind == "interval":
        own["interval_seconds"] = draw(st.sampled_from((60.0, 300.0, 617.25, 3600.0)))
    elif kind == "cron":
        zone = draw(st.sampled_from(("UTC", "Europe/Berlin", "Europe/Berlin", "Gone/Away")))
        own |= {"cron_expression": draw(st.sampled_from(CRONS)), "timezone": zone}
        own["dst_policy"] = draw(st.sampled_from(("vixie", "skip", "both")))
    elif kind == "quartz":
        own |= {"schedule_type": "cron", "cron_expression": "20 */4 * * * ?", "cron_dialect": "quartz"}
    elif kind == "once":
        own["run_at"] = text(draw(moments))
    if kind in ("interval", "cron"):
        own |= {name: text(draw(st.none() | st.none() | moments)) for name in ("starts_at", "ends_at")}
    return PLAIN | own


@st.composite
def timelines(draw: st.DrawFn) -> tuple[Job, list[JobVersion]]:
    number = draw(st.integers(1, 4))
    starts = sorted([START, *(draw(moments) for _ in range(number - 1))])
    if number > 1 and draw(st.booleans()):
        # One edit shortly after another.
        starts[-1] = starts[-2] + draw(st.integers(0, 90)) * timedelta(seconds=1)
    several = [draw(schedules()) for _ in range(draw(st.integers(1, number)))]
    statuses = st.sampled_from(("active", "active", "active", "paused", "cancelled", "completed"))
    timeline = []
    for valid_from in starts:
        schedule = draw(st.sampled_from(several))
        if schedule["schedule_type"] in ("once", "immediate") and draw(st.booleans()):
            # A time that just passed, or one that the entry before it may name as well.
            name = "run_at" if schedule["schedule_type"] == "once" else "created_at"
            near = valid_from - draw(st.sampled_from((0, 1, 20, 59, 60, 61))) * timedelta(seconds=1)
            schedule = schedule | {
                name: text(draw(st.sampled_from((near, near.replace(second=0, microsecond=0)))))
            }
        timeline.append(JobVersion(valid_from=valid_from, status=draw(statuses), schedule=schedule))
    paused = draw(st.booleans())
    return (
        Job(
            tenant=Tenant(),
            status="paused" if paused else "active",
            next_fire_at=draw(st.none() | moments),
            created_at=START,
        ),
        timeline,
    )


class Ledger:
    """Records made run by run along the instants. Each run has another fate."""

    FATES = (
        "trigger",
        "trigger",
        "catchup",
        "range",
        "range",
        "backfill",
        "backfilled range",
        "in hand",
        "tail",
    )
    FAULTS = ("gone", "twice", "two ranges", "late range")

    def __init__(self) -> None:
        self.triggers: dict[datetime, Recorded] = {}
        self.ranges: list[SkippedRange] = []
        self.in_hand: list[CatchUp] = []

    def record(self, at: datetime, origin: str, withdrawn: bool | None = None, replays: int = 0) -> None:
        self.triggers[at] = Recorded(JOB_ID, at, origin, withdrawn, replays)

    def skip(self, from_at: datetime, until_at: datetime, count: int) -> None:
        self.ranges.append(SkippedRange(from_at=from_at, until_at=until_at, count=count))

    def catch_up(self, cursor: datetime, until_at: datetime, tail: list[datetime]) -> None:
        self.in_hand.append(CatchUp(cursor=cursor, until_at=until_at, tail=tail))

    def add(self, fate: str, run: list[datetime]) -> None:
        first, last = run[0], run[-1]
        if fate in ("trigger", "twice", "late range"):
            for at in run:
                self.record(at, "schedule")
        if fate in ("catchup", "backfill", "backfilled range"):
            for at in run:
                self.record(at, fate.split("ed ")[0].replace(" range", ""))
        if fate in ("range", "backfilled range", "two ranges"):
            self.skip(first, last, len(run))
        if fate in ("two ranges", "late range"):
            middle = run[len(run) // 2 :]
            self.skip(middle[0], last, len(middle))
        if fate == "twice":
            self.skip(last, last + MINUTE / 2, 1)
        if fate == "in hand":
            self.catch_up(first - TICK, last, [])
        if fate == "tail":
            self.catch_up(last, last, run)


@st.composite
def ledgers(draw: st.DrawFn, instants: list[datetime]) -> Ledger:
    ledger = Ledger()
    fates = st.sampled_from(Ledger.FATES + (Ledger.FAULTS if draw(st.booleans()) else ()))
    left = instants
    while left:
        length = draw(st.sampled_from((1, 2, 5, 30, 200)))
        ledger.add(draw(fates), left[:length])
        left = left[length:]
    for at in draw(st.lists(moments, max_size=3)):
        # Records beside the schedule: by hand, withdrawn before they were due, replayed, or for no known reason.
        origin = draw(st.sampled_from(("schedule", "catchup", "run_now", "backfill")))
        withdrawn = draw(st.sampled_from((None, False, True)))
        ledger.record(at, origin, withdrawn, draw(st.integers(0, 1)))
    for from_at, until_at in draw(st.lists(st.tuples(moments, moments).map(sorted), max_size=2)):
        if draw(st.booleans()):
            held = sum(from_at <= at <= until_at for at in instants)
            ledger.skip(from_at, until_at, max(1, held + draw(st.sampled_from((-1, 0, 1)))))
        else:
            ledger.catch_up(from_at, until_at, [])
    return ledger


class TestTheAudit:
    @settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))
    @given(timelines(), st.tuples(moments, moments), st.sampled_from((0, 1, 3, 1000)), st.data())
    def test_finds_what_looking_at_every_instant_finds(
        self,
        drawn: tuple[Job, list[JobVersion]],
        ends: tuple[datetime, datetime],
        keep: int,
        data: st.DataObject,
    ) -> None:
        job, timeline = drawn
        whole = instant_by_instant.instants(JobAudit(job, 0), timeline, START, START + LENGTH * MINUTE)
        ledger = data.draw(ledgers(sorted(whole)))
        since, until = sorted(ends) if data.draw(st.booleans()) else (START - MINUTE, START + LENGTH * MINUTE)
        timeline = [entry for entry in timeline if entry.valid_from <= until]
        ranges = [each for each in ledger.ranges if each.until_at >= since and each.from_at <= until]
        recorded = [ledger.triggers[at] for at in sorted(ledger.triggers) if since <= at <= until]
        ranges.sort(key=lambda each: each.from_at)

        found = JobAudit(job, keep)
        pieces = expected(found, timeline, since=since, until=until)
        Comparison(found, pieces=pieces, ranges=ranges, in_hand=ledger.in_hand).run(
            recorded, since=since, until=until
        )
        oracle = instant_by_instant.audit_job(
            job,
            timeline=timeline,
            ranges=ranges,
            in_hand=ledger.in_hand,
            recorded=recorded,
            since=since,
            until=until,
        )
        assert found.unproven == oracle.unproven
        assert (found.instants, found.counts) == (oracle.instants, oracle.counts)
        assert found.differences == oracle.differences[:keep]

    @settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
    @given(timelines(), st.data())
    def test_finds_nothing_in_a_ledger_that_is_right(
        self, drawn: tuple[Job, list[JobVersion]], data: st.DataObject
    ) -> None:
        job, timeline = drawn
        until = START + LENGTH * MINUTE
        left = sorted(instant_by_instant.instants(JobAudit(job, 0), timeline, START, until))
        ledger, fates = Ledger(), st.sampled_from(Ledger.FATES)
        while left:
            length = data.draw(st.sampled_from((1, 2, 5, 30, 200)))
            ledger.add(data.draw(fates), left[:length])
            left = left[length:]
        found = JobAudit(job, 10)
        pieces = expected(found, timeline, since=START, until=until)
        triggers = [ledger.triggers[at] for at in sorted(ledger.triggers)]
        Comparison(found, pieces=pieces, ranges=ledger.ranges, in_hand=ledger.in_hand).run(
            triggers, since=START, until=until
        )
        assert found.counts == Counter()
