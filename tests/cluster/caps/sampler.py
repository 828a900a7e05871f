"""The triggers in flight, counted in one statement every 50 ms, and checked against the caps (DESIGN §2.7)."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import psycopg

#: The subject of a cap: its kind (tenant, type, key, job: queued and running; queue: queued alone) and its name.
Subject = tuple[str, str]
EVERY_SECONDS = 0.05

#: Keys are the jobs' own, not those that dispatch has noted.
_IN_FLIGHT = """
    FROM jobs_trigger t
    JOIN jobs_job job ON job.id = t.job_id
    JOIN tenants_tenant tenant ON tenant.id = t.tenant_id"""

#: One statement, so one moment.
COUNTS = f"""
    SELECT tenant.slug, t.job_type, job.concurrency_key, job.name, count(*), count(*) FILTER (WHERE t.state = 'queued')
    {_IN_FLIGHT}
    WHERE t.state IN ('queued', 'running')
    GROUP BY GROUPING SETS (
        (tenant.slug), (t.job_type), (tenant.slug, job.concurrency_key), (tenant.slug, job.name))"""

#: From dispatch over claim to end. For a trigger that was dispatched again only the last time is on record. Cancelled
#: triggers are left out: they may have waited for a retry meanwhile.
STRETCHES = f"""
    SELECT tenant.slug, t.job_type, job.concurrency_key, job.name, t.queued_at,
           (SELECT a.started_at FROM jobs_attempt a WHERE a.trigger_id = t.id AND a.fence = t.fence), t.finished_at
    {_IN_FLIGHT}
    WHERE t.state IN ('queued', 'running', 'succeeded', 'dead') AND t.queued_at IS NOT NULL"""


class Record:
    """The samples. ``excesses`` says which cap was exceeded, by how much and when; it must stay empty."""

    def __init__(self, caps: Mapping[Subject, int]) -> None:
        self.caps = caps
        self.samples = 0
        self.longest_pause_seconds = 0.0
        self.highest: Counter[Subject] = Counter()
        self.excesses: list[str] = []
        self._reached: Counter[Subject] = Counter()

    def note(self, uses: Mapping[Subject, int], *, at: object) -> None:
        """Add one sample. A use without a cap is ignored."""
        self.samples += 1
        for subject, used in uses.items():
            cap = self.caps.get(subject)
            if cap is None:
                continue
            self.highest[subject] = max(self.highest[subject], used)
            self._reached[subject] += used >= cap
            if used > cap:
                self.excesses.append(f"{' '.join(subject)}: {used} of {cap} at {at}")

    def share(self, subject: Subject) -> float:
        """The share of the samples in which the cap was reached."""
        return self._reached[subject] / self.samples if self.samples else 0.0


def count(cursor: Any) -> dict[Subject, int]:
    """How many triggers are in flight at this moment, by subject."""
    cursor.execute(COUNTS)
    uses: dict[Subject, int] = {}
    for tenant, job_type, key, job, in_flight, queued in cursor.fetchall():
        if job_type is not None:
            uses["type", job_type], uses["queue", job_type] = in_flight, queued
        elif job is not None:
            uses["job", f"{tenant}/{job}"] = in_flight
        elif key is None:
            uses["tenant", tenant] = in_flight
        elif key:
            uses["key", f"{tenant}/{key}"] = in_flight
    return uses


@contextmanager
def sampling(database_url: str, caps: Mapping[Subject, int]) -> Iterator[Record]:
    """Sample beside the block until it ends."""
    record, last = Record(caps), time.monotonic()

    def sample(cursor: Any) -> None:
        nonlocal last
        record.note(count(cursor), at=datetime.now(UTC))
        now = time.monotonic()
        record.longest_pause_seconds = max(record.longest_pause_seconds, now - last)
        last = now

    with repeating(sample, database_url=database_url, every_seconds=EVERY_SECONDS):
        yield record


@contextmanager
def repeating(action: Callable[[Any], None], *, database_url: str, every_seconds: float) -> Iterator[None]:
    """Call ``action`` with a cursor of its own, beside the block; if it fails, the block fails at its end."""
    over = threading.Event()

    def repeat() -> None:
        turn = time.monotonic()
        with psycopg.connect(database_url, autocommit=True) as connection, connection.cursor() as cursor:
            while not over.wait(max(0.0, turn - time.monotonic())):
                turn = max(turn + every_seconds, time.monotonic())
                action(cursor)

    with ThreadPoolExecutor(max_workers=1) as beside:
        failure = beside.submit(repeat)
        try:
            yield
        finally:
            over.set()
    failure.result()


def highest_by_stamps(stretches: Iterable[Any]) -> Counter[Subject]:
    """The most in flight at any moment, by the rows' own stamps: a sample may miss a short stretch.

    A row is dispatched only after the ends that make room for it are committed, and each stamp is taken before its
    commit: where a cap holds, the stamps never show more.
    """
    steps: list[tuple[datetime, int, Subject]] = []
    for tenant, job_type, key, job, queued_at, claimed_at, finished_at in stretches:
        subjects = [("tenant", tenant), ("type", job_type), ("job", f"{tenant}/{job}")]
        subjects += [("key", f"{tenant}/{key}")] if key else []
        ends = [(subject, finished_at) for subject in subjects]
        ends += [(("queue", job_type), claimed_at)] if claimed_at else []
        for subject, end in ends:
            steps.append((queued_at, 1, subject))
            steps += [(end, -1, subject)] if end else []
    highest: Counter[Subject] = Counter()
    level: Counter[Subject] = Counter()
    for _, step, subject in sorted(steps):  # in the same microsecond, ends come first
        level[subject] += step
        highest[subject] = max(highest[subject], level[subject])
    return highest


def fullest(moments: Iterable[datetime], *, per_second: float) -> float:
    """The burst that these moments need: the most in a bucket that leaks ``per_second`` and gets one at each moment."""
    level = most = 0.0
    last: datetime | None = None
    for moment in sorted(moments):
        level -= (moment - last).total_seconds() * per_second if last else 0.0
        level, last = max(0.0, level) + 1, moment
        most = max(most, level)
    return most
