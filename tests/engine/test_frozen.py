"""A worker that was frozen between claim and handlers does not start triggers that others took over meanwhile."""

import time
from typing import Any

import pytest

from jobs.handlers.context import Context
from jobs.models import Trigger
from jobs.store import execution
from tests.engine.conftest import Perform, queued
from tests.engine.worker.conftest import Register
from tests.factories import state_of

pytestmark = pytest.mark.django_db(transaction=True)
LEASE_SECONDS = 0.5


@pytest.fixture
def renewals(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of triggers that each renewal asked for."""
    asked: list[int] = []
    renew = execution.renew

    def counted(**arguments: Any) -> Any:
        asked.append(len(arguments["tokens"]))
        return renew(**arguments)

    monkeypatch.setattr(execution, "renew", counted)
    return asked


@pytest.mark.parametrize("at_once", [False, True])
def test_starts_what_is_still_its_own_alone(
    perform: Perform,
    handler: Register,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    renewals: list[int],
    at_once: bool,
) -> None:
    started = []

    def plain(ctx: Context, payload: dict[str, Any]) -> None:
        started.append(ctx.trigger_id)

    async def asynchronous(ctx: Context, payload: dict[str, Any]) -> None:
        started.append(ctx.trigger_id)

    name = handler(asynchronous if at_once else plain, batch_size=3)
    mine, taken, also_mine = triggers = [queued(name) for _ in range(3)]
    claim = execution.claim

    def claimed_and_frozen(**arguments: Any) -> Any:
        rows = claim(**arguments)
        time.sleep(2 * LEASE_SECONDS)
        Trigger.objects.filter(id=taken.id).update(state="retrying", fence=2)
        return rows

    monkeypatch.setattr(execution, "claim", claimed_and_frozen)
    settings.CARILLON = settings.CARILLON.model_copy(update={"worker_lease_seconds": LEASE_SECONDS})
    assert perform(*triggers) == {"succeeded": 2, "stale": 1}
    assert sorted(started) == sorted([mine.id, also_mine.id])
    assert state_of(taken) == ("retrying", "")
    assert renewals, "who has slept asks"


def test_nobody_asks_who_has_not_slept(perform: Perform, handler: Register, renewals: list[int]) -> None:
    name = handler(lambda ctx, payload: None, batch_size=3)
    assert perform(*[queued(name) for _ in range(3)]) == {"succeeded": 3}
    assert renewals == []
