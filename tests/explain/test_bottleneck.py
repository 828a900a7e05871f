"""A trigger that is late behind others, with every gate open: which limit was full, and about when its turn comes."""

from datetime import timedelta
from typing import Any

import pytest

from jobs.core.instants import instant_text
from jobs.explain import explain_job, explain_trigger
from jobs.models import ActivityMinute, Trigger
from tests.explain.asking import explain, is_dispatched
from tests.factories import (
    HOUR,
    MINUTE,
    make_job,
    make_running,
    make_tenant,
    make_trigger,
    make_triggers,
    now,
    set_clock,
)

LATE = timedelta(seconds=48)


def counted(trigger: Trigger, *, minutes_ago: int = 1, job_type: str = "noop", **counts: int) -> None:
    """Record counts of the trigger's tenant, as processes would."""
    minute = now().replace(second=0, microsecond=0) - minutes_ago * MINUTE
    ActivityMinute.objects.create(minute=minute, tenant_id=trigger.tenant_id, job_type=job_type, **counts)


@pytest.fixture(autouse=True)
def _early_in_its_minute() -> None:
    """Start early in a minute: the counts stay in the minutes that are read, however long the test takes."""
    present = now()
    set_clock(present.replace(second=0, microsecond=0) - present)


@pytest.fixture
def behind() -> Trigger:
    """48 s late behind 186 others of a tenant that may have four in flight. One of the four has just ended."""
    tenant = make_tenant(max_in_flight=4)
    make_triggers(make_job(tenant, overlap_policy="allow"), 186, due_at=now() - HOUR)
    for _ in range(3):
        make_running(make_job(tenant))
    return make_trigger(make_job(tenant), due_at=now() - LATE, scheduled_for=now() - LATE)


class TestBottleneck:
    def test_is_the_cap_that_was_full_and_the_turn_is_estimated_by_what_started(
        self, behind: Trigger
    ) -> None:
        counted(behind, started=114)
        counted(behind, minutes_ago=0, started=1)
        found = explain(behind)
        assert found.blocking == []
        told = found.representation()["bottleneck"]
        assert told["gate"] == "tenant_cap"
        # From the counts of one minute and a part of the next.
        assert 115 / 120 <= told["starts_per_second"] <= 115 / 60
        assert told["seconds_left"] == pytest.approx(186 / told["starts_per_second"], rel=0.01)
        assert told["detail"] in found.summary
        for words in (
            "late: tenant",
            "cap of 4 in flight was full in the last minute",
            "186 triggers are due before it",
        ):
            assert words in found.summary

    def test_is_told_alike_of_the_job(self, behind: Trigger) -> None:
        counted(behind, started=114)
        told = explain_job(tenant=behind.tenant, job_id=behind.job_id)
        shown = told.representation(next_fire_at=instant_text(now()))
        assert shown["oldest_waiting"]["bottleneck"]["gate"] == "tenant_cap"
        assert "cap of 4 in flight was full" in shown["summary"]

    def test_is_the_cap_too_where_handlers_kept_all_slots_busy(self, behind: Trigger) -> None:
        Trigger.objects.filter(tenant_id=behind.tenant_id, state="running").update(
            state="succeeded", finished_at=now()
        )
        counted(behind, started=240, duration_us=4 * 120 * 1_000_000)
        assert explain(behind).representation()["bottleneck"]["gate"] == "tenant_cap"

    def test_is_the_rate_limit_where_as_much_started_as_it_lets_go(self) -> None:
        tenant = make_tenant(rate_per_second=1, rate_burst=1)
        make_trigger(make_job(tenant), due_at=now() - HOUR)
        late = make_trigger(make_job(tenant), due_at=now() - LATE)
        counted(late, started=60)
        counted(late, minutes_ago=0, started=60)
        found = explain(late).representation()["bottleneck"]
        assert found["gate"] == "tenant_rate"
        assert "1 trigger is due before it" in found["detail"]

    def test_is_none_of_the_limits_where_none_was_full(self) -> None:
        late = make_trigger(due_at=now() - LATE)
        counted(late, started=5, job_type="webhook")
        found = explain(late).representation()["bottleneck"]
        assert (found["gate"], found["starts_per_second"], found["seconds_left"]) == (None, 0, None)
        assert "workers and other tenants set the pace; none of its noop firings started" in found["detail"]

    def test_is_not_looked_for_while_it_is_on_time(self, django_assert_num_queries: Any) -> None:
        # Due a minute ahead: a machine that stands still for some seconds does not make it late.
        trigger = make_trigger(due_at=now() + MINUTE)
        counted(trigger, started=5)
        tenant = trigger.tenant
        with django_assert_num_queries(3):
            assert explain_trigger(tenant=tenant, trigger_id=trigger.id).bottleneck is None

    def test_is_unknown_where_nothing_started_lately(self, behind: Trigger) -> None:
        counted(behind, minutes_ago=10, started=600)
        assert explain(behind).bottleneck is None

    def test_is_not_told_where_a_gate_blocks(self, behind: Trigger) -> None:
        counted(behind, started=114)
        make_running(make_job(behind.tenant))
        found = explain(behind)
        assert [gate.name for gate in found.blocking] == ["tenant_cap"]
        assert found.bottleneck is None

    def test_leaves_the_trigger_to_dispatch(self, behind: Trigger) -> None:
        Trigger.objects.filter(tenant_id=behind.tenant_id, state="pending").exclude(id=behind.id).delete()
        counted(behind, started=114)
        assert "and it is next" in explain(behind).summary
        assert is_dispatched(behind)
