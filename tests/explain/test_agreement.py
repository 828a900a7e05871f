"""In any situation, a trigger that passed every gate goes at the next turn, and a blocked trigger does not.

Dispatch itself decides. Explain asks dispatch's rules about the triggers that dispatch would decide. This test keeps
the two alike in the data they read and in the order they read it.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.actions import levers, targets
from jobs.core.policies import MisfirePolicy, OverlapPolicy
from jobs.models import Job, Trigger
from jobs.store import dispatch as dispatch_store
from tests.explain.asking import blocking, is_dispatched
from tests.factories import MINUTE, SECOND, make_job, make_tenant, make_trigger, now

ORIGIN = st.sampled_from(["schedule", "schedule", "schedule", "run_now", "run_beside", "catchup", "backfill"])
AGES = st.sampled_from([-30, 2, 20, 90, 300, 4000])
WAITING = st.fixed_dictionaries(
    {
        "age": AGES,
        "state": st.sampled_from(["pending", "pending", "pending", "retrying"]),
        "parked": st.booleans(),
        "origin": ORIGIN,
        "replay_count": st.sampled_from([0, 0, 0, 1]),
    }
)
FLYING = st.fixed_dictionaries({"age": AGES, "state": st.sampled_from(["queued", "running"])})
#: With as much ``max_concurrent`` a job may fill its tenant: dispatch then counts less than explain does.
TENANT_CAP = 1000
JOB = st.fixed_dictionaries(
    {
        "overlap_policy": st.sampled_from(list(OverlapPolicy)),
        "misfire_policy": st.sampled_from(list(MisfirePolicy)),
        "max_concurrent": st.sampled_from([1, 2, 3, TENANT_CAP]),
        "max_catchup": st.integers(1, 2),
        "catchup_window": st.sampled_from([MINUTE, 3600 * SECOND]),
        "concurrency_key": st.sampled_from(["", "key"]),
        "target": st.sampled_from(["", "api.example.com"]),
    }
)
LEVERS: dict[str, Callable[[], Any]] = {
    "": lambda: None,
    "stop": lambda: levers.change_installation(changes={"dispatch": "stopped", "reason": "why"}),
    "pause": lambda: levers.change_type(name="noop", changes={"paused": True, "reason": "why"}),
    "pause its target": lambda: targets.change_target(
        pattern="*.example.com", changes={"paused": True, "reason": "why"}
    ),
    "cap its target": lambda: targets.put_target(pattern="*", changes={"max_in_flight": 1}),
    "pause another target": lambda: targets.put_target(
        pattern="b.example", changes={"paused": True, "reason": "why"}
    ),
    "pause another": lambda: levers.change_type(name="webhook", changes={"paused": True, "reason": "why"}),
}
STATUS = st.sampled_from(["active"] * 5 + ["completed", "paused", "cancelled"])


def build(job: Job, waiting: list[dict[str, Any]], flying: list[dict[str, Any]]) -> list[Trigger]:
    """Make the job's triggers. Returns those that wait."""
    for given_one in flying:
        make_trigger(job, given_one["state"], **_times(given_one), concurrency_key=job.concurrency_key)
    found = []
    for given_one in waiting:
        columns = _times(given_one) | {name: given_one[name] for name in ("origin", "replay_count")}
        # Only due triggers are ever parked. Triggers that will be skipped for overlap are not.
        skipped = job.overlap_policy == OverlapPolicy.SKIP and given_one["origin"] == "schedule"
        parked = given_one["parked"] and given_one["age"] > 0 and not skipped
        found.append(make_trigger(job, given_one["state"], **columns, parked=parked, held=parked))
    return found


_number = iter(range(10**9))


def _times(given_one: dict[str, Any]) -> dict[str, Any]:
    moment = now() - timedelta(seconds=given_one["age"], microseconds=next(_number))
    return {"scheduled_for": moment, "due_at": moment}


def settle() -> None:
    """Show dispatch the parked triggers that need not be parked, as in every turn: the next one chooses among these."""
    dispatch_store.release(after=UUID(int=0), limit=1000)


@pytest.fixture
def undone(calm: None) -> Callable[[], Any]:
    """A transaction that is rolled back. Each example has its own."""
    return transaction.atomic


class TestExplain:
    @settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        columns=JOB,
        status=STATUS,
        waiting=st.lists(WAITING, min_size=1, max_size=4),
        flying=st.lists(FLYING, max_size=3),
        beside=st.lists(FLYING, max_size=2),
        lever=st.sampled_from(["", "", "", *LEVERS]),
        data=st.data(),
    )
    def test_says_what_dispatch_does(
        self,
        undone: Callable[[], Any],
        columns: dict[str, Any],
        status: str,
        waiting: list[dict[str, Any]],
        flying: list[dict[str, Any]],
        beside: list[dict[str, Any]],
        lever: str,
        data: st.DataObject,
    ) -> None:
        with undone():
            tenant = make_tenant(max_in_flight=TENANT_CAP)
            job = make_job(tenant, status=status, **columns)
            build(make_job(tenant, concurrency_key="key"), [], beside)
            trigger = data.draw(st.sampled_from(build(job, waiting, flying)))
            settle()
            LEVERS[lever]()
            names = blocking(trigger)
            assert is_dispatched(trigger) == (names == []), names
            transaction.set_rollback(True)
