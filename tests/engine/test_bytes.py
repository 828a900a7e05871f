"""How many bytes a firing leaves in the tables and their indexes: the figures for sizing installations."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db import connection

from jobs.core.sizing import COSTS
from jobs.engine import worker
from jobs.models import Trigger
from tests import factories
from tests.emptying import empty_tables
from tests.engine.conftest import Beat, Perform

DAY = timedelta(days=1)
ROUNDS, FIRINGS = 2, 1000
_SIZES = """
    SELECT pg_total_relation_size('jobs_trigger'),
           (SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits WHERE inhparent = 'jobs_attempt'::regclass),
           (SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits WHERE inhparent = 'jobs_event'::regclass)
"""


def sizes() -> dict[str, int]:
    """Bytes of the tables with their indexes. They are vacuumed, so that the space of old rows is used again."""
    with connection.cursor() as cursor:
        for table in ("jobs_trigger", "jobs_attempt", "jobs_event"):
            cursor.execute(f"VACUUM {table}")
        cursor.execute(_SIZES)
        return dict(zip(("trigger", "attempt", "event"), map(int, cursor.fetchone()), strict=True))


@pytest.fixture
def no_autovacuum(transactional_db: None) -> Iterator[None]:
    """Autovacuum, which may come at any moment, would let a round use the space of an earlier one again."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE jobs_trigger SET (autovacuum_enabled = false)")
    yield
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE jobs_trigger RESET (autovacuum_enabled)")


@pytest.mark.slow
@pytest.mark.usefixtures("no_autovacuum")
@pytest.mark.django_db(transaction=True)
def test_a_firing_takes_the_bytes_by_which_installations_are_sized(beat: Beat, perform: Perform) -> None:
    empty_tables()  # Otherwise space left by rolled back rows of other tests would be given back in between, or filled.
    tenant = factories.make_tenant(all_events=True, max_jobs=ROUNDS * FIRINGS * 3)

    def fire() -> None:
        """``FIRINGS`` jobs, each due once now, through the real materialize, dispatch, claim and finish."""
        at = factories.now()
        jobs = [
            factories.make_job(tenant, interval=DAY, created_at=at - DAY, next_fire_at=at)
            for _ in range(FIRINGS)
        ]
        while Trigger.objects.filter(job__in=[job.id for job in jobs], state="succeeded").count() < FIRINGS:
            beat.step()
            for message in beat.broker.messages:
                worker.perform(
                    job_type="noop", tokens=message.tokens, worker="worker-1@host-1", celery_task_id="c" * 36
                )
            beat.broker.messages.clear()

    def left() -> dict[str, float]:
        before = sizes()
        for _ in range(ROUNDS):
            fire()
        after = sizes()
        return {name: (after[name] - before[name]) / (ROUNDS * FIRINGS) for name in after}

    costs = {name: pytest.approx(COSTS[f"{name}_bytes"].value, rel=0.2) for name in sizes()}
    fire()
    # On a busy machine a step may have been rolled back for its time limit; its rows leave space for the first rounds.
    assert left() == costs or left() == costs
