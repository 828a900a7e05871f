"""Samples of queues over time: the leader's figures are kept by steps, the highest of each, and forgotten in time."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from jobs.core.activity import DECLARED_TYPES
from jobs.models import QueueSample
from jobs.store.insight import workers
from jobs.store.insight.outcomes import SPANS
from jobs.store.insight.series import samples
from tests import factories
from tests.factories import HOUR, MINUTE, SECOND, make_job, make_trigger

pytestmark = pytest.mark.django_db
Clock = Callable[[timedelta], None]


def latest(job_type: str = "", step: int = 30) -> dict[str, float]:
    row = QueueSample.objects.filter(job_type=job_type, step_seconds=step).latest("at")
    return {name: getattr(row, name) for name in samples.FIGURES}


class TestTaking:
    def test_keeps_what_waits_and_runs_by_type_and_of_all(self) -> None:
        make_trigger(state="queued")
        for state in ("running", "running", "pending"):
            make_trigger(make_job(job_type="webhook"), state)
        make_trigger(make_job(job_type="own@7"), "queued")
        workers.announce(name="w1", queues=["jobs.noop", "jobs.webhook"], concurrency=4)
        samples.take()
        assert latest() | {"lag_seconds": 0} == {
            "due": 1, "parked": 0, "queued": 2, "running": 2, "slots": 4, "lag_seconds": 0,
        }  # fmt: skip
        assert latest("webhook")["lag_seconds"] >= 1
        assert (latest("webhook")["running"], latest("noop")["slots"]) == (2, 4)
        assert latest(DECLARED_TYPES)["queued"] == 1

    def test_keeps_the_most_of_a_step_and_the_last_of_the_slots(self, clock: Clock) -> None:
        next_hour = timedelta(seconds=3600 - factories.now().timestamp() % 3600)
        clock(next_hour)
        trigger = make_trigger(state="running")
        workers.announce(name="w1", queues=["jobs.noop"], concurrency=4)
        samples.take()
        trigger.delete()
        clock(next_hour + MINUTE)
        workers.announce(name="w1", queues=["jobs.noop"], concurrency=2)
        samples.take()
        assert (latest(step=30)["running"], latest(step=600)["running"]) == (0, 1)
        assert (latest(step=600)["slots"], latest(step=3600)["running"]) == (2, 1)

    def test_done_twice_is_as_done_once(self) -> None:
        make_trigger(state="queued")
        samples.take()
        once = latest()["queued"], QueueSample.objects.count()
        samples.take()
        assert latest()["queued"] == once[0] == 1
        # A step of half a minute may have begun between the two samples.
        assert QueueSample.objects.filter(step_seconds=3600).count() <= 4


class TestASeries:
    @pytest.mark.parametrize("span", SPANS)
    def test_has_a_place_for_each_bucket_and_none_where_nobody_looked(self, span: str) -> None:
        make_trigger(state="queued")
        samples.take()
        _, _, seen = samples.series(window=SPANS[span])
        assert seen[-1] is not None
        assert seen[-1]["queued"] == 1
        assert seen[:-2] == [None] * (len(seen) - 2)

    def test_reads_a_bounded_number_of_rows(self) -> None:
        for span in SPANS.values():
            step = next(step for step, kept in samples.STEPS.items() if span.span <= kept)
            assert (span.span + span.bucket) / step <= samples.MAX_STEPS


class TestForgetting:
    def test_is_by_the_time_that_each_step_is_kept(self, clock: Clock) -> None:
        samples.take()
        kept = QueueSample.objects.filter(job_type="").count()
        assert kept == len(samples.STEPS)
        for span, left in ((HOUR, 3), (8 * HOUR, 2), (timedelta(days=9), 1), (timedelta(days=92), 0)):
            clock(span + SECOND)
            samples.purge()
            assert QueueSample.objects.filter(job_type="").count() == left
