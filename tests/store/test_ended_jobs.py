"""Ended jobs leave: they make room at once, are deleted after their time, and dropped when their history is gone."""

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest

from jobs.actions import jobs as actions
from jobs.core.errors import NotFound, QuotaExceeded
from jobs.models import Change, Job, JobLabel, JobVersion, Trigger
from jobs.store import jobs as jobs_store
from tenants.models import Tenant
from tests.factories import HOUR, MINUTE, SECOND, make_job, make_tenant, make_trigger, now

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("job_types")]
Clock = Callable[[timedelta], None]
DAY = timedelta(days=1)
RETENTION = 90 * DAY


def create(tenant: Tenant, name: str = "once", **definition: object) -> Job:
    given = {"name": name, "job_type": "noop", "schedule": {"type": "immediate"}, **definition}
    return actions.create_job(tenant=tenant, definition=given)


def end(job: Job) -> None:
    """End the job as a worker and a beat do."""
    Trigger.objects.filter(job=job).update(state="succeeded", finished_at=now())
    jobs_store.complete(after=UUID(int=0), limit=1000)
    job.refresh_from_db()


class TestEndedJobs:
    def test_make_room_for_others_of_their_tenant(self) -> None:
        tenant = make_tenant(max_jobs=1)
        job = create(tenant)
        with pytest.raises(QuotaExceeded):
            create(tenant, "another")
        end(job)
        assert (job.status, jobs_store.living(tenant.id)) == ("completed", 0)
        another = create(tenant, "another")
        actions.cancel_job(tenant=tenant, job_id=another.id)
        assert jobs_store.living(tenant.id) == 0
        actions.delete_job(tenant=tenant, job_id=another.id)
        assert jobs_store.living(tenant.id) == 0

    def test_of_a_pause_count_on(self) -> None:
        job = make_job()
        actions.pause_job(tenant=job.tenant, job_id=job.id)
        assert jobs_store.living(job.tenant_id) == 1

    def test_are_deleted_after_thirty_days_or_the_time_they_name(self, clock: Clock) -> None:
        tenant = make_tenant()
        usual, brief = create(tenant), create(tenant, "brief", delete_after_seconds=60)
        cancelled = actions.cancel_job(tenant=tenant, job_id=create(tenant, "cancelled").id)
        end(usual)
        end(brief)
        for job, after in ((usual, 30 * DAY), (brief, MINUTE), (cancelled, 30 * DAY)):
            assert abs(job.expires_at - now() - after) < SECOND
        clock(MINUTE + SECOND)
        assert jobs_store.expire(limit=10) == (1, 1)
        with pytest.raises(NotFound):
            actions.pause_job(tenant=tenant, job_id=brief.id)
        assert Change.objects.get(object_id=str(brief.id), action="deleted").actor_kind == "engine"
        assert Trigger.objects.filter(job=brief, state="succeeded").exists()
        clock(31 * DAY)
        assert jobs_store.expire(limit=10) == (2, 2)
        assert jobs_store.expire(limit=10) == (0, 0)

    def test_wait_for_what_was_asked_of_them_by_hand(self, clock: Clock) -> None:
        job = create(make_tenant(), delete_after_seconds=0)
        end(job)
        again = make_trigger(job, "running")
        assert jobs_store.expire(limit=10) == (1, 0)
        assert jobs_store.expire(limit=10) == (0, 0)
        Trigger.objects.filter(id=again.id).update(state="succeeded", finished_at=now())
        clock(jobs_store.PUT_OFF + SECOND)
        assert jobs_store.expire(limit=10) == (1, 1)

    def test_are_dropped_with_all_that_is_theirs_once_their_history_is_gone(self, clock: Clock) -> None:
        tenant = make_tenant()
        job = create(tenant, labels={"team": "billing"}, delete_after_seconds=0)
        end(job)
        jobs_store.expire(limit=10)
        clock(RETENTION - HOUR)
        assert jobs_store.purge(retention=RETENTION, limit=10)[1] == 0
        clock(RETENTION + HOUR)
        assert jobs_store.purge(retention=RETENTION, limit=10)[1] == 0, "its trigger is there"
        Trigger.objects.filter(job=job).delete()
        assert jobs_store.purge(retention=RETENTION, limit=10)[1] == 1
        assert not Job.objects.filter(id=job.id).exists()
        assert not JobVersion.objects.filter(job_id=job.id).exists()
        assert not JobLabel.objects.filter(job_id=job.id).exists()
        assert Change.objects.filter(object_id=str(job.id), action="deleted").count() == 1

    def test_that_keep_their_history_do_not_hide_those_behind_them(self, clock: Clock) -> None:
        tenant = make_tenant()
        for nth in range(3):
            job = create(tenant, f"once-{nth}", delete_after_seconds=0)
            end(job)
            clock((nth + 1) * SECOND)
            jobs_store.expire(limit=10)
        Trigger.objects.filter(job=job).delete()
        clock(RETENTION + HOUR)
        after, dropped = jobs_store.purge(retention=RETENTION, limit=2)
        assert dropped == 0
        assert jobs_store.purge(retention=RETENTION, limit=2, after=after)[1] == 1
