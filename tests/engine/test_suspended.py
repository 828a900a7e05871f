"""A suspended tenant's firings do not pile up: its missed firings are decided when it goes on."""

from typing import Any

import pytest

from jobs.conf import engine_settings
from jobs.models import Trigger
from tests import factories
from tests.factories import HOUR, SECOND, make_job, make_tenant


@pytest.mark.django_db
def test_jobs_of_a_suspended_tenant_are_not_materialized_and_others_are(beat: Any, clock: Any) -> None:
    at = factories.now()
    tenant = make_tenant(status="suspended")
    job, other = (
        make_job(owner, interval=SECOND, created_at=at - SECOND, next_fire_at=at, misfire_policy="fire_once")
        for owner in (tenant, make_tenant())
    )
    for hours in range(3):
        clock(hours * HOUR)
        beat.step()
    assert not Trigger.objects.filter(job=job).exists()
    assert Trigger.objects.filter(job=other).exists()
    tenant.status = "active"
    tenant.save()
    beat.step()
    # Of the two missed hours one firing is left, beside those of the grace and the look-ahead. Dispatch may not have
    # reached the first ones yet.
    most = (engine_settings().look_ahead + job.misfire_grace) / SECOND + 2
    assert 0 < Trigger.objects.filter(job=job, state="pending").count() <= most
