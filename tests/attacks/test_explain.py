"""A tenant learns nothing of another's load: explain says the same, however much the others have in flight."""

import re
from typing import Any

import pytest

from jobs.conf import engine_settings
from jobs.handlers import registry
from jobs.models import Job, Trigger
from tests.explain.asking import Tokens, explain
from tests.factories import MINUTE, dispatch, make_job, make_tenant, make_trigger, make_triggers, now

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("job_types")]
#: Of the tokens of a host that others call too, six of nine are spent.
BUSY, IDLE = Tokens(**{"target_shared.example": 3}), Tokens()


@pytest.fixture
def waiting(settings: Any) -> dict[str, Trigger]:
    """A trigger in the queue and one before it, of a type with a cap and to a host with a rate."""
    settings.CARILLON = engine_settings().model_copy(update={"target_rates": {"shared.example": 9.0}})
    registry.job_type("capped", max_in_flight=1_000)(lambda context, payload: None)
    job = make_job(job_type="capped", target="shared.example")
    dispatch(types=(), capped=1_000)
    return {"queued": make_trigger(job, "queued"), "pending": make_trigger(job)}


def told(trigger: Trigger, tokens: Tokens) -> list[tuple[Any, ...]]:
    """Every word and figure of every gate, except those that the clock alone changes."""
    return [
        (gate.name, gate.passed, re.sub(r"\d+ (ms|s|min)", "…", gate.detail), gate.limit, gate.used)
        for gate in explain(trigger, tokens).gates
    ]


def load(job: Job) -> None:
    make_triggers(job, 30, "queued", queued_at=now() - MINUTE)
    make_triggers(job, 20, "running")
    make_triggers(job, 10)


@pytest.mark.parametrize("state", ["queued", "pending"])
def test_explain_says_the_same_whatever_others_have_in_flight(
    waiting: dict[str, Trigger], state: str
) -> None:
    before = told(waiting[state], IDLE)
    load(make_job(make_tenant(), job_type="capped", target="shared.example"))
    assert told(waiting[state], BUSY) == before
    # The control: explain does show the tenant's own load.
    load(make_job(waiting[state].tenant, job_type="capped", target="shared.example"))
    assert told(waiting[state], BUSY) != before
