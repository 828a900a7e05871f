"""Many jobs brought to another status at once: each as if it came alone, all by the same few statements."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.actions import jobs as actions
from jobs.actions.bulk import operations
from jobs.core.errors import Conflict
from jobs.models import CatchUp, Event, Job, JobVersion, Trigger
from jobs.selection.walks import select
from tenants.models import Tenant
from tests.factories import HOUR, MINUTE, make_job, make_tenant, make_trigger, now, owing

DAY = 24 * HOUR
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("job_types")]
VERBS: dict[str, Callable[..., Job]] = {
    "pause": actions.pause_job,
    "resume": actions.resume_job,
    "cancel": actions.cancel_job,
    "delete": actions.delete_job,
}
STATES = ("pending", "retrying", "queued", "running", "succeeded", "dead", "skipped")


def a_crowd(tenant: Tenant) -> None:
    """Jobs in every status that owe no, few or many firings, under every misfire policy; and one beyond repair."""
    for status in ("active", "paused", "cancelled", "completed"):
        for policy in ("fire_once", "skip", "fire_all", "backfill"):
            for firings in (0, 1, 20):
                columns = owing(firings) | ({} if firings else {"next_fire_at": now() + HOUR})
                name = f"{status} {policy} {firings}"
                job = make_job(
                    tenant,
                    name=name,
                    status=status,
                    misfire_policy=policy,
                    misfire_grace=5 * MINUTE,
                    **columns,
                )
                for state in STATES if firings == 1 else ():
                    make_trigger(job, state, held=status == "paused" and state in ("pending", "retrying"))
        broken = {"schedule_type": "cron", "cron_expression": "0 0 30 2 *", "interval": None}
        make_job(tenant, name=f"{status} broken", status=status, next_fire_at=now() - DAY, **broken)
        past = make_job(tenant, name=f"{status} catching up", status=status, next_fire_at=now() + HOUR)
        for origin in ("outage", "backfill"):
            CatchUp.objects.create(
                job=past, tenant_id=tenant.id, job_version=1, origin=origin, policy="fire_all", from_at=now() - DAY,
                until_at=now() - HOUR, cursor=now() - DAY, created_at=now(),
            )  # fmt: skip


def alone(tenant: Tenant, verb: str) -> set[str]:
    """Do ``verb`` to each job by itself. Returns the names of the jobs that it was refused to."""
    refused = set()
    for job in Job.objects.filter(tenant=tenant).order_by("id"):
        try:
            VERBS[verb](tenant=tenant, job_id=job.id)
        except Conflict:
            refused.add(job.name)
    return refused


def together(tenant: Tenant, verb: str) -> set[str]:
    operation = operations.begin_operation(tenant=tenant, verb=verb, wanted={})
    while operations.advance(select):
        pass
    operation.refresh_from_db()
    assert operation.finished_at is not None
    assert operation.done + operation.refused == Job.objects.filter(tenant=tenant).count()
    return set(
        Job.objects.filter(id__in=[each["id"] for each in operation.refusals]).values_list("name", flat=True)
    )


def what_became(tenant: Tenant) -> dict[str, Counter[Any]]:
    """All records of the tenant's jobs; moments are reduced to whether they are set."""
    of_it = {"tenant_id": tenant.id}

    def count(model: Any, *columns: str, whether: tuple[str, ...] = ()) -> Counter[Any]:
        rows = model.objects.filter(**of_it).values_list(*columns, *whether)
        plain = len(columns)
        return Counter((*row[:plain], *(value is None for value in row[plain:])) for row in rows)

    return {
        "jobs": count(
            Job, "name", "status", "status_reason", "version", whether=("next_fire_at", "deleted_at")
        ),
        "triggers": count(
            Trigger,
            *("job__name", "state", "reason", "held", "cancel_requested", "cancel_reason", "origin"),
            whether=("queued_at", "finished_at"),
        ),
        "catch-ups": count(CatchUp, "job__name", "origin", "policy", "reason", whether=("finished_at",)),
        "versions": count(JobVersion, "job__name", "version", "status"),
        "events": count(Event, "kind", "data__job_name"),
    }


@pytest.mark.parametrize("verb", VERBS)
class TestMany:
    def test_become_what_each_alone_would(self, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(operations.operations_store, "MAX_REFUSALS", 1000)
        one, other = make_tenant(), make_tenant()
        for tenant in (one, other):
            a_crowd(tenant)
        assert together(other, verb) == alone(one, verb)
        assert what_became(other) == what_became(one)

    def test_take_as_many_statements_as_few(self, verb: str) -> None:
        statements = []
        for number in (2, 40):
            tenant = make_tenant()
            for _ in range(number):
                status = "paused" if verb == "resume" else "active"
                make_trigger(make_job(tenant, status=status, **owing(2)))
            operations.begin_operation(tenant=tenant, verb=verb, wanted={})
            with CaptureQueriesContext(
                connection,
            ) as captured:
                assert operations.advance(select)
            statements.append(len(captured))
        assert statements[0] == statements[1] < 40
