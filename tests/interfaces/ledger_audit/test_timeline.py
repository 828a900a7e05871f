"""A job's timeline: its schedule at each instant, after changes by anyone."""

from typing import Any

import pytest

from jobs.actions import jobs as actions
from jobs.models import Job, JobVersion
from jobs.store import execution
from jobs.store import jobs as jobs_store
from jobs.store.jobs import schedule_of
from tests import factories
from tests.factories import make_trigger
from tests.interfaces.ledger_audit.ledger import DAILY, EVERY_MINUTE, change, create, timeline

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("job_types")]


class TestTheTimeline:
    def test_has_an_entry_for_every_change_of_schedule_or_status(self) -> None:
        job = create()
        edited = change(actions.update_job, job, changes={"schedule": {"every_seconds": 30}})
        paused = change(actions.pause_job, job)
        change(actions.pause_job, job)
        resumed = change(actions.resume_job, job)
        cancelled = change(actions.cancel_job, job)
        change(actions.delete_job, job)
        assert timeline(job) == [
            (1, "active", job.created_at),
            (2, "active", edited.updated_at),
            (2, "paused", paused.updated_at),
            (2, "active", resumed.updated_at),
            (2, "cancelled", cancelled.updated_at),
        ]

    def test_has_one_for_what_the_engine_changes(self) -> None:
        gone, broken, over = create(name="a"), create(name="b"), create(name="c")
        jobs_store.advance({over.id: None})
        execution.pause_gone([make_trigger(gone, "dead").id])
        jobs_store.pause_broken(job_id=broken.id, reason="x")
        jobs_store.complete(after=factories.UUID(int=0), limit=10)
        found = {job: timeline(job)[1][1] for job in (gone, broken, over)}
        assert found == {gone: "paused", broken: "paused", over: "completed"}

    @pytest.mark.parametrize(
        "schedule",
        [
            EVERY_MINUTE,
            {"type": "interval", "every_seconds": 1.5, "starts_at": "2026-01-01T00:00:00.123456Z"},
            {"type": "once", "run_at": "2090-01-01T00:00:00Z"},
            {"type": "immediate"},
            DAILY | {"dst_policy": "both", "ends_at": "2090-01-01T00:00:00Z"},
            {"type": "cron", "cron": "0 0 12 ? * 2", "cron_dialect": "quartz"},
        ],
    )
    def test_gives_the_schedule_back(self, schedule: dict[str, Any]) -> None:
        job = create(schedule)
        entry = JobVersion.objects.get(job=job)
        assert jobs_store.schedule_then(entry.schedule) == schedule_of(Job.objects.get(id=job.id))
