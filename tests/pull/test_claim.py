"""Claim: which worker gets which triggers, and the facts that it gets with them."""

import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.api.pull.exchange import _hangs_up
from jobs.models import Worker
from tests.engine.conftest import Broker
from tests.factories import (
    HOUR,
    SECOND,
    attempts,
    make_job,
    make_tenant,
    make_trigger,
    now,
    row,
    state_of,
    states,
)
from tests.interfaces.api.caller import Caller, faulty_fields
from tests.interfaces.api.test_traces import TRACEPARENT
from tests.pull.conftest import TYPE, claim, declare, pull_job, queued

pytestmark = pytest.mark.django_db
Turn = Callable[[], float]


class TestClaim:
    def test_tells_all_a_worker_needs(self, tenant: Any, worker: Caller) -> None:
        trigger = queued(pull_job(tenant, payload={"invoice": 7}), checkpoint={"page": 2})
        [work] = claim(worker)
        [attempt] = attempts(trigger)
        assert work["trigger_id"] == str(trigger.id)
        assert (work["fence"], work["attempt_number"]) == (trigger.fence, 1)
        assert work["attempt_id"] == str(attempt.id)
        assert (work["payload"], work["checkpoint"]) == ({"invoice": 7}, {"page": 2})
        assert (work["job_type"], work["timeout_seconds"]) == (TYPE, 60)
        assert work["idempotency_key"] == trigger.idempotency_key
        assert "whsec" not in str(work)
        assert (row(trigger)["state"], row(trigger)["worker"]) == ("running", "w1")

    def test_tells_the_trace_of_whoever_asked(self, tenant: Any, worker: Caller) -> None:
        job = pull_job(tenant)
        queued(job, trace=f"{TRACEPARENT} congo=t61", queued_at=now() - HOUR)
        queued(job)
        traced, untraced = claim(worker)
        assert (traced["traceparent"], traced["tracestate"]) == (TRACEPARENT, "congo=t61")
        assert (untraced["traceparent"], untraced["tracestate"]) == (None, None)

    def test_takes_no_more_than_the_capacity_and_nothing_twice(self, tenant: Any, worker: Caller) -> None:
        triggers = [queued(pull_job(tenant)) for _ in range(3)]
        taken = [work["trigger_id"] for _ in range(3) for work in claim(worker, capacity=2)]
        assert sorted(taken) == sorted(str(trigger.id) for trigger in triggers)

    def test_takes_its_own_types_alone(self, tenant: Any, worker: Caller) -> None:
        declare(tenant, "other")
        others = make_tenant()
        declare(others)
        queued(pull_job(tenant, "other"))
        queued(pull_job(others))
        queued(make_job(tenant))
        assert claim(worker) == []

    def test_takes_what_waits_longest_but_a_level_of_priority_is_worth_a_second(
        self, tenant: Any, worker: Caller
    ) -> None:
        late_critical = queued(pull_job(tenant, priority=0))
        low = queued(pull_job(tenant, priority=3), queued_at=now() - SECOND)
        oldest = queued(pull_job(tenant, priority=3), queued_at=now() - 10 * SECOND)
        order = [claim(worker, capacity=1)[0]["trigger_id"] for _ in range(3)]
        assert order == [str(trigger.id) for trigger in (oldest, late_critical, low)]

    def test_hands_back_what_may_not_run_now(self, tenant: Any, worker: Caller) -> None:
        trigger = queued(pull_job(tenant, status="paused"))
        assert claim(worker) == []
        assert state_of(trigger) == ("pending", "")

    def test_gives_a_suspect_alone(self, tenant: Any, worker: Caller) -> None:
        job = pull_job(tenant)
        first, suspect, last = (
            queued(job, queued_at=now() - age * SECOND, suspect=age == 2) for age in (3, 2, 1)
        )
        taken = [{work["trigger_id"] for work in claim(worker)} for _ in range(2)]
        assert taken == [{str(first.id), str(last.id)}, {str(suspect.id)}]

    def test_makes_the_worker_known(self, tenant: Any, worker: Caller) -> None:
        claim(worker)
        known = Worker.objects.get()
        assert known.name == f"w1@{tenant.id}"
        assert known.queues == [f"jobs.{TYPE}@{tenant.id}"]

    @pytest.mark.parametrize(
        ("changes", "field"),
        [
            ({"worker": ""}, "worker"),
            ({"worker": "a\x00"}, "worker"),
            ({"job_types": []}, "job_types"),
            ({"job_types": ["unknown"]}, "job_types"),
            ({"job_types": ["noop"]}, "job_types"),
            ({"job_types": [7]}, "job_types[0]"),
            ({"capacity": 0}, "capacity"),
            ({"capacity": 101}, "capacity"),
            ({"wait_seconds": 31}, "wait_seconds"),
            ({"bogus": 1}, "bogus"),
        ],
    )
    def test_refuses_what_it_cannot_serve(self, worker: Caller, changes: Any, field: str) -> None:
        body = {"worker": "w1", "job_types": [TYPE]} | changes
        assert faulty_fields(worker.post("/worker/claim", body)) == {field}

    def test_is_for_keys_of_workers(self, service: Caller) -> None:
        response = service.post("/worker/claim", {"worker": "w1", "job_types": [TYPE]})
        assert response.status_code == 403
        assert "worker" in response.json()["detail"]


class TestACallerThatHangsUp:
    def test_is_noticed_where_the_server_shows_its_socket(self) -> None:
        ours, theirs = socket.socketpair()
        gone = _hangs_up(SimpleNamespace(META={"gunicorn.socket": ours}))  # type: ignore[arg-type]
        assert not gone()
        theirs.close()
        assert gone()
        ours.close()
        assert gone()

    def test_is_not_suspected_elsewhere(self) -> None:
        assert not _hangs_up(SimpleNamespace(META={}))()  # type: ignore[arg-type]


class TestDispatch:
    def test_queues_for_pull_workers_without_a_message(
        self, tenant: Any, worker: Caller, turn: Turn, broker: Broker
    ) -> None:
        trigger = make_trigger(pull_job(tenant))
        turn()
        assert state_of(trigger) == ("queued", "")
        assert broker.messages == []
        assert [work["trigger_id"] for work in claim(worker)] == [str(trigger.id)]

    def test_goes_on_while_the_broker_is_away(self, tenant: Any, turn: Turn, broker: Broker) -> None:
        broker.up = False
        trigger, plain = make_trigger(pull_job(tenant)), make_trigger(make_job(tenant))
        turn()
        assert states([trigger, plain]) == ["queued", "pending"]

    def test_keeps_the_tenants_cap_over_both_kinds_of_workers(self, worker: Caller, turn: Turn) -> None:
        tenant = worker.tenant
        tenant.max_in_flight = 3
        tenant.save()
        triggers = [make_trigger(job) for job in (pull_job(tenant), make_job(tenant)) for _ in range(4)]
        for _ in range(4):
            turn()
            assert sum(state in ("queued", "running") for state in states(triggers)) == 3
            for work in claim(worker, capacity=1):
                body = {"trigger_id": work["trigger_id"], "fence": work["fence"], "outcome": "succeeded"}
                assert worker.post("/worker/complete", body).status_code == 200

    def test_keeps_the_types_cap_per_tenant(self, tenant: Any, turn: Turn) -> None:
        other = make_tenant()
        for owner in (tenant, other):
            declare(owner, max_in_flight=1)
        mine, theirs = ([make_trigger(pull_job(owner)) for _ in range(3)] for owner in (tenant, other))
        turn()
        assert states(mine).count("queued") == states(theirs).count("queued") == 1

    def test_dispatches_again_what_nobody_asked_for(
        self, tenant: Any, turn: Turn, clock: Callable[[Any], None]
    ) -> None:
        trigger = make_trigger(pull_job(tenant))
        turn()
        clock(HOUR)
        turn()
        assert (row(trigger)["state"], row(trigger)["fence"]) in {("pending", 1), ("queued", 2)}
        assert not attempts(trigger)
