"""Missed firings end alike in dispatch, which sees them one by one and as sets, and in catch-up."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.core.calendar.timetable import Listed
from jobs.engine.firing.decisions import between, decide
from jobs.models import Trigger
from jobs.store import dispatch as dispatch_store
from jobs.store.dispatch import Memory, decisions
from tests.factories import ANYONE, HOUR, MINUTE, SECOND, UNLIMITED, make_job, make_trigger, now

pytestmark = pytest.mark.django_db
WINDOW = dispatch_store.Window(initial=1000, minimum=1000, maximum=1000, wait=SECOND)


@pytest.fixture
def undone() -> Callable[[], Any]:
    """A transaction that is rolled back. Each example has its own."""
    return transaction.atomic


def dispatch_all() -> None:
    """Turns of a leader until one changes nothing. Sets end only when there is nothing else to do."""
    dispatch_store.open_queues(["noop"], WINDOW)
    memory = Memory()
    while True:
        done = dispatch_store.dispatch(
            memory=memory, leadership=ANYONE, caps={"noop": None}, window=WINDOW, limit=100, rates=UNLIMITED
        )
        if not (done.queued or done.ended | memory.missed.end(limit=1000)):
            return


class TestMissedFirings:
    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        policy=st.sampled_from(["skip", "fire_once", "backfill"]),
        max_catchup=st.integers(1, 4),
        window=st.sampled_from([MINUTE, 7 * MINUTE, HOUR]),
        ages=st.sets(st.integers(2, 12), min_size=1, max_size=8),
        here=st.sampled_from([0, 2, 100]),
    )
    def test_end_as_catch_up_would_have_them_end(
        self,
        undone: Callable[[], Any],
        policy: str,
        max_catchup: int,
        window: timedelta,
        ages: set[int],
        here: int,
    ) -> None:
        with undone(), pytest.MonkeyPatch.context() as patch:
            # This many end one by one, the others as a set.
            patch.setattr(decisions, "END_HERE", here)
            moment = now() - SECOND  # no firing is at the very edge of a window
            job = make_job(
                misfire_policy=policy,
                max_catchup=max_catchup,
                catchup_window=window,
                misfire_grace=MINUTE,
                overlap_policy="allow",
                max_concurrent=100,
                next_fire_at=moment + HOUR,
            )
            instants = [moment - age * MINUTE for age in sorted(ages, reverse=True)]
            for instant in instants:
                make_trigger(job, scheduled_for=instant, due_at=instant)
            dispatch_all()
            found = dict(Trigger.objects.filter(job=job).values_list("scheduled_for", "reason"))
            expected = decide(
                between(Listed(instants), []),
                policy=policy,
                max_catchup=max_catchup,
                window_start=moment + SECOND - window,
            )
            reasons = {
                at: reason
                for reason, parts in expected.ended.items()
                for part in parts
                for at in part.instants()
            }
            assert found == dict.fromkeys(expected.tail, "") | reasons
            transaction.set_rollback(True)
