"""The first step of every action on a job: it finds the job among its tenant's, and locks the tenant."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.actions import jobs as actions
from jobs.core.errors import NotFound
from jobs.models import Job
from tests.factories import make_job, make_tenant, now

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("job_types")]
ACTIONS = {
    "update": lambda **ids: actions.update_job(changes={"priority": "low"}, **ids),
    "pause": actions.pause_job,
    "resume": actions.resume_job,
    "cancel": actions.cancel_job,
    "delete": actions.delete_job,
    "run": actions.run_job_now,
    "find": actions.find_job,
}


class TestEveryAction:
    @pytest.mark.parametrize("name", ACTIONS)
    @pytest.mark.parametrize("job_id", ["", "x", "5", None, 5, "018f0000-0000-7000-8000-000000000000"])
    def test_finds_no_job_of_that_id(self, name: str, job_id: Any) -> None:
        with pytest.raises(NotFound):
            ACTIONS[name](tenant=make_tenant(), job_id=job_id)

    @pytest.mark.parametrize("name", ACTIONS)
    def test_finds_no_job_of_another_tenant_or_a_deleted_one(self, name: str) -> None:
        job, deleted = make_job(), make_job(deleted_at=now())
        for tenant, job_id in ((make_tenant(), job.id), (deleted.tenant, deleted.id)):
            with pytest.raises(NotFound):
                ACTIONS[name](tenant=tenant, job_id=job_id)
        assert Job.objects.get(id=job.id).status == "active"

    @pytest.mark.parametrize("name", [name for name in ACTIONS if name not in ("find", "resume", "run")])
    def test_locks_the_tenant_before_anything_else(self, name: str) -> None:
        job = make_job()
        with CaptureQueriesContext(connection) as queries:
            ACTIONS[name](tenant=job.tenant, job_id=job.id)
        statements = [query["sql"] for query in queries if "SAVEPOINT" not in query["sql"]]
        assert "FROM tenants_tenant" in statements[0]
        assert "FOR NO KEY UPDATE" in statements[0]
        assert "FOR NO KEY UPDATE" in statements[1]
