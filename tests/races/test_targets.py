"""Rules for targets while two dispatchers work (DESIGN §8)."""

from typing import Any

import pytest
from django.db import transaction

from jobs.actions import targets
from jobs.models import Change, TargetRule, Trigger
from jobs.store import execution
from jobs.store.dispatch import Memory
from tests.factories import SECOND, dispatch, make_job, make_tenant, make_triggers
from tests.races.conftest import Rival, at_once

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("job_types")]
HOST = "api.example.com"
PAUSE = {"paused": True, "reason": "It is down."}


def make_calling(job_type: str = "noop", number: int = 40) -> None:
    for _ in range(4):
        make_triggers(make_job(make_tenant(), job_type=job_type, target=HOST), number)


def in_flight() -> int:
    return Trigger.objects.filter(phase="in_flight").count()


class TestPause:
    def test_holds_for_a_claim_that_begins_after_its_answer(self, rival: Rival) -> None:
        make_calling()
        tokens = [execution.ClaimToken(item.id, item.fence) for item in dispatch(limit=5).queued]
        rival.do(lambda: targets.put_target(pattern="*.example.com", changes=PAUSE))
        claimed = execution.claim(
            tokens=tokens, job_types=["noop"], worker="w1", celery_task_id="c1", lease=30 * SECOND
        )
        assert (list(claimed), claimed.dropped, in_flight()) == ([], 0, 0)
        assert dispatch().queued == []

    def test_keeps_no_dispatcher_waiting_while_it_is_not_committed(self, rival: Rival) -> None:
        make_calling()
        with transaction.atomic():
            targets.put_target(pattern=HOST, changes=PAUSE)
            assert len(rival.do(lambda: dispatch(limit=2)).queued) == 2

    def test_by_two_at_once_is_one_rule_and_one_change(self) -> None:
        found = at_once(*[lambda: targets.change_target(pattern=HOST, changes=PAUSE)] * 4)
        assert len({rule["paused_at"] for rule in found}) == 1
        assert TargetRule.objects.count() == Change.objects.filter(kind="target").count() == 1


class TestCap:
    def test_is_exact_while_two_dispatch_two_types_that_call_one_host(self) -> None:
        for job_type in ("noop", "webhook"):
            make_calling(job_type)
        targets.put_target(pattern=HOST, changes={"max_in_flight": 7})
        most: list[int] = []

        def work(job_type: str) -> None:
            memory = Memory()
            for _ in range(12):
                dispatch(types=(job_type,), memory=memory, limit=20)
                most.append(in_flight())
                flying = Trigger.objects.filter(phase="in_flight").values_list("id", flat=True)
                Trigger.objects.filter(id__in=list(flying[:2]), phase="in_flight").update(state="succeeded")

        at_once(lambda: work("noop"), lambda: work("webhook"))
        assert max(most) == 7

    def test_of_a_host_that_another_serves_just_now_keeps_waiting(self, rival: Rival) -> None:
        make_calling("noop")
        make_calling("webhook")
        targets.put_target(pattern=HOST, changes={"max_in_flight": 7})

        def both() -> tuple[Any, Any]:
            with transaction.atomic():
                first = dispatch(types=("noop",)).queued
                return first, rival.do(lambda: dispatch(types=("webhook",))).queued

        first, second = both()
        assert (len(first), second) == (7, [])
