"""A trigger's CHECKs are migration 0002's own SQL: here they are held to ``jobs.core.states``, pair by pair."""

from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from jobs.core.states import CANCEL_REASONS, DEAD_REASONS, REASONS, SKIP_REASONS, TriggerState
from jobs.models import Trigger
from tests.factories import make_trigger, now

pytestmark = pytest.mark.django_db
REASON_WORDS = ("", "because", *SKIP_REASONS, *DEAD_REASONS, *CANCEL_REASONS)
TIMES = (
    "scheduled_for",
    "due_at",
    "created_at",
    "queued_at",
    "started_at",
    "finished_at",
    "lease_expires_at",
    "parked_until",
)


def refused_by(trigger: Trigger, **columns: Any) -> str:
    """The name of the constraint that forbids the change; empty when none does."""
    try:
        with transaction.atomic():
            Trigger.objects.filter(id=trigger.id).update(**columns)
    except IntegrityError as error:
        return str(error.__cause__.diag.constraint_name)  # type: ignore[union-attr]
    return ""


def test_each_state_takes_its_own_reasons_alone() -> None:
    trigger, moment = make_trigger(), now()
    stamps = {"queued_at": moment, "lease_expires_at": moment}
    for state, reason in product(TriggerState, REASON_WORDS):
        allowed = reason in REASONS.get(state, ("",))
        refusal = refused_by(trigger, state=state, reason=reason, **stamps)
        assert refusal == ("" if allowed else "trigger_reason_fits_state"), (state, reason)


def test_a_state_that_is_none_is_refused() -> None:
    assert refused_by(make_trigger(), state="asleep") == "trigger_reason_fits_state"


@pytest.mark.parametrize(("state", "stamp"), [("queued", "queued_at"), ("running", "lease_expires_at")])
def test_what_is_in_flight_says_since_or_until_when(state: str, stamp: str) -> None:
    trigger = make_trigger()
    assert refused_by(trigger, state=state, **{stamp: None}) == "trigger_state_is_stamped"
    assert refused_by(trigger, state=state, **{stamp: now()}) == ""


@pytest.mark.parametrize("name", TIMES)
@pytest.mark.parametrize("year", [1999, 2101])
def test_no_time_is_far_off(name: str, year: int) -> None:
    columns = {name: datetime(year, 6, 1, tzinfo=UTC)} | ({"held": True} if name == "parked_until" else {})
    assert refused_by(make_trigger(), **columns) == "trigger_times_between_2000_and_2100"


def test_a_priority_is_one_of_four_and_what_is_parked_is_held() -> None:
    trigger = make_trigger()
    assert refused_by(trigger, priority=4) == refused_by(trigger, priority=-1) == "trigger_priority_known"
    assert refused_by(trigger, parked=True, held=False) == "trigger_parked_is_held"
