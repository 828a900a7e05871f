"""Jobs as people make them, with real triggers in every state."""

from typing import Any

from jobs.actions import jobs as actions
from jobs.core.states import TriggerState
from jobs.engine.firing.materializer import materialize
from jobs.models import Job, Trigger
from tenants.models import Tenant
from tests import factories
from tests.factories import HOUR, MINUTE, make_tenant, make_trigger

DAY = 24 * HOUR
EVERY_MINUTE = {"type": "interval", "every_seconds": 60}


def definition(**changes: Any) -> dict[str, Any]:
    return {"name": "nightly", "job_type": "noop", "schedule": EVERY_MINUTE} | changes


def create(tenant: Tenant | None = None, **changes: Any) -> Job:
    return actions.create_job(tenant=tenant or make_tenant(), definition=definition(**changes))


def in_every_state(job: Job) -> dict[str, Trigger]:
    """One trigger of the job in each state, all of them due."""
    return {str(state): make_trigger(job, str(state)) for state in TriggerState}


def step_beat() -> None:
    materialize(leadership=factories.ANYONE, look_ahead=MINUTE, limit=100)


ENDED = ("succeeded", "dead", "skipped", "cancelled")
