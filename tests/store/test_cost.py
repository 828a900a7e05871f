"""Triggers that may not start cost dispatch nothing, however many are due (DESIGN §8): pages are counted, not time."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from django.db import connection

from jobs.models import Job, Trigger
from tests.factories import (
    SECOND,
    UNLIMITED,
    dispatch,
    make_job,
    make_tenant,
    make_trigger,
    make_triggers,
    now,
)
from tests.store.conftest import make_new

pytestmark = pytest.mark.django_db
CROWD = 10_000
#: The pages that triggers queued before may cost, and one more level of each of a dozen indexes for each of ten rows
#: that are queued: 98 were seen. The backlog itself fills over 500.
LITTLE = 200
#: The pages of jobs_trigger and its indexes that this transaction has looked at.
PAGES = """
    SELECT sum(pg_stat_get_xact_blocks_fetched(oid))::bigint FROM pg_class
    WHERE oid = 'jobs_trigger'::regclass
       OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = 'jobs_trigger'::regclass)
"""


class NoTokens(type(UNLIMITED)):
    """No tenant that has a rate may start anything now."""

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


def crowd(job: Job, state: str = "pending", **columns: Any) -> None:
    """``CROWD`` triggers of the job, due unless ``columns`` say otherwise, and older than all others."""
    trigger = make_trigger(job, state, **({"held": job.status == "paused"} | columns))
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
    """The number of pages that one dispatch looks at when it queues ten triggers of a tenant that may go."""
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


def run_by_hand(job: Job) -> None:
    crowd(job, held=True, parked=True, origin="run_now")


def failed_for_now(job: Job) -> None:
    crowd(job, "retrying", due_at=now() + 2 * CROWD * SECOND)


def cost_of_next(job: Job) -> int:
    """The number of pages that one dispatch, with the release before it, looks at when a firing of the job is due."""
    make_trigger(job)
    before = pages()
    dispatch(types=("noop",), message=1)
    return pages() - before


@pytest.mark.parametrize(
    ("policy", "others"),
    [
        ("queue", run_by_hand),
        ("collapse", run_by_hand),
        ("replace", run_by_hand),
        ("allow", run_by_hand),
        ("queue", failed_for_now),
        ("collapse", failed_for_now),
        ("skip", failed_for_now),
    ],
)
def test_a_jobs_own_crowd_costs_its_next_firing_a_few_pages(
    policy: str, others: Callable[[Job], None]
) -> None:
    quiet, busy = (make_job(overlap_policy=policy, max_concurrent=1) for _ in range(2))
    calm = cost_of_next(quiet)
    others(busy)
    assert cost_of_next(busy) <= calm + LITTLE
