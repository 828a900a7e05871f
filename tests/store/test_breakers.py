"""Circuit breakers as they are stored: counted, probed, shown and forgotten."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import DataError, OperationalError, connection
from django.test.utils import CaptureQueriesContext

from jobs.engine.worker.finisher import Finisher
from jobs.handlers.outcome import Outcome
from jobs.models import Breaker, Change, Trigger
from jobs.store import db, execution
from jobs.store.dispatch import Memory, breakers
from tenants.actions import update_tenant
from tests.explain.asking import explain, gate
from tests.factories import (
    HOUR,
    LEASE,
    MINUTE,
    SECOND,
    claim,
    claim_token,
    dispatch,
    finish_of,
    make_job,
    make_running,
    make_tenant,
    make_trigger,
    make_triggers,
    now,
    row,
    state_of,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("job_types")]
HOST = "api.example.com"


@pytest.fixture
def tenant(settings: Any) -> Any:
    settings.CARILLON = settings.CARILLON.model_copy(update={"breaker_failures": 3})
    return make_tenant(circuit_breaker=True)


def note(tenant: Any, *verdicts: bool, target: str = HOST) -> None:
    breakers.note(((tenant.id, target), uuid4(), verdict) for verdict in verdicts)


def make_open(tenant: Any, *, target: str = HOST, **columns: Any) -> Breaker:
    plain = {"state": "open", "failures": 0, "successes": 0, "openings": 1, "window_ends_at": now(),
             "probe_at": now() + MINUTE, "changed_at": now()}  # fmt: skip
    return Breaker.objects.create(tenant=tenant, target=target, **(plain | columns))


def make_calling(tenant: Any, number: int, state: str = "pending") -> list[Trigger]:
    return make_triggers(make_job(tenant, target=HOST), number, state)


def failed_calls(tenant: Any, number: int, *, pause_job: bool = False) -> Finisher:
    """The outcomes that a worker has yet to write of ``number`` calls that did not reach the host."""
    finisher = Finisher(flush_seconds=0)
    for claimed in claim(*make_calling(tenant, number, "queued")):
        outcome = Outcome("failed", error_code="connect", pause_job=pause_job)
        finisher.add(claimed, outcome, seconds=0.1)
    return finisher


def raising(error: Exception) -> Any:
    def fail(*_: Any) -> Any:
        raise error

    return fail


class TestCounting:
    def test_opens_after_so_many_failures_in_a_window(self, tenant: Any) -> None:
        note(tenant, False, False)
        assert (Breaker.objects.get().state, Breaker.objects.get().failures) == ("closed", 2)
        note(tenant, False)
        opened = Breaker.objects.get()
        assert (opened.state, opened.openings) == ("open", 1)
        assert 25 * SECOND < opened.probe_at - now() <= 30 * SECOND

    def test_begins_anew_with_each_window(self, tenant: Any, clock: Any) -> None:
        note(tenant, False, False)
        clock(2 * MINUTE)
        note(tenant, False, False)
        assert (Breaker.objects.get().state, Breaker.objects.get().failures) == ("closed", 2)

    def test_makes_no_row_for_what_goes_well(self, tenant: Any) -> None:
        note(tenant, True, True, True)
        assert not Breaker.objects.exists()

    def test_finds_failures_among_many_successes_too_few(self, tenant: Any) -> None:
        note(tenant, False, *[True] * 9)
        note(tenant, False, False, False)
        assert Breaker.objects.get().state == "closed"

    def test_is_bounded_for_a_tenant_that_invents_hosts(
        self, tenant: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(breakers, "MAX_OF_TENANT", 5)
        for number in range(20):
            note(tenant, False, False, False, target=f"h{number}.example")
        assert Breaker.objects.count() == 5
        other = make_tenant(circuit_breaker=True)
        note(other, False, False, False)
        assert Breaker.objects.filter(tenant=other, state="open").exists()

    def test_is_done_by_finish_for_guarded_targets_alone(self, tenant: Any) -> None:
        for guarded in ("", HOST):
            trigger, attempt = make_running(make_job(tenant, target=HOST))
            execution.finish([finish_of(trigger, attempt, "retrying", error_code="connect", guarded_target=guarded,
                                        tenant_id=tenant.id)])  # fmt: skip
            assert Breaker.objects.exists() == bool(guarded)

    def test_costs_others_no_statement(self) -> None:
        trigger, attempt = make_running()
        with CaptureQueriesContext(
            connection,
        ) as captured:
            execution.finish([finish_of(trigger, attempt)])
        assert not [each["sql"] for each in captured if "breaker" in each["sql"]]

    def test_counts_once_what_has_to_be_written_again(
        self, tenant: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        finisher = failed_calls(tenant, 1)
        with monkeypatch.context() as broken:
            broken.setattr(execution, "_finish", raising(OperationalError("away")))
            for _ in range(3):
                with pytest.raises(OperationalError):
                    finisher.flush()
        finisher.flush()
        assert finisher.counts == {"retrying": 1}
        assert (Breaker.objects.get().state, Breaker.objects.get().failures) == ("closed", 1)

    def test_counts_once_the_members_of_a_refused_group(
        self, tenant: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        finisher, write = failed_calls(tenant, 2), execution._finish
        refuse = raising(DataError("refused"))
        monkeypatch.setattr(
            execution, "_finish", lambda finishes: (refuse if len(finishes) > 1 else write)(finishes)
        )
        finisher.flush()
        assert finisher.counts == {"retrying": 2}
        assert (Breaker.objects.get().state, Breaker.objects.get().failures) == ("closed", 2)

    def test_counts_again_what_was_rolled_back_with_its_outcomes(
        self, tenant: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        finisher = failed_calls(tenant, 2, pause_job=True)
        with monkeypatch.context() as broken:
            broken.setattr(execution, "pause_gone", raising(OperationalError("away")))
            with pytest.raises(OperationalError):
                finisher.flush()
        assert not Breaker.objects.exists()
        finisher.flush()
        assert Breaker.objects.get().failures == 2

    def test_leaves_the_patience_of_the_callers_transaction_as_it_is(self, tenant: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SHOW lock_timeout")
            before = cursor.fetchone()
            note(tenant, False)
            cursor.execute("SHOW lock_timeout")
            assert cursor.fetchone() == before


class TestClaim:
    def test_gives_the_target_where_the_tenant_has_breakers(self, tenant: Any) -> None:
        other = make_tenant()
        for whose, target in ((tenant, HOST), (other, "")):
            [claimed] = claim(*make_calling(whose, 1, "queued"))
            assert claimed.guarded_target == target

    def test_does_not_count_a_payload_that_only_one_run_had(self, tenant: Any) -> None:
        [claimed] = claim(make_trigger(make_job(tenant, target=HOST), "queued", payload={"url": "elsewhere"}))
        assert claimed.guarded_target == ""

    def test_counts_it_where_that_run_probes(self, tenant: Any) -> None:
        probe = make_trigger(make_job(tenant, target=HOST), "queued", payload={"url": "elsewhere"})
        make_open(tenant, state="half_open", probe_id=probe.id)
        for _ in range(2):  # the second time as when the answer was lost
            [claimed] = execution.claim(
                tokens=[claim_token(probe)], job_types=["noop"], worker="w1", celery_task_id="celery-1",
                lease=LEASE, attempt_ids=["019a0000-0000-7000-8000-000000000001"]
            )  # fmt: skip
            assert claimed.guarded_target == HOST
        [held] = db.queries("pull")["held"](ids=[probe.id], fences=[probe.fence], tenant_id=tenant.id)
        assert held.guarded_target == HOST

    def test_takes_nothing_for_an_open_one_but_its_probe(self, tenant: Any) -> None:
        first, second = make_calling(tenant, 2, "queued")
        make_open(tenant, state="half_open", probe_id=first.id)
        assert [each.id for each in claim(first, second)] == [first.id]
        assert (state_of(second), row(second)["attempt_count"]) == (("pending", ""), 0)

    def test_takes_what_calls_other_hosts_or_is_of_others(self, tenant: Any) -> None:
        make_open(tenant)
        free = [*make_calling(make_tenant(circuit_breaker=True), 1, "queued"),
                *make_triggers(make_job(tenant, target="b.example"), 1, "queued"),
                make_trigger(make_job(tenant), "queued")]  # fmt: skip
        assert {each.id for each in claim(*free)} == {each.id for each in free}


class TestDispatch:
    def test_parks_what_calls_and_hands_out_one_probe(self, tenant: Any) -> None:
        triggers = make_calling(tenant, 4)
        breaker = make_open(tenant)
        memory = Memory()
        assert dispatch(memory=memory).queued == []
        assert all(row(each)["parked"] for each in triggers)
        assert not dispatch(memory=memory).blocked
        Breaker.objects.update(probe_at=now() - SECOND)
        [probe] = dispatch(memory=memory).queued
        breaker.refresh_from_db()
        assert (breaker.state, breaker.probe_id, probe.id) == ("half_open", triggers[0].id, triggers[0].id)
        assert dispatch(memory=memory).queued == []
        Breaker.objects.update(state="closed")
        assert len(dispatch(memory=memory).queued) == 3

    @pytest.mark.parametrize("parked", [False, True])
    def test_lets_one_probe_that_has_no_payload_of_its_own(self, tenant: Any, parked: bool) -> None:
        job, memory = make_job(tenant, target=HOST), Memory()
        for seconds in (5, 4):
            make_trigger(job, payload={"url": "elsewhere"}, scheduled_for=now() - seconds * SECOND)
        plain = make_trigger(job)
        make_open(tenant, probe_at=now() + MINUTE)
        if parked:
            assert dispatch(memory=memory).queued == []
            assert row(plain)["parked"]
        Breaker.objects.update(probe_at=now() - SECOND)
        assert [item.id for item in dispatch(memory=memory).queued] == [plain.id]

    def test_lets_a_run_with_its_own_probe_where_nothing_else_waits(self, tenant: Any) -> None:
        runs = make_triggers(make_job(tenant, target=HOST), 2, payload={"url": "elsewhere"})
        make_open(tenant, probe_at=now() - SECOND)
        assert [item.id for item in dispatch().queued] == [runs[0].id]

    def test_gives_the_place_of_a_probe_that_came_to_nothing_to_the_next(self, tenant: Any) -> None:
        triggers = make_calling(tenant, 3)
        make_open(tenant, probe_at=now() - SECOND)
        [probe] = dispatch().queued
        Trigger.objects.filter(id=probe.id).update(state="cancelled", reason="requested", finished_at=now())
        assert [item.id for item in dispatch().queued] == [triggers[1].id]

    def test_gives_it_to_the_next_when_a_probe_takes_too_long(self, tenant: Any, clock: Any) -> None:
        triggers = make_calling(tenant, 3)
        make_open(tenant, probe_at=now() - SECOND)
        dispatch()
        clock(16 * MINUTE)
        assert [item.id for item in dispatch().queued] == [triggers[1].id]

    def test_reads_nothing_of_breakers_for_others(self) -> None:
        make_calling(make_tenant(), 3)
        with CaptureQueriesContext(connection) as captured:
            assert len(dispatch().queued) == 3
        assert not [each["sql"] for each in captured if "jobs_breaker" in each["sql"]]


class TestExplain:
    def test_names_it_while_it_is_open_and_probing(self, tenant: Any) -> None:
        first, second = make_calling(tenant, 2)
        breaker = make_open(tenant)
        told = gate(second, "breaker")
        assert (told.passed, told.opens_at) == (False, breaker.probe_at)
        assert "is open since" in explain(second).summary
        Breaker.objects.update(probe_at=now() - SECOND)
        dispatch()
        assert gate(second, "breaker").blockers == (first.id,)
        first.refresh_from_db()
        assert gate(first, "breaker").passed
        Breaker.objects.update(state="closed")
        assert gate(second, "breaker").passed


class TestPurge:
    def test_forgets_what_tells_nothing_any_more(self, tenant: Any) -> None:
        past = now() - SECOND
        make_open(tenant, target="counted.example", state="closed", window_ends_at=past, probe_at=None)
        make_open(
            tenant, target="counting.example", state="closed", window_ends_at=now() + MINUTE, probe_at=None
        )
        make_open(tenant, target="open.example")
        make_open(tenant, target="idle.example", probe_at=now() - 7 * HOUR)
        make_open(tenant, target=HOST, probe_at=now() - 7 * HOUR)
        [waits] = make_calling(tenant, 1)
        Trigger.objects.filter(id=waits.id).update(
            held=True, parked=True, parked_for=HOST, parked_until=now() + timedelta(hours=1)
        )
        assert breakers.purge(limit=100) == 2
        assert set(Breaker.objects.values_list("target", flat=True)) == {
            "counting.example",
            "open.example",
            HOST,
        }


class TestTheSwitch:
    def test_is_on_the_audit_trail(self) -> None:
        tenant = make_tenant()
        update_tenant(tenant=tenant, circuit_breaker=True)
        [change] = Change.objects.filter(kind="tenant", action="updated", object_id=str(tenant.id))
        assert change.changes["circuit_breaker"] == [False, True]
