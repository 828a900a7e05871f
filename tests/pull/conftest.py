"""A tenant with a pull type, a key for its workers, and a beat that serves both kinds of types."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from jobs.actions.pull.types import declare_type
from jobs.conf import engine_settings
from jobs.core.pull import stored_name
from jobs.engine.beat import served_types
from jobs.engine.cycle import Cycle
from jobs.engine.pull import offers
from jobs.engine.pull.configs import PullConfigs
from jobs.models import Job, Trigger
from jobs.store import dispatch as dispatch_store
from tenants.models import Tenant
from tests.engine.conftest import Broker
from tests.factories import make_job, make_tenant, make_trigger, now
from tests.interfaces.api.caller import Caller

TYPE = "invoice.render"


@pytest.fixture(autouse=True)
def nobody_was_announced() -> None:
    offers._announced.clear()
    offers._in_vain.clear()


@pytest.fixture
def tenant(db: None, job_types: None) -> Tenant:
    tenant = make_tenant()
    declare(tenant)
    return tenant


@pytest.fixture
def worker(tenant: Tenant) -> Caller:
    """Holds a key of the scope ``worker`` alone."""
    return Caller(tenant, scopes=("worker",))


@pytest.fixture
def service(tenant: Tenant) -> Caller:
    """Holds a key that reads and writes."""
    return Caller(tenant)


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def turn(broker: Broker, job_types: None) -> Callable[[], float]:
    """One whole turn of a beat; reaping is not put off."""
    configs = PullConfigs()
    settings = engine_settings().model_copy(update={"leader_election": False})

    def served() -> Any:
        configs._look_at = 0.0
        return served_types(configs)

    cycle = Cycle(settings=settings, configs=served, publish=broker.publish, ready=broker.ready)

    def one() -> float:
        for name in ("queues", "reap leases", "reap messages"):
            cycle.steps[name].hurry()
        # A test's clock leaps, and no worker is there to renew.
        cycle._patience.allows = lambda **_: True  # type: ignore[method-assign]
        return cycle.tick()

    return one


def declare(tenant: Tenant, name: str = TYPE, **declaration: Any) -> str:
    """Declare a pull type. Returns the job type that its jobs store."""
    declare_type(tenant=tenant, name=name, declaration=declaration)
    return stored_name(name, tenant_id=tenant.id)


def pull_job(tenant: Tenant, name: str = TYPE, **columns: Any) -> Job:
    return make_job(tenant, **({"job_type": stored_name(name, tenant_id=tenant.id)} | columns))


def queued(job: Job, **columns: Any) -> Trigger:
    return make_trigger(job, "queued", **columns)


def claim(worker: Caller, **changes: Any) -> list[dict[str, Any]]:
    response = worker.post("/worker/claim", {"worker": "w1", "job_types": [TYPE], "capacity": 10} | changes)
    assert response.status_code == 200, response.content
    return response.json()["triggers"]


def claim_token(work: dict[str, Any]) -> dict[str, Any]:
    return {name: work[name] for name in ("trigger_id", "fence")}


__all__ = (
    "TYPE",
    "claim",
    "claim_token",
    "declare",
    "dispatch_store",
    "now",
    "pull_job",
    "queued",
    "timedelta",
)
