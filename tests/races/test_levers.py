"""Levers of operators while two dispatchers work: each lever holds from its answer on (DESIGN §8)."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from jobs.actions import levers
from jobs.models import Change, Queue, Trigger
from jobs.store import execution
from jobs.store.dispatch import Dispatched, Memory
from stage.waiting import wait_until
from tests.factories import SECOND, dispatch, make_job, make_tenant, make_triggers
from tests.races.conftest import Rival, at_once

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("job_types")]
STOP = {"dispatch": "stopped", "reason": "Incident 42."}
PAUSE = {"paused": True, "reason": "Bad deploy."}
TYPES = ("noop", "webhook")


def in_flight(job_type: str = "noop") -> int:
    return Trigger.objects.filter(job_type=job_type, phase="in_flight").count()


def end(count: int, job_type: str = "noop") -> None:
    """Let ``count`` triggers in flight succeed."""
    flying = Trigger.objects.filter(job_type=job_type, phase="in_flight").values_list("id", flat=True)
    Trigger.objects.filter(id__in=list(flying[:count])).update(state="succeeded")


class Dispatchers:
    """Two that dispatch all the time. ``act`` runs while both are at it. ``after``: their turns that began later."""

    def __init__(self, *, limit: int = 2) -> None:
        self._limit = limit
        self._acted = threading.Event()
        self._over = threading.Event()
        self._turns = [0, 0]
        self.after: list[Dispatched] = []

    def _dispatch(self, number: int) -> None:
        memory = Memory()
        while not self._over.is_set():
            later = self._acted.is_set()
            done = dispatch(types=TYPES, limit=self._limit, memory=memory)
            self._turns[number] += 1
            if later:
                self.after.append(done)

    def _turned(self, turns: int) -> bool:
        return min(self._turns) >= turns

    def _act(self, act: Callable[[], Any], turns: int) -> Any:
        try:
            wait_until(lambda: self._turned(3), what="both dispatch")
            found = act()
            self._acted.set()
            before = max(self._turns)
            wait_until(lambda: self._turned(before + turns), what="both dispatch further")
            return found
        finally:
            self._over.set()

    def while_they_work(self, act: Callable[[], Any], *, turns: int = 10) -> Any:
        """The return value of ``act``, once both dispatchers have made ``turns`` more turns."""
        return at_once(lambda: self._dispatch(0), lambda: self._dispatch(1), lambda: self._act(act, turns))[2]


@pytest.fixture
def backlog() -> None:
    for _ in range(6):
        tenant = make_tenant()
        for name in TYPES:
            make_triggers(make_job(tenant, job_type=name), 60)


class TestStop:
    def test_holds_for_every_turn_that_begins_after_its_answer(self, backlog: None) -> None:
        both = Dispatchers()
        both.while_they_work(lambda: levers.change_installation(changes=STOP))
        assert len(both.after) >= 20
        assert [done.queued for done in both.after] == [[]] * len(both.after)
        assert Trigger.objects.filter(state="pending").exists()

    def test_waits_for_no_dispatch_and_lets_it_commit_its_turn(self, rival: Rival, backlog: None) -> None:
        with transaction.atomic():
            assert len(dispatch(limit=2).queued) == 2
            rival.do(lambda: levers.change_installation(changes=STOP))
        assert in_flight() == 2
        assert rival.do(dispatch).queued == []

    def test_by_two_at_once_is_one_stop_with_one_reason(self) -> None:
        found = at_once(*[lambda: levers.change_installation(changes=STOP)] * 4)
        assert len({present.stopped_at for present in found}) == 1
        assert Change.objects.filter(kind="installation").count() == 1


class TestPause:
    def test_holds_from_its_answer_on_and_the_other_type_goes_on(self, backlog: None) -> None:
        both = Dispatchers()

        def pause() -> int:
            levers.change_type(name="noop", changes=PAUSE)
            return in_flight()

        # Exactly equal: the pause waited for a dispatcher that had the type.
        assert both.while_they_work(pause) == in_flight()
        started = {item.job_type for done in both.after for item in done.queued}
        assert started == {"webhook"}

    def test_waits_for_the_dispatch_that_serves_the_type(self, rival: Rival, backlog: None) -> None:
        dispatch(types=TYPES, limit=1)  # the queues are known from here on
        with transaction.atomic():
            assert dispatch(types=("noop",), limit=2).queued
            paused = rival.start(lambda: levers.change_type(name="noop", changes=PAUSE))
            rival.wait_until_blocked()
            # A pause keeps neither that type's dispatcher nor another one waiting.
            assert dispatch(types=("webhook",), limit=2).queued
        assert paused().paused_at is not None
        assert dispatch(types=("noop",)).queued == []

    def test_keeps_no_dispatcher_waiting_while_it_is_not_committed(self, rival: Rival, backlog: None) -> None:
        dispatch(types=TYPES, limit=1)
        with transaction.atomic():
            levers.change_type(name="noop", changes=PAUSE)
            assert {item.job_type for item in rival.do(lambda: dispatch(types=TYPES)).queued} == {"webhook"}

    def test_holds_for_a_claim_that_begins_after_its_answer(self, rival: Rival, backlog: None) -> None:
        tokens = [execution.ClaimToken(item.id, item.fence) for item in dispatch(limit=5).queued]
        rival.do(lambda: levers.change_type(name="noop", changes=PAUSE))
        claimed = execution.claim(
            tokens=tokens, job_types=["noop"], worker="w1", celery_task_id="c1", lease=30 * SECOND
        )
        assert (list(claimed), claimed.dropped) == ([], 0)
        assert in_flight() == 0


class TestCap:
    def test_holds_from_its_answer_on_while_triggers_end(self, backlog: None) -> None:
        both = Dispatchers(limit=5)
        seen: list[int] = []

        def cap() -> None:
            levers.change_type(name="noop", changes={"max_in_flight": 7})
            while not seen or seen[-1] > 7:
                end(3)
                seen.append(in_flight())
            for _ in range(20):
                end(1)
                seen.append(in_flight())

        both.while_they_work(cap)
        first_below = next(index for index, count in enumerate(seen) if count <= 7)
        # Triggers in flight beyond the cap are not taken back. None is added until enough have ended.
        assert seen[: first_below + 1] == sorted(seen[: first_below + 1], reverse=True)
        assert max(seen[first_below:]) <= 7
        assert in_flight() == 7

    def test_and_pause_by_two_at_once_are_both_kept(self) -> None:
        at_once(
            lambda: levers.change_type(name="noop", changes=PAUSE),
            lambda: levers.change_type(name="noop", changes={"max_in_flight": 7}),
        )
        stored = Queue.objects.get(job_type="noop")
        assert (stored.paused_at is not None, stored.max_in_flight) == (True, 7)
