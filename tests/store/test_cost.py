"""What may not start costs dispatch nothing, however much of it is due (DESIGN §8): counted in pages, not in time."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from django.db import connection

from jobs.models import Job, Trigger
from tests.factories import UNLIMITED, dispatch, make_job, make_tenant, make_trigger, make_triggers
from tests.store.conftest import make_new

pytestmark = pytest.mark.django_db
CROWD = 10_000
#: Pages that what was queued before may cost, and a level more of each of a dozen indexes for each of ten rows that are
#: queued: 98 were seen. The crowd itself fills over 500.
LITTLE = 200
#: The pages of jobs_trigger and its indexes that this transaction has looked at.
PAGES = """
    SELECT sum(pg_stat_get_xact_blocks_fetched(oid))::bigint FROM pg_class
    WHERE oid = 'jobs_trigger'::regclass
       OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = 'jobs_trigger'::regclass)
"""


class NoTokens(type(UNLIMITED)):
    """Of tenants that have a rate none may start anything now."""

    def rooms(self, tenants: Iterable[Any]) -> dict[int, int]:
        return {tenant.id: 0 for tenant in tenants if tenant.rate_per_second}


@pytest.fixture(autouse=True)
def new_tables() -> None:
    make_new("jobs_trigger", "jobs_job")


def suspended() -> Job:
    return make_job(make_tenant(status="suspended"))


def at_its_cap() -> Job:
    job = make_job(make_tenant(max_in_flight=1))
    make_trigger(job, "running")
    return job


def out_of_tokens() -> Job:
    return make_job(make_tenant(rate_per_second=1, rate_burst=1))


def paused() -> Job:
    return make_job(status="paused")


def type_at_its_cap() -> Job:
    job = make_job(job_type="message")
    make_trigger(job, "running")
    return job


def crowd(job: Job) -> None:
    """So many due triggers of the job, older than anyone's."""
    trigger = make_trigger(job, held=job.status == "paused")
    own = {"id", "scheduled_for", "due_at", "idempotency_key"}
    fields = [field for field in Trigger._meta.concrete_fields if not field.generated]
    copied = ", ".join(f'"{field.column}"' for field in fields if field.column not in own)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO jobs_trigger (id, scheduled_for, due_at, idempotency_key, {copied}) "
            f"SELECT gen_random_uuid(), at, at, 'crowd-' || n, {copied} "
            "FROM jobs_trigger, generate_series(1, %s) n, LATERAL (SELECT due_at - n * interval '1 s' AS at) moment "
            "WHERE id = %s",
            [CROWD, trigger.id],
        )


def pages() -> int:
    with connection.cursor() as cursor:
        cursor.execute(PAGES)
        [count] = cursor.fetchone()
    return int(count)


def cost() -> int:
    """Of one dispatch that queues ten triggers of a tenant that may go: how many pages it looked at."""
    expected = [trigger.id for trigger in make_triggers(make_job(), 10)]
    before = pages()
    queued = dispatch(types=("noop",), message=1, rates=NoTokens()).queued
    assert [item.id for item in queued] == expected
    return pages() - before


@pytest.mark.parametrize("gate", [suspended, at_its_cap, out_of_tokens, paused, type_at_its_cap])
@pytest.mark.parametrize("statistics", ["stale", "fresh"])
def test_a_crowd_behind_a_shut_gate_costs_a_few_pages(gate: Callable[[], Job], statistics: str) -> None:
    job = gate()
    calm = cost()
    crowd(job)
    if statistics == "fresh":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE jobs_trigger, jobs_job")
    assert cost() <= calm + LITTLE
