"""Firings that start late, as a web process sees them that one key alone keeps busy."""

from datetime import timedelta
from pathlib import Path

import pytest

from jobs.models import Job
from jobs.store.insight.usage import LATE, LATE_WINDOW, late_tenants
from stage.waiting import wait_until
from tenants.actions import create_api_key
from tests.cluster.web import serving
from tests.factories import MINUTE, make_attempt, make_job, make_tenant, make_trigger, now

TICK = timedelta(milliseconds=1)


def start(job: Job, *, late: timedelta, ago: timedelta = -MINUTE, number: int = 1) -> None:
    """A firing that started ``ago``, so long after it was due. By default it starts in the next minute, so that it is
    of this moment however long the test takes.
    """
    started_at = now() - ago
    trigger = make_trigger(job, "running", due_at=started_at - late, started_at=started_at)
    make_attempt(trigger, started_at=started_at, number=number)


@pytest.mark.django_db
class TestLateTenants:
    def test_are_those_with_a_first_start_that_is_late(self) -> None:
        jobs = [make_job(make_tenant()) for _ in range(5)]
        for job in jobs[:2]:
            for _ in range(3):
                start(job, late=LATE + TICK)
        start(jobs[2], late=LATE - TICK)
        start(jobs[3], late=LATE + TICK, ago=LATE_WINDOW + TICK)
        # For a retry, the time when it was due is not known.
        start(jobs[4], late=LATE + TICK, number=2)
        assert late_tenants() == 2

    def test_are_none_where_nothing_has_started(self) -> None:
        assert late_tenants() == 0


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("tenants", "holds"), [(1, False), (2, True)])
def test_a_web_process_holds_a_lone_key_while_firings_of_several_tenants_start_late(
    tmp_path: Path, tenants: int, holds: bool
) -> None:
    log = tmp_path / "web.log"
    _, key = create_api_key(tenant=make_tenant(), name="tests", scopes=["write"])
    jobs = [make_job(make_tenant()) for _ in range(tenants)]
    # All of them are refused, after much computing.
    schedule = {"type": "cron", "cron": "0 2 * * *", "timezone": "Europe/Berlin"}
    much = {"jobs": [{"job_type": "noop", "schedule": schedule, "priority": "no"}] * 1000}
    for job in jobs:
        start(job, late=2 * LATE)

    def is_held() -> bool:
        assert web.ask("/api/v1/jobs/bulk", key=key, body=much, timeout=30).status == 200
        return "keys are held to their share" in log.read_text()

    with serving(log, CARILLON_API_RATE_PER_SECOND="0") as web:
        if holds:
            wait_until(is_held, timeout=20)
        else:
            assert not any(is_held() for _ in range(5))
