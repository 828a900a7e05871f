"""A session locks one running trigger, and its lease runs out. No other tenant may notice (DESIGN §2.12)."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db import connection

from jobs.conf import engine_settings
from jobs.engine.cycle import Cycle
from jobs.engine.dispatcher import QueueConfig
from jobs.models import Trigger
from jobs.store.db import Query
from stage.waiting import wait_until
from tests import factories
from tests.factories import SECOND, make_attempt, make_job, make_tenant, make_trigger, state_of
from tests.races.conftest import Rival

pytestmark = pytest.mark.django_db(transaction=True)
TENANTS = 100
#: For this long the triggers fall due one after another. Reaping is tried each second.
SPREAD = timedelta(seconds=4)


@pytest.fixture
def cycle(job_types: None) -> Iterator[Cycle]:
    """A leading beat as in production, except for the broker."""
    found = Cycle(
        # No worker takes from the queue here.
        settings=engine_settings().model_copy(update={"queue_window_min": 2 * TENANTS}),
        configs=lambda: {"noop": QueueConfig(None, 100)},
        publish=lambda _: None,
        abreast=True,
    )
    yield found
    found.close()


def test_a_locked_trigger_delays_no_other_tenant(cycle: Cycle, rival: Rival) -> None:
    locked = make_trigger(
        state="running", fence=1, attempt_count=1, lease_expires_at=factories.now() - SECOND
    )
    make_attempt(locked, number=1, fence=1)
    rival.do(lambda: connection.set_autocommit(False))
    rival.do(Query("hold", f"SELECT id FROM jobs_trigger WHERE id = '{locked.id}' FOR UPDATE"))
    # It is reaped from the first turn on: no workers live to which a new leader would give time.
    cycle._patient_since = cycle.leader.inheritances + 1
    ours = [make_trigger(make_job(make_tenant())) for _ in range(TENANTS)]
    begin = factories.now() + SECOND
    for number, trigger in enumerate(ours):
        trigger.due_at = begin + SPREAD * number / TENANTS
    Trigger.objects.bulk_update(ours, ["due_at"])
    mine = Trigger.objects.filter(id__in=[trigger.id for trigger in ours])

    def all_gone() -> bool:
        cycle.tick()
        return not mine.filter(state="pending").exists()

    wait_until(all_gone, timeout=60)
    lags = sorted(
        (queued_at - due_at).total_seconds() for due_at, queued_at in mine.values_list("due_at", "queued_at")
    )
    p50, p99 = lags[TENANTS // 2], lags[TENANTS * 99 // 100]
    print(f"lag of {TENANTS} tenants while one trigger is locked: p50 {p50:.3f} s, p99 {p99:.3f} s")
    assert (p99 <= 2.0, state_of(locked)[0]) == (True, "running")
    rival.do(lambda: connection.close())

    def reaped() -> bool:
        cycle.tick()
        return state_of(locked)[0] != "running"

    wait_until(reaped, timeout=30, what="its own turn, once it is free")
