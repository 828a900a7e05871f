"""Claims that wait, and operations, of one tenant leave others their turn."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from jobs.api.pull import exchange
from jobs.conf import engine_settings
from jobs.engine.pull import waiting
from jobs.engine.pull.waiting import Waiting
from jobs.models import Operation
from jobs.store import db, operations
from stage.waiting import wait_until
from tests.factories import make_tenant
from tests.interfaces.api.caller import Caller
from tests.pull.conftest import TYPE, declare

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("job_types")]
SCOPES = ("read", "write", "worker")


def caller() -> Caller:
    made = Caller(make_tenant(), scopes=SCOPES)
    declare(made.tenant)
    return made


def claim(who: Caller, wait_seconds: float) -> int:
    """The status of a claim that finds nothing."""
    try:
        body = {"worker": "w1", "job_types": [TYPE], "capacity": 1, "wait_seconds": wait_seconds}
        answer = who.post("/worker/claim", body)
        assert answer.status_code == 200 or int(answer["Retry-After"]) > 0
        return int(answer.status_code)
    finally:
        if threading.current_thread() is not threading.main_thread():
            connection.close()


def listen(who: Caller) -> int:
    answer = who.get("/events", Accept="text/event-stream")
    answer.close()
    return int(answer.status_code)


@pytest.fixture
def crowd(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadPoolExecutor]:
    """The claims of this crowd wait until the test is over: their callers hang up then."""
    over = threading.Event()
    monkeypatch.setattr(exchange, "_hangs_up", lambda _: over.is_set)
    with ThreadPoolExecutor(40) as pool:
        yield pool
        over.set()


class TestWaitingClaims:
    def test_leave_places_to_other_tenants(self, crowd: ThreadPoolExecutor) -> None:
        hostile, other = caller(), caller()
        statuses = [crowd.submit(claim, hostile, 30.0) for _ in range(40)]
        refused = 40 - engine_settings().long_polls // 2
        wait_until(lambda: sum(one.done() for one in statuses) == refused, what="all but a few to be refused")
        assert {one.result() for one in statuses if one.done()} == {429}
        assert listen(other) == 200
        since = time.monotonic()
        assert claim(other, 1.0) == 200
        assert time.monotonic() - since >= 1

    def test_would_take_all_were_they_not_shared(
        self, crowd: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The control."""
        monkeypatch.setattr(Waiting, "_is_fair", staticmethod(lambda has, free: True))
        hostile, other = caller(), caller()
        for _ in range(40):
            crowd.submit(claim, hostile, 30.0)
        wait_until(
            lambda: waiting.places().taken == engine_settings().long_polls, what="all places to be taken"
        )
        assert (listen(other), claim(other, 1.0)) == (503, 503)


class TestOperations:
    def test_of_tenants_take_turns(self) -> None:
        hostile, other = make_tenant(), make_tenant()
        for tenant, count in ((hostile, 10), (other, 1)):
            for _ in range(count):
                operations.begin(tenant_id=tenant.id, verb="pause", wanted={}, most=10)
        by_age = Operation.objects.filter(finished_at=None).order_by("updated_at")
        # The control: by age alone the other tenant would come last.
        assert [operation.tenant_id for operation in by_age] == [hostile.id] * 10 + [other.id]
        turns = []
        for _ in range(12):
            with db.atomic():
                taken = operations.take()
                turns.append(taken.tenant_id)
                operations.postpone(operation_id=taken.id)
        assert turns == [hostile.id, other.id] * 6
