"""People run a job now."""

import pytest

from jobs.actions import jobs as actions
from jobs.core.errors import Conflict
from jobs.models import Change
from tests import factories
from tests.factories import SECOND, make_job, make_trigger

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("job_types")]


class TestRunNow:
    def test_makes_a_trigger_with_its_own_key(self) -> None:
        job = make_job()
        first, second = (actions.run_job_now(tenant=job.tenant, job_id=job.id) for _ in range(2))
        assert first.idempotency_key != second.idempotency_key
        assert first.idempotency_key.startswith(f"job:{job.id}:run:")
        assert (first.origin, first.state, first.due_at) == ("run_now", "pending", first.scheduled_for)
        assert [queued.id for queued in factories.dispatch().queued] == [first.id, second.id]

    def test_finds_another_instant_when_a_firing_has_this_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        job = make_job()
        taken = make_trigger(job).scheduled_for
        instants = iter([taken, taken, taken + SECOND])
        monkeypatch.setattr("jobs.actions.jobs.database_now", lambda: next(instants))
        trigger = actions.run_job_now(tenant=job.tenant, job_id=job.id)
        assert trigger.scheduled_for == taken + SECOND

    def test_runs_a_completed_job_once_more(self) -> None:
        job = make_job(status="completed")
        trigger = actions.run_job_now(tenant=job.tenant, job_id=job.id)
        factories.dispatch()
        trigger.refresh_from_db()
        assert len(factories.claim(trigger)) == 1

    def test_ignores_overlap_where_asked_and_the_trail_says_so(self) -> None:
        job = make_job()
        make_trigger(job, "running")
        trigger = actions.run_job_now(tenant=job.tenant, job_id=job.id, ignore_overlap=True)
        assert [queued.id for queued in factories.dispatch().queued] == [trigger.id]
        told = Change.objects.get(object_id=str(job.id), action=Change.Action.RUN).changes
        assert told == {"trigger": [None, str(trigger.id)], "ignore_overlap": [None, True]}

    @pytest.mark.parametrize("status", ["paused", "cancelled"])
    def test_refuses_a_job_that_is(self, status: str) -> None:
        job = make_job(status=status)
        with pytest.raises(Conflict):
            actions.run_job_now(tenant=job.tenant, job_id=job.id)
