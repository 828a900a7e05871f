"""No cap is ever exceeded: three dispatchers, four workers, one of each killed, sampled every 50 ms (DESIGN §2.7, §8).

``CAPS_SECONDS`` says how long (``make chaos``: five minutes), ``SEED`` repeats the choice of the processes that are
killed. Without a lock of dispatch, or without one of its counts, the test fails within 20 s.
"""

import os
import random
import re
import time
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from stage.processes import kill_tree
from tests.cluster.caps import load, sampler
from tests.cluster.caps.sampler import Record, count, fullest, highest_by_stamps, sampling
from tests.cluster.stage import Stage
from tests.factories import make_attempt, make_job, make_tenant, make_trigger, make_triggers

SECONDS = float(os.environ.get("CAPS_SECONDS") or 20)
DISPATCHERS = 3
#: A cap that was reached in a smaller share of the samples was not put to the test.
REACHED = 0.05
START = datetime(2026, 1, 1, tzinfo=UTC)


def endure(stage: Stage, rng: random.Random) -> None:
    """Let the time pass; a worker and then a beat are killed on the way."""
    for prefix in ("worker", "beat"):
        time.sleep(SECONDS / 3)
        kill_tree(rng.choice(list(stage.pids(prefix).values())))
    time.sleep(SECONDS / 3)


def assert_paced(stage: Stage) -> str:
    """The rate-limited tenant got as much as its rate gives and no more, at once and in all. Returns the figures."""
    rows = stage.query(
        "SELECT queued_at, fence - crash_count - budget_start FROM jobs_trigger "
        "WHERE tenant_id = (SELECT id FROM tenants_tenant WHERE slug = 'paced') AND fence > 0"
    )
    moments = [moment for moment, _ in rows if moment]
    # Reap spends a fence with each crash, charged or not; dispatch spends all others.
    dispatched = sum(times for _, times in rows)
    seconds = (max(moments) - min(moments)).total_seconds()
    burst = fullest(moments, per_second=load.PER_SECOND)
    # While Redis is slow or away each beat counts by itself, by design (``jobs.limits``): a burst each.
    alone = len(re.findall("rate limits (slow|away)", stage.log_path.read_text()))
    bursts = load.BURST * (DISPATCHERS if alone else 1)
    allowed = load.PER_SECOND * seconds + bursts
    figures = (
        f"{dispatched} dispatched in {seconds:.1f} s of {allowed:.1f} allowed, a burst of {burst:.2f} of {bursts}, "
        f"rate limits slow or away {alone} times"
    )
    # Rounding may give a token more.
    assert dispatched < allowed + 1, figures
    assert burst < bursts + 1, figures
    assert dispatched >= allowed / 2, f"not put to the test: {figures}"
    return figures


@pytest.mark.cluster
class TestCaps:
    def test_are_reached_and_never_exceeded_by_three_dispatchers_and_four_workers(self, rng):
        with Stage(beats=DISPATCHERS, workers=4, **load.ENVIRONMENT) as stage:
            url = stage.environment["DATABASE_URL"]
            load.create(stage)
            with load.fed(url), load.jostled(url), sampling(url, load.CAPS | load.OTHER_CAPS) as record:
                endure(stage, rng)
            by_stamps = highest_by_stamps(stage.query(sampler.STRETCHES))
            report(record, by_stamps, stage)
            assert not record.excesses[:9], f"{len(record.excesses)} times too many in flight"
            over = {subject: n for subject, n in by_stamps.items() if n > record.caps.get(subject, n)}
            assert not over, f"exceeded between samples, by the stamps: {over}"
            idle = {
                subject: record.share(subject) for subject in load.CAPS if record.share(subject) < REACHED
            }
            assert not idle, f"not put to the test: {idle}"
            assert record.samples >= SECONDS / sampler.EVERY_SECONDS / 2
            print(assert_paced(stage))
            print(stage.manage("audit_firings"))
        assert stage.exit_status == 0


def report(record: Record, by_stamps: dict, stage: Stage) -> None:
    [(ended, attempts, lost, workers)] = stage.query(
        "SELECT (SELECT count(*) FROM jobs_trigger WHERE state = 'succeeded'), count(*), "
        "count(*) FILTER (WHERE state IN ('lost', 'stale')), count(DISTINCT worker) FROM jobs_attempt"
    )
    print(
        f"{record.samples} samples in {SECONDS:g} s, the longest pause {record.longest_pause_seconds:.3f} s"
    )
    print(f"{ended} firings succeeded in {attempts} attempts, {lost} of them lost, by {workers} workers")
    for subject, cap in record.caps.items():
        print(
            f"{subject[0]:6} {subject[1]:16} cap {cap:2}  highest {record.highest[subject]:2}"
            f"  by stamps {by_stamps[subject]:2}  reached in {record.share(subject):4.0%}"
        )


@pytest.mark.django_db
class TestSampler:
    """The sampler itself: its counts, and that it catches one too many of each kind."""

    def test_counts_what_is_queued_or_running_by_every_kind_of_cap(self) -> None:
        tenant = make_tenant(slug="acme")
        keyed = make_job(tenant, name="keyed", job_type="slow", concurrency_key="db")
        plain = make_job(tenant, name="plain", job_type="noop")
        make_triggers(keyed, 2, "queued")
        make_trigger(keyed, "running")
        make_trigger(plain, "running")
        for state in ("pending", "retrying", "succeeded", "dead"):
            make_trigger(plain, state)
        make_trigger(make_job(make_tenant(slug="other"), name="keyed", job_type="slow"), "queued")
        with connection.cursor() as cursor:
            assert count(cursor) == {
                ("tenant", "acme"): 4,
                ("tenant", "other"): 1,
                ("type", "slow"): 4,
                ("type", "noop"): 1,
                ("queue", "slow"): 3,
                ("queue", "noop"): 0,
                ("key", "acme/db"): 3,
                ("job", "acme/keyed"): 3,
                ("job", "acme/plain"): 1,
                ("job", "other/keyed"): 1,
            }

    @pytest.mark.parametrize(
        "subject",
        [
            ("tenant", "acme"),
            ("type", "noop"),
            ("queue", "noop"),
            ("key", "acme/db"),
            ("job", "acme/nightly"),
        ],
    )
    def test_says_which_cap_was_exceeded_and_by_how_much(self, subject: tuple[str, str]) -> None:
        job = make_job(make_tenant(slug="acme"), name="nightly", concurrency_key="db")
        record = Record({subject: 2})
        with connection.cursor() as cursor:
            for number in range(3):
                make_trigger(job, "queued")
                record.note(count(cursor), at=f"moment {number}")
        assert record.excesses == [f"{' '.join(subject)}: 3 of 2 at moment 2"]
        assert (record.highest[subject], round(record.share(subject), 2)) == (3, 0.67)

    def test_finds_by_their_stamps_what_was_in_flight_between_two_samples(self) -> None:
        job = make_job(make_tenant(slug="acme"), name="nightly", concurrency_key="db")
        for second, end in ((0, 4), (1, 3), (2, 9), (3, 9)):
            trigger = make_trigger(
                job,
                "succeeded",
                queued_at=START + timedelta(seconds=second),
                finished_at=START + timedelta(seconds=end),
            )
            make_attempt(trigger, "succeeded", started_at=START + timedelta(seconds=second + 1))
        with connection.cursor() as cursor:
            cursor.execute(sampler.STRETCHES)
            highest = highest_by_stamps(cursor.fetchall())
        # The trigger that ended in the third second made room for the one that was dispatched in it.
        assert highest == {
            ("tenant", "acme"): 3,
            ("type", "noop"): 3,
            ("queue", "noop"): 1,
            ("key", "acme/db"): 3,
            ("job", "acme/nightly"): 3,
        }

    @pytest.mark.parametrize(
        ("seconds", "burst"), [((), 0), ((0, 0.5, 1, 1.5), 1), ((0, 0, 0.5, 0.5), 3), ((0, 0, 9, 9, 9), 3)]
    )
    def test_finds_the_burst_that_a_rate_needs(self, seconds: tuple[float, ...], burst: float) -> None:
        assert fullest([START + timedelta(seconds=second) for second in seconds], per_second=2) == burst
