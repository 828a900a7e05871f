"""Operators' levers over all tenants, with real dispatches and claims (DESIGN §8)."""

from typing import Any

import pytest

from jobs.actions import levers
from jobs.core.errors import InvalidInput, NotFound
from jobs.core.levers import lower_cap
from jobs.handlers import registry
from jobs.models import Change, Installation, PullType, Queue
from jobs.store import execution
from jobs.store.dispatch import Memory
from jobs.store.trail import Actor, acting_as
from tests.factories import (
    SECOND,
    claim,
    claim_token,
    dispatch,
    make_job,
    make_running,
    make_tenant,
    make_trigger,
    make_triggers,
    state_of,
    states,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("job_types")]
BY = Actor("operator", "olga")


def stop(reason: str = "Incident 42.") -> Installation:
    with acting_as(BY):
        return levers.change_installation(changes={"dispatch": "stopped", "reason": reason})


def start() -> Installation:
    with acting_as(BY):
        return levers.change_installation(changes={"dispatch": "running"})


def change(name: str, **changes: Any) -> Any:
    with acting_as(BY):
        return levers.change_type(name=name, changes=changes)


def trail(kind: str) -> list[tuple[str, str, str, dict[str, Any]]]:
    rows = Change.objects.filter(kind=kind).order_by("id")
    return [(row.object_id, row.name, f"{row.actor_kind} {row.actor}", row.changes) for row in rows]


class TestStop:
    def test_lets_nothing_be_dispatched_for_anybody_until_it_is_lifted(self) -> None:
        triggers = [make_trigger(make_job(make_tenant())) for _ in range(3)]
        stop()
        stopped = dispatch()
        # It does not look again before its longest sleep, because nothing may start.
        assert (stopped.queued, stopped.ended, stopped.blocked) == ([], {}, False)
        start()
        assert {item.id for item in dispatch().queued} == {trigger.id for trigger in triggers}

    def test_acts_on_a_dispatcher_that_remembers_its_backlog(self) -> None:
        memory, tenant = Memory(), make_tenant()
        make_trigger(make_job(tenant))
        assert len(dispatch(memory=memory).queued) == 1
        stop()
        waiting = make_trigger(make_job(tenant))
        assert dispatch(memory=memory).queued == []
        start()
        assert [item.id for item in dispatch(memory=memory).queued] == [waiting.id]

    def test_serves_no_tenant_more_in_a_turn_that_began_before_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make_trigger()
        look = Memory.look

        def look_and_stop(memory: Memory, *args: Any) -> Any:
            found = look(memory, *args)
            stop()
            return found

        monkeypatch.setattr(Memory, "look", look_and_stop)
        assert dispatch().queued == []

    def test_hands_back_what_is_queued_and_lets_what_runs_end(self) -> None:
        queued, (running, attempt) = make_trigger(state="queued"), make_running()
        stop()
        assert claim(queued) == []
        assert state_of(queued) == ("pending", "")
        assert execution.renew(tokens=[claim_token(running)], lease=30 * SECOND)
        assert attempt.state == "started"

    def test_keeps_when_it_began_and_takes_another_reason(self) -> None:
        first, again, other = stop(), stop(), stop("Incident 43.")
        assert first.stopped_at == again.stopped_at == other.stopped_at
        assert (other.stop_reason, other.stopped_by) == ("Incident 43.", "olga")

    def test_is_on_the_audit_trail_once_with_its_actor(self) -> None:
        start()
        stop()
        stop()
        start()
        start()
        stopped, started = trail("installation")
        assert stopped[:3] == started[:3] == ("1", "installation", "operator olga")
        assert stopped[3]["stop_reason"] == ["", "Incident 42."]
        assert stopped[3]["stopped_at"][0] is None
        assert started[3]["stopped_at"][1] is None

    @pytest.mark.parametrize(
        ("changes", "field", "words"),
        [
            ({}, "dispatch", "running or stopped"),
            ({"dispatch": "paused"}, "dispatch", "running, stopped"),
            ({"dispatch": "stopped"}, "reason", "Is required"),
            ({"dispatch": "stopped", "reason": ""}, "reason", "empty"),
            ({"dispatch": "stopped", "reason": "x" * 501}, "reason", "500"),
            ({"dispatch": "stopped", "reason": "a\nb"}, "reason", "line breaks"),
            ({"dispatch": "stopped", "reason": None}, "reason", "Is required"),
            ({"dispatch": "running", "reason": "Over."}, "reason", "dispatch: stopped"),
            ({"dispatch": "stopped", "reason": "x", "type": "noop"}, "type", "Unknown field"),
        ],
    )
    def test_is_refused_by_field_and_then_changes_nothing(
        self, changes: dict[str, Any], field: str, words: str
    ) -> None:
        with pytest.raises(InvalidInput) as refused:
            levers.change_installation(changes=changes)
        assert list(refused.value.errors) == [field]
        assert words in refused.value.errors[field][0]
        assert not Installation.objects.filter(stopped_at__isnull=False).exists()


class TestPause:
    def test_stops_one_type_for_all_tenants_and_no_other(self) -> None:
        for _ in range(2):
            make_triggers(make_job(make_tenant()), 3)
        [free] = make_triggers(make_job(make_tenant(), job_type="webhook"), 1)
        change("noop", paused=True, reason="Bad deploy.")
        types = ("noop", "webhook")
        turn = dispatch(types=types)
        assert [item.id for item in turn.queued] == [free.id]
        assert not dispatch(types=types).blocked
        change("noop", paused=False)
        assert len(dispatch(types=types).queued) == 6

    def test_leaves_the_places_of_a_turn_to_other_types_of_the_same_tenant(self) -> None:
        tenant = make_tenant()
        make_triggers(make_job(tenant, priority=0), 50)
        free = make_triggers(make_job(tenant, job_type="webhook", priority=3), 10)
        change("noop", paused=True, reason="Bad deploy.")
        memory = Memory()
        turns = [dispatch(types=("noop", "webhook"), limit=5, memory=memory) for _ in range(2)]
        assert {item.id for turn in turns for item in turn.queued} == {trigger.id for trigger in free}

    def test_hands_back_what_is_queued_of_it(self) -> None:
        paused = make_trigger(state="queued")
        other = make_trigger(make_job(job_type="webhook"), state="queued")
        change("noop", paused=True, reason="Bad deploy.")
        assert [row.id for row in claim(paused, other)] == [other.id]
        assert state_of(paused) == ("pending", "")
        change("noop", paused=False)
        assert [item.id for item in dispatch().queued] == [paused.id]

    def test_holds_before_any_beat_knew_the_type(self) -> None:
        assert not Queue.objects.filter(job_type="noop").exists()
        change("noop", paused=True, reason="Bad deploy.")
        make_trigger()
        assert dispatch().queued == []

    def test_acts_on_a_type_that_a_tenant_declared(self) -> None:
        moment = make_trigger().created_at
        tenant = make_tenant()
        name = f"invoice.render@{tenant.id}"
        PullType.objects.create(
            tenant=tenant,
            name="invoice.render",
            job_type=name,
            timeout=SECOND,
            created_at=moment,
            updated_at=moment,
        )
        trigger = make_trigger(make_job(tenant, job_type=name))
        assert change(name, paused=True, reason="Its workers fail.").paused_by == "olga"
        assert dispatch(types=[name]).queued == []
        change(name, paused=False)
        assert [item.id for item in dispatch(types=[name]).queued] == [trigger.id]

    def test_keeps_the_cap_of_the_type_and_the_cap_keeps_the_pause(self) -> None:
        change("noop", max_in_flight=4)
        paused = change("noop", paused=True, reason="Bad deploy.")
        assert (paused.max_in_flight, paused.pause_reason) == (4, "Bad deploy.")
        assert change("noop", max_in_flight=None).paused_at == paused.paused_at

    def test_is_on_the_audit_trail_once_with_its_actor(self) -> None:
        for _ in range(2):
            change("noop", paused=True, reason="Bad deploy.")
        for _ in range(2):
            change("noop", paused=False)
        paused, resumed = trail("job_type")
        assert paused[:3] == resumed[:3] == ("noop", "noop", "operator olga")
        assert set(paused[3]) == set(resumed[3]) == {"paused_at", "paused_by", "pause_reason"}
        assert paused[3]["pause_reason"] == ["", "Bad deploy."]


class TestCap:
    def test_bounds_what_is_in_flight_over_all_tenants(self) -> None:
        for _ in range(3):
            make_triggers(make_job(make_tenant()), 4)
        change("noop", max_in_flight=4)
        memory = Memory()
        assert len(dispatch(memory=memory).queued) == 4
        again = dispatch(memory=memory)
        assert (again.queued, again.blocked) == ([], True)
        change("noop", max_in_flight=6)
        assert len(dispatch(memory=memory).queued) == 2
        change("noop", max_in_flight=None)
        assert len(dispatch(memory=memory).queued) == 6

    def test_counts_what_runs_and_takes_nothing_back(self) -> None:
        running = make_triggers(make_job(), 5, "running")
        make_trigger()
        change("noop", max_in_flight=2)
        assert dispatch().queued == []
        assert set(states(running)) == {"running"}

    def test_leaves_the_handlers_own_where_that_is_lower(self) -> None:
        make_triggers(make_job(job_type="slow"), 5)
        registry.job_type("slow", max_in_flight=3)(lambda ctx, payload: None)
        try:
            change("slow", max_in_flight=4)
        finally:
            registry._types.pop("slow")
        assert len(dispatch(types=[], slow=3).queued) == 3

    @pytest.mark.parametrize(
        ("handlers", "operators", "limit"),
        [(None, None, None), (3, None, 3), (None, 4, 4), (3, 4, 3), (5, 4, 4)],
    )
    def test_is_the_lower_one(self, handlers: int | None, operators: int | None, limit: int | None) -> None:
        assert lower_cap(handlers, operators) == limit

    def test_is_on_the_audit_trail_once(self) -> None:
        for cap in (4, 4, None, None):
            change("noop", max_in_flight=cap)
        assert [row[3] for row in trail("job_type")] == [
            {"max_in_flight": [None, 4]},
            {"max_in_flight": [4, None]},
        ]


class TestChangesOfAType:
    @pytest.mark.parametrize(
        ("changes", "field", "words"),
        [
            ({}, "", "paused, max_in_flight or both"),
            ({"reason": "x"}, "", "paused, max_in_flight or both"),
            ({"paused": True}, "reason", "Is required"),
            ({"paused": False, "reason": "x"}, "reason", "paused: true"),
            ({"max_in_flight": 4, "reason": "x"}, "reason", "paused: true"),
            ({"paused": None}, "paused", "true or false"),
            ({"paused": "yes", "reason": "x"}, "paused", "true or false"),
            ({"max_in_flight": 0}, "max_in_flight", "from 1 to 1,000,000"),
            ({"max_in_flight": 1_000_001}, "max_in_flight", "from 1 to 1,000,000"),
            ({"max_in_flight": True}, "max_in_flight", "whole number"),
            ({"max_in_flight": "4"}, "max_in_flight", "whole number"),
            ({"window": 4}, "window", "Unknown field"),
        ],
    )
    def test_are_refused_by_field_and_then_change_nothing(
        self, changes: dict[str, Any], field: str, words: str
    ) -> None:
        with pytest.raises(InvalidInput) as refused:
            levers.change_type(name="noop", changes=changes)
        assert list(refused.value.errors) == [field]
        assert words in refused.value.errors[field][0]
        assert not Queue.objects.filter(job_type="noop").exists()

    @pytest.mark.parametrize("name", ["nonesuch", "invoice.render@7", "noop@1", "", "x" * 300])
    def test_of_no_type_are_refused(self, name: str) -> None:
        with pytest.raises(NotFound):
            levers.change_type(name=name, changes={"paused": True, "reason": "x"})
        assert not Queue.objects.filter(job_type=name[:63]).exists()


class TestList:
    def test_holds_registered_types_and_those_with_a_lever_with_what_is_in_flight(self) -> None:
        make_triggers(make_job(), 3, "queued")
        make_trigger(state="running")
        Queue.objects.create(
            job_type="gone", window=1, max_in_flight=2, measured_at=make_trigger().created_at
        )
        Queue.objects.create(job_type="plain@7", window=1, measured_at=make_trigger().created_at)
        rows = {row["name"]: row for row in levers.type_representations(levers.types())}
        assert set(rows) == {kind.name for kind in registry.all_types()} | {"gone"}
        assert (rows["noop"]["queued"], rows["noop"]["running"], rows["noop"]["paused"]) == (3, 1, False)
        assert (rows["gone"]["max_in_flight"], rows["gone"]["own_max_in_flight"]) == (2, None)
