"""The audit finds every firing without a record and every record without a firing, and nothing else."""

from typing import Any

import pytest

from jobs.actions import jobs as actions
from jobs.actions.ledger_audit import audit
from jobs.models import Job, JobVersion, SkippedRange
from tests import factories
from tests.factories import HOUR, MINUTE, SECOND, make_trigger, now, utc
from tests.interfaces.ledger_audit.ledger import beat, change, create, kinds, skip

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("job_types")]


class TestADifference:
    @pytest.fixture
    def job(self, clock: Any) -> Job:
        """An hour of a minutely job, all on record."""
        job = create()
        clock(HOUR)
        beat()
        clock(HOUR + SECOND)
        return job

    def test_is_a_firing_whose_record_is_gone(self, job: Job) -> None:
        gone = job.created_at + 7 * MINUTE
        job.triggers.filter(scheduled_for=gone).delete()
        assert kinds() == [("missing", gone)]

    def test_is_a_record_no_schedule_names(self, job: Job) -> None:
        added = make_trigger(job, scheduled_for=job.created_at + 90 * SECOND)
        assert kinds() == [("unexpected", added.scheduled_for)]

    def test_is_a_record_from_before_the_job_was_created(self, job: Job) -> None:
        added = make_trigger(job, scheduled_for=job.created_at - MINUTE)
        assert kinds() == [("unexpected", added.scheduled_for)]

    def test_is_a_record_of_a_schedule_that_was_edited(self, job: Job, clock: Any) -> None:
        change(actions.update_job, job, changes={"schedule": {"every_seconds": 3600}})
        clock(HOUR + 10 * MINUTE)
        added = make_trigger(job, scheduled_for=job.created_at + 63 * MINUTE)
        assert kinds() == [("unexpected", added.scheduled_for)]

    def test_is_a_range_that_counts_too_few_or_too_many(self, job: Job) -> None:
        job.triggers.filter(scheduled_for__lte=job.created_at + 20 * MINUTE).delete()
        skipped = skip(job, 1, 20)
        assert kinds() == []
        for count in (19, 21):
            SkippedRange.objects.update(count=count)
            assert kinds() == [("miscounted", skipped.from_at)]

    def test_is_an_instant_both_in_a_range_and_in_a_trigger(self, job: Job) -> None:
        job.triggers.filter(scheduled_for__lt=job.created_at + 20 * MINUTE).delete()
        skip(job, 1, 20)
        assert kinds() == [("twice", job.created_at + 20 * MINUTE)]

    def test_is_an_instant_in_two_ranges(self, job: Job) -> None:
        job.triggers.filter(scheduled_for__lte=job.created_at + 20 * MINUTE).delete()
        skip(job, 1, 10)
        skip(job, 10, 20, reason="coalesced")
        assert kinds() == [("twice", job.created_at + 10 * MINUTE)]

    def test_is_what_a_range_leaves_out(self, job: Job) -> None:
        job.triggers.filter(scheduled_for__lte=job.created_at + 20 * MINUTE).delete()
        skip(job, 2, 20)
        assert kinds() == [("missing", job.created_at + MINUTE)]

    def test_is_a_job_without_a_timeline(self) -> None:
        job = factories.make_job()
        assert kinds() == [("no_timeline", job.created_at)]

    def test_of_one_job_is_not_laid_to_another(self, job: Job) -> None:
        others = [create(name=f"other-{number}", tenant=job.tenant) for number in range(3)]
        gone = job.created_at + 7 * MINUTE
        job.triggers.filter(scheduled_for=gone).delete()
        assert kinds() == [("missing", gone)]
        assert [kinds(other) for other in others] == [[]] * 3

    def test_is_not_claimed_where_the_schedule_can_no_longer_be_computed(self, job: Job) -> None:
        Job.objects.update(timezone="Gone/Away")
        entry = JobVersion.objects.get()
        entry.schedule |= {"schedule_type": "cron", "cron_expression": "0 2 * * *", "timezone": "Gone/Away"}
        entry.save()
        [result] = audit(jobs=Job.objects.all(), since=utc(2000, 1, 1), until=now())
        assert (result.differences, len(result.unproven)) == ([], 1)
