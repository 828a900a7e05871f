"""Circuit breakers while two dispatch and two count."""

import time
from typing import Any
from uuid import uuid4

import pytest
from django.db import transaction

from jobs.models import Breaker, Trigger
from jobs.store.dispatch import Memory, breakers
from tests.factories import SECOND, dispatch, make_job, make_tenant, make_triggers, now
from tests.races.conftest import Rival, at_once

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("job_types")]
HOST = "api.example.com"


def note(tenant: Any, *verdicts: bool) -> None:
    breakers.note(((tenant.id, HOST), uuid4(), verdict) for verdict in verdicts)


def make_open(tenant: Any) -> None:
    Breaker.objects.create(
        tenant=tenant, target=HOST, state="open", failures=0, successes=0, openings=1, window_ends_at=now(),
        probe_at=now() - SECOND, changed_at=now(),
    )  # fmt: skip


class TestTheProbe:
    def test_is_handed_out_once_by_two_that_dispatch_two_types(self) -> None:
        for _ in range(8):
            tenant = make_tenant(circuit_breaker=True)
            for job_type in ("noop", "webhook"):
                make_triggers(make_job(tenant, job_type=job_type, target=HOST), 5)
            make_open(tenant)

        def work(job_type: str) -> list[Any]:
            memory = Memory()
            return [item for _ in range(6) for item in dispatch(types=(job_type,), memory=memory).queued]

        queued = [item for found in at_once(lambda: work("noop"), lambda: work("webhook")) for item in found]
        tenants = [item.tenant_id for item in queued]
        assert len(tenants) == len(set(tenants)) == 8
        assert {item.id for item in queued} == set(Breaker.objects.values_list("probe_id", flat=True))
        assert Trigger.objects.filter(phase="in_flight").count() == 8

    def test_waits_for_no_worker_that_holds_the_row(self, rival: Rival) -> None:
        tenant = make_tenant(circuit_breaker=True)
        make_triggers(make_job(tenant, target=HOST), 2)
        make_open(tenant)
        with transaction.atomic():
            Breaker.objects.select_for_update().get()
            assert rival.do(dispatch).queued == []
        assert len(dispatch().queued) == 1


class TestCounting:
    def test_adds_up_what_workers_count_at_once(self, settings: Any) -> None:
        settings.CARILLON = settings.CARILLON.model_copy(update={"breaker_failures": 1000})
        tenant = make_tenant(circuit_breaker=True)

        def work() -> None:
            for _ in range(10):
                note(tenant, False, True)

        at_once(*[work] * 4)
        note(tenant)
        assert not breakers._kept
        assert (Breaker.objects.get().failures, Breaker.objects.get().successes) == (40, 40)

    def test_keeps_no_worker_waiting_and_loses_nothing(self, rival: Rival) -> None:
        tenant = make_tenant(circuit_breaker=True)
        note(tenant, False)
        with transaction.atomic():
            Breaker.objects.select_for_update().get()
            began = time.monotonic()
            rival.do(lambda: note(tenant, False, False))
            assert time.monotonic() - began < 5
        assert Breaker.objects.get().failures == 1
        note(tenant, True)
        assert (Breaker.objects.get().failures, Breaker.objects.get().successes) == (3, 1)
