"""A registered type that pull workers serve too: the first worker to claim a trigger has it, and no other (ADR 18)."""

from collections.abc import Callable
from typing import Any

import pytest

from jobs.conf import engine_settings
from jobs.engine.beat import served_types
from jobs.engine.cycle import Cycle
from jobs.engine.pull.configs import Takers
from jobs.explain import explain_trigger
from jobs.handlers import registry
from jobs.handlers.registry import RegistrationError
from jobs.models import Trigger, Worker
from jobs.store import execution, pull
from jobs.store.insight import workers
from tests.engine.conftest import Broker
from tests.factories import (
    HOUR,
    LEASE,
    SECOND,
    attempts,
    claim_token,
    make_job,
    make_tenant,
    make_trigger,
    make_triggers,
    row,
    state_of,
    states,
)
from tests.interfaces.api.caller import Caller, faulty_fields
from tests.pull.conftest import claim
from tests.races.conftest import at_once

pytestmark = pytest.mark.django_db
SHARED = "test.shared"
Turn = Callable[[], float]


@pytest.fixture(autouse=True)
def shared(job_types: None) -> None:
    registry.job_type(SHARED, pull=True, batch_size=10)(lambda ctx, payload: None)


@pytest.fixture
def turn(broker: Broker) -> Turn:
    """One turn of a beat that has just looked which workers take which types; reaping is not put off."""
    takers = Takers()

    def served() -> Any:
        takers._look_at = 0.0
        return served_types(dict, takers)

    settings = engine_settings().model_copy(update={"leader_election": False})
    cycle = Cycle(settings=settings, configs=served, publish=broker.publish, ready=broker.ready)

    def one() -> float:
        for name in ("queues", "reap leases", "reap messages"):
            cycle.steps[name].hurry()
        # A test's clock leaps, and no worker is there to renew.
        cycle._patience.allows = lambda **_: True  # type: ignore[method-assign]
        return cycle.tick()

    return one


def job_of(tenant: Any, **columns: Any) -> Any:
    return make_job(tenant, job_type=SHARED, **columns)


def taken(worker: Caller, **changes: Any) -> list[str]:
    return [work["trigger_id"] for work in claim(worker, job_types=[SHARED], **changes)]


def by_celery(*triggers: Trigger) -> list[str]:
    """The triggers that a message of these triggers claims."""
    for trigger in triggers:
        trigger.refresh_from_db()
    tokens = [claim_token(trigger) for trigger in triggers]
    rows = execution.claim(
        tokens=tokens, job_types=[triggers[0].job_type], worker="celery", celery_task_id="c", lease=LEASE
    )
    return [str(row.id) for row in rows]


class TestClaim:
    def test_takes_what_has_a_message_too_which_then_claims_nothing(
        self, tenant: Any, worker: Caller
    ) -> None:
        first, second = make_triggers(job_of(tenant), 2, "queued")
        assert taken(worker, capacity=1) == [str(first.id)]
        assert by_celery(first, second) == [str(second.id)]
        assert taken(worker) == []
        assert [len(attempts(trigger)) for trigger in (first, second)] == [1, 1]

    def test_is_under_its_registered_name(self, tenant: Any, worker: Caller) -> None:
        make_trigger(job_of(tenant), "queued")
        [work] = claim(worker, job_types=[SHARED])
        assert work["job_type"] == SHARED

    def test_takes_its_own_tenants_alone(self, tenant: Any, worker: Caller) -> None:
        theirs = make_trigger(job_of(make_tenant()), "queued")
        assert taken(worker) == []
        assert state_of(theirs) == ("queued", "")

    def test_leaves_effects_once_to_celery_whose_context_has_once(self, tenant: Any, worker: Caller) -> None:
        trigger = make_trigger(job_of(tenant, delivery="exactly_once"), "queued")
        assert taken(worker) == []
        assert by_celery(trigger) == [str(trigger.id)]

    @pytest.mark.parametrize("name", ["noop", "webhook", "carillon.notice"])
    def test_is_not_of_types_that_are_not_shared(self, worker: Caller, name: str) -> None:
        body = {"worker": "w1", "job_types": [SHARED, name]}
        assert faulty_fields(worker.post("/worker/claim", body)) == {"job_types"}

    def test_goes_on_with_what_the_other_kind_let_fall(
        self, tenant: Any, worker: Caller, turn: Turn, clock: Callable[[Any], None]
    ) -> None:
        trigger = make_trigger(job_of(tenant))
        turn()
        assert by_celery(trigger) == [str(trigger.id)]
        clock(LEASE + SECOND)
        turn()
        clock(HOUR)
        turn()
        [work] = claim(worker, job_types=[SHARED])
        body = {"trigger_id": work["trigger_id"], "fence": work["fence"], "outcome": "succeeded"}
        assert worker.post("/worker/complete", body).status_code == 200
        assert [attempt.state for attempt in attempts(trigger)] == ["lost", "succeeded"]
        assert by_celery(trigger) == []

    def test_is_shown_among_the_job_types(self, service: Caller) -> None:
        shown = {each["name"]: each["pull"] for each in service.get("/job-types").json()["results"]}
        assert (shown[SHARED], shown["noop"]) == (True, False)


@pytest.mark.django_db(transaction=True)
class TestBothAtOnce:
    def test_each_trigger_goes_to_one_of_them(self) -> None:
        tenant = make_tenant()
        triggers = make_triggers(job_of(tenant), 60, "queued")
        tokens = [claim_token(trigger) for trigger in triggers]

        def asks() -> list[Any]:
            works = [
                pull.claim(tenant_id=tenant.id, job_types=[SHARED], limit=3, worker="pull", lease=LEASE)
                for _ in range(20)
            ]
            return [work.row.id for batch in works for work in batch]

        def hears() -> list[Any]:
            rows = [
                execution.claim(
                    tokens=[one], job_types=[SHARED], worker="celery", celery_task_id="c", lease=LEASE
                )
                for one in tokens
            ]
            return [row.id for batch in rows for row in batch]

        claimed = [key for ids in at_once(asks, hears, asks, hears) for key in ids]
        assert sorted(claimed) == sorted(trigger.id for trigger in triggers)
        assert all(row(trigger)["attempt_count"] == 1 for trigger in triggers)


class TestDispatch:
    @pytest.fixture
    def pull_workers(self, tenant: Any, worker: Caller) -> None:
        assert taken(worker) == []

    @pytest.fixture
    def celery_workers(self) -> None:
        workers.announce(name="celery@host", queues=[f"jobs.{SHARED}"], concurrency=2)

    @pytest.fixture
    def woken(self, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
        woken: list[bool] = []
        monkeypatch.setattr("jobs.engine.dispatcher.wake_pull_workers", lambda: woken.append(True))
        return woken

    def test_tells_celery_alone_while_nobody_else_asks(
        self, tenant: Any, turn: Turn, broker: Broker, woken: list[bool]
    ) -> None:
        trigger = make_trigger(job_of(tenant))
        turn()
        assert [one.id for one in broker.tokens] == [trigger.id]
        assert woken == []

    @pytest.mark.usefixtures("pull_workers", "celery_workers")
    def test_tells_both_kinds_that_are_there(
        self, tenant: Any, turn: Turn, broker: Broker, woken: list[bool]
    ) -> None:
        trigger = make_trigger(job_of(tenant))
        turn()
        assert [one.id for one in broker.tokens] == [trigger.id]
        assert woken == [True]

    @pytest.mark.usefixtures("pull_workers")
    def test_does_not_fill_the_broker_for_workers_that_are_not_there(
        self, tenant: Any, worker: Caller, turn: Turn, broker: Broker
    ) -> None:
        theirs = make_triggers(job_of(make_tenant()), 100)
        mine = make_trigger(job_of(tenant))
        turn()
        # No worker takes the other tenant's triggers: queued, they would hold the window.
        assert states([mine, *theirs]) == ["queued"] + ["pending"] * 100
        assert broker.tokens == []
        assert taken(worker) == [str(mine.id)]
        workers.announce(name="celery@host", queues=[f"jobs.{SHARED}"], concurrency=2)
        turn()
        assert "pending" not in states(theirs[:8])

    @pytest.mark.usefixtures("pull_workers")
    def test_tells_celery_again_when_pull_workers_fall_silent(
        self, tenant: Any, turn: Turn, broker: Broker, clock: Callable[[Any], None]
    ) -> None:
        trigger = make_trigger(job_of(tenant))
        turn()
        assert broker.tokens == []
        clock(HOUR)
        for _ in range(2):
            turn()
        assert [one.id for one in broker.tokens] == [trigger.id]

    @pytest.mark.usefixtures("pull_workers", "celery_workers")
    def test_keeps_the_tenants_cap_over_both(self, worker: Caller, turn: Turn) -> None:
        tenant = worker.tenant
        assert tenant is not None
        tenant.max_in_flight = 3
        tenant.save()
        triggers = make_triggers(job_of(tenant), 8)
        for _ in range(3):
            turn()
            assert sum(state in ("queued", "running") for state in states(triggers)) == 3
            for work in claim(worker, job_types=[SHARED], capacity=1):
                body = {"trigger_id": work["trigger_id"], "fence": work["fence"], "outcome": "succeeded"}
                assert worker.post("/worker/complete", body).status_code == 200


class TestExplain:
    def test_counts_the_tenants_own_pull_workers(self, tenant: Any, worker: Caller) -> None:
        other = make_trigger(job_of(make_tenant()))
        mine = make_trigger(job_of(tenant))
        taken(worker)
        assert Worker.objects.get().queues == [f"jobs.{SHARED}@{tenant.id}"]

        def served(trigger: Trigger) -> bool:
            gates = explain_trigger(tenant=trigger.tenant, trigger_id=trigger.id).gates
            return next(gate.passed for gate in gates if gate.name == "worker")

        assert (served(mine), served(other)) == (True, False)


class TestRegistration:
    @pytest.mark.parametrize(
        ("name", "options"), [("test.sealed", {"secrets": lambda payload: {}}), ("carillon.own", {})]
    )
    def test_keeps_secrets_and_carillons_own_from_pull_workers(self, name: str, options: Any) -> None:
        with pytest.raises(RegistrationError, match="leave out pull"):
            registry.job_type(name, pull=True, **options)
