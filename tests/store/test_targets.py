"""Operators' rules for targets, with real dispatches and claims (DESIGN §8)."""

from datetime import timedelta
from typing import Any
from unittest.mock import Mock
from uuid import uuid4

import pytest

from jobs.actions import targets
from jobs.core.errors import Conflict, InvalidInput, NotFound
from jobs.limits import Buckets, Rates
from jobs.models import Change, Installation, TargetRule, Trigger
from jobs.store import dispatch as dispatch_store
from jobs.store import execution
from jobs.store.dispatch import Memory
from jobs.store.trail import Actor, acting_as
from tests.factories import (
    HOUR,
    SECOND,
    claim,
    claim_token,
    dispatch,
    make_job,
    make_running,
    make_tenant,
    make_trigger,
    make_triggers,
    release_targets,
    row,
    state_of,
    states,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("job_types")]
BY = Actor("operator", "olga")
HOST = "api.example.com"


def change(pattern: str = HOST, **changes: Any) -> dict[str, Any]:
    with acting_as(BY):
        return targets.change_target(pattern=pattern, changes=changes)


def pause(pattern: str = HOST, reason: str = "It is down.") -> dict[str, Any]:
    return change(pattern, paused=True, reason=reason)


def put(pattern: str = HOST, **changes: Any) -> dict[str, Any]:
    with acting_as(BY):
        return targets.put_target(pattern=pattern, changes=changes)


def make_calling(number: int = 1, target: str = HOST, state: str = "pending", **job: Any) -> list[Trigger]:
    return make_triggers(make_job(target=target, **job), number, state)


def queued(**options: Any) -> set[Any]:
    return {item.id for item in dispatch(**options).queued}


def ids(triggers: list[Trigger]) -> set[Any]:
    return {trigger.id for trigger in triggers}


class TestPause:
    def test_that_ends_lets_many_tenants_go_a_statement_at_a_time(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """However many wait: a statement given up for its size would be tried again for ever."""
        monkeypatch.setattr("jobs.store.dispatch.targets.SHOW", 6)
        waiting = [trigger for _ in range(3) for trigger in make_calling(4)]
        pause()
        queued(memory=Memory())
        change(paused=False)
        left = []
        for _ in range(3):
            release_targets()
            left.append(sum(row(trigger)["parked"] for trigger in waiting))
        assert left == [6, 0, 0]

    def test_parks_what_calls_the_host_for_all_tenants_and_nothing_else(self) -> None:
        paused = make_calling(3) + make_calling(3, f"{HOST}:8443")
        free = make_calling(1, "other.example.com") + make_triggers(make_job(), 1)
        pause()
        memory = Memory()
        assert queued(memory=memory) == ids(free)
        stored = [row(trigger) for trigger in paused]
        assert {(each["state"], each["parked"], each["attempt_count"]) for each in stored} == {
            ("pending", True, 0)
        }
        # Out of sight, it costs the next turns nothing.
        assert not dispatch(memory=memory).blocked
        change(paused=False)
        assert queued(memory=memory) == ids(paused)

    def test_matches_by_pattern(self) -> None:
        below, apex = make_calling(1, "a.example.com"), make_calling(1, "example.com")
        pause("*.example.com")
        assert queued() == ids(apex)
        change("*.example.com", paused=False)
        assert queued() == ids(below)

    def test_of_every_host_leaves_what_calls_none(self) -> None:
        paused, free = make_calling(), make_triggers(make_job(), 1)
        pause("*")
        assert queued() == ids(free)
        assert states(paused) == ["pending"]

    def test_acts_on_a_dispatcher_that_remembers_its_backlog(self) -> None:
        memory = Memory()
        assert len(queued(memory=memory)) == 0
        pause()
        waiting = make_calling()
        assert queued(memory=memory) == set()
        change(paused=False)
        assert queued(memory=memory) == ids(waiting)

    def test_hands_back_what_is_queued_at_no_attempts_cost_and_lets_what_runs_end(self) -> None:
        [waiting] = make_calling(state="queued")
        running, attempt = make_running(make_job(target=HOST))
        pause("*.example.com")
        assert claim(waiting) == []
        assert (state_of(waiting), row(waiting)["attempt_count"]) == (("pending", ""), 0)
        assert execution.renew(tokens=[claim_token(running)], lease=30 * SECOND)
        assert attempt.state == "started"
        assert queued() == set()
        change("*.example.com", paused=False)
        assert queued() == {waiting.id}

    def test_does_not_keep_from_claims_what_calls_no_host_or_another(self) -> None:
        pause("*.example.com")
        free = [make_trigger(state="queued"), *make_calling(1, "example.com", "queued")]
        assert {each.id for each in claim(*free)} == ids(free)

    def test_shows_again_after_a_while_what_nobody_lifted_it_for(self, clock: Any) -> None:
        [trigger] = make_calling()
        pause()
        dispatch()
        TargetRule.objects.all().delete()  # by hand: no version tells of it
        clock(2 * HOUR)
        dispatch_store.unpark(limit=10)
        assert (row(trigger)["held"], row(trigger)["parked_for"]) == (False, "")

    def test_follows_the_misfire_policy_for_what_is_missed(self, clock: Any) -> None:
        triggers = make_calling(3, misfire_policy="fire_once", misfire_grace=60 * SECOND, catchup_window=HOUR)
        pause()
        dispatch()
        clock(timedelta(minutes=10))
        change(paused=False)
        assert queued() == {triggers[-1].id}
        assert {state_of(each) for each in triggers[:-1]} == {("skipped", "coalesced")}

    def test_keeps_when_it_began_and_takes_another_reason(self) -> None:
        first, again, other = pause(), pause(), pause(reason="Still down.")
        assert first["paused_at"] == again["paused_at"] == other["paused_at"]
        assert (other["reason"], other["paused_by"]) == ("Still down.", "olga")

    def test_leaves_the_rate_and_the_cap_as_they_are(self) -> None:
        put(rate_per_second=5, max_in_flight=3)
        paused = pause()
        assert (paused["rate_per_second"], paused["max_in_flight"]) == (5, 3)
        assert change(paused=False)["rate_per_second"] == 5

    def test_that_was_not_there_is_not_lifted_and_changes_nothing(self) -> None:
        shown = change(paused=False)
        assert (shown["paused"], shown["rate_per_second"]) == (False, None)
        assert not TargetRule.objects.exists()
        assert not Change.objects.filter(kind="target").exists()
        assert not Installation.objects.filter(targets_version__gt=0).exists()

    def test_leaves_no_rule_behind_that_says_nothing(self) -> None:
        pause()
        change(paused=False)
        assert not TargetRule.objects.exists()


class TestCap:
    def test_bounds_what_is_in_flight_over_all_tenants(self) -> None:
        for _ in range(3):
            make_calling(4)
        change(max_in_flight=4)
        memory = Memory()
        assert len(queued(memory=memory)) == 4
        assert queued(memory=memory) == set()
        ended = Trigger.objects.filter(state="queued").values_list("id", flat=True)[:2]
        Trigger.objects.filter(id__in=list(ended)).update(state="succeeded")
        assert len(queued(memory=memory)) == 2
        change(max_in_flight=None)
        assert len(queued(memory=memory)) == 6

    def test_is_of_each_host_by_itself(self) -> None:
        for host in ("a.example.com", "b.example.com"):
            make_calling(3, host)
        change("*.example.com", max_in_flight=2)
        assert len(queued()) == 4

    def test_counts_what_runs_and_takes_nothing_back(self) -> None:
        running = make_calling(5, state="running")
        make_calling(1)
        change(max_in_flight=2)
        assert queued() == set()
        assert set(states(running)) == {"running"}

    def test_leaves_what_waits_for_one_tenant_to_the_others(self) -> None:
        flood, other = make_calling(50), make_calling(1)
        change(max_in_flight=10)
        memory = Memory()
        served: set[Any] = set()
        for _ in range(3):
            served |= (now := queued(memory=memory))
            Trigger.objects.filter(id__in=now).update(state="succeeded")
        assert ids(other) <= served
        assert len(served & ids(flood)) >= 20


class TestRate:
    @pytest.fixture
    def rates(self, settings: Any) -> Rates:
        return Rates(Buckets(url=settings.REDIS_URL))

    @pytest.fixture
    def host(self) -> str:
        return f"{uuid4()}.example"

    def test_goes_before_that_of_the_settings(self, rates: Rates, host: str, settings: Any) -> None:
        settings.CARILLON = settings.CARILLON.model_copy(update={"target_rate_per_second": 1.0})
        make_calling(9, host)
        change(host, rate_per_second=4)
        assert len(queued(rates=rates)) == 4

    def test_that_is_lifted_lets_go_at_once_what_waited_for_its_turn(self, rates: Rates, host: str) -> None:
        memory = Memory()
        triggers = make_calling(6, host)
        other = make_calling(3, f"other.{host}")
        for name in (host, f"other.{host}"):
            change(name, rate_per_second=0.01)
        assert len(queued(rates=rates, memory=memory)) == 2
        TestRate.follow(memory, rates)
        assert queued(rates=rates, memory=memory) == set()
        turns = {trigger.id: row(trigger)["parked_until"] for trigger in other[1:]}

        change(host, rate_per_second=0)
        dispatch(rates=rates, memory=memory)
        assert TestRate.follow(memory, rates) == 5
        assert queued(rates=rates, memory=memory) == ids(triggers[1:])
        assert {trigger.id: row(trigger)["parked_until"] for trigger in other[1:]} == turns
        assert Installation.objects.get().targets_changed == []

    def test_that_stays_gives_the_turns_out_anew(self, rates: Rates, host: str) -> None:
        memory, triggers = Memory(), make_calling(4, host)
        change(host, rate_per_second=0.01)
        dispatch(rates=rates, memory=memory)
        first = sorted(row(trigger)["parked_until"] for trigger in triggers[1:])
        put(host, rate_per_second=0.01, max_in_flight=9)
        dispatch(rates=rates, memory=memory)
        assert TestRate.follow(memory, rates) == 3
        dispatch(rates=rates, memory=memory)
        again = sorted(row(trigger)["parked_until"] for trigger in triggers[1:])
        assert abs(again[0] - first[0]) < 50 * SECOND

    def test_is_not_followed_before_dispatch_knows_it(self, rates: Rates, host: str) -> None:
        memory = Memory()
        make_calling(3, host)
        change(host, rate_per_second=0.01)
        dispatch(rates=rates, memory=memory)
        change(host, rate_per_second=0)
        assert TestRate.follow(memory, rates) == 0
        assert Installation.objects.get().targets_changed == [host]

    def test_sends_nothing_ahead_for_ever(self, rates: Rates, host: str) -> None:
        """Dispatch parks again, further ahead, what the walk has shown: the walk must not meet it again."""
        memory, triggers = Memory(), make_calling(7, host)
        change(host, rate_per_second=0.01)
        dispatch(rates=rates, memory=memory)
        put(host, rate_per_second=0.01, max_in_flight=9)
        dispatch(rates=rates, memory=memory)
        following, shown, more = dispatch_store.Following(), 0, True
        for _ in range(20):
            some, more = TestRate.slice(following, memory, rates)
            shown += some
            dispatch(rates=rates, memory=memory)
        assert (shown, more) == (6, False)
        assert sum(row(trigger)["parked"] for trigger in triggers) == 6

    @staticmethod
    def slice(following: dispatch_store.Following, memory: Memory, rates: Rates) -> tuple[int, bool]:
        return following.step(version=memory.rules.version, limit=2, forget=rates.forget_turns)

    @staticmethod
    def follow(memory: Memory, rates: Rates) -> int:
        following, shown, more = dispatch_store.Following(), 0, True
        while more:
            some, more = TestRate.slice(following, memory, rates)
            shown += some
        return shown


class TestPut:
    def test_sets_the_whole_rule(self) -> None:
        put(rate_per_second=5, max_in_flight=3)
        pause()
        shown = put(rate_per_second=0.5)
        assert shown == {
            "pattern": HOST,
            "source": "operator",
            "rate_per_second": 0.5,
            "max_in_flight": None,
            "paused": False,
            "paused_at": None,
            "paused_by": "",
            "reason": "",
        }

    def test_refuses_more_rules_than_there_may_be(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(targets, "MAX_RULES", 2)
        for name in ("a.example", "b.example"):
            put(name, rate_per_second=5)
        with pytest.raises(Conflict, match="2 rules"):
            put("c.example", rate_per_second=5)
        put("b.example", rate_per_second=6)
        assert TargetRule.objects.count() == 2

    @pytest.mark.parametrize(
        ("changes", "field", "words"),
        [
            ({}, "", "rate_per_second, max_in_flight or paused"),
            ({"reason": "x"}, "", "rate_per_second, max_in_flight or paused"),
            ({"paused": True}, "reason", "Is required"),
            ({"paused": True, "reason": "a\nb"}, "reason", "line breaks"),
            ({"paused": False, "reason": "x"}, "reason", "paused: true"),
            ({"paused": None}, "paused", "true or false"),
            ({"rate_per_second": -1}, "rate_per_second", "0 to 100,000"),
            ({"rate_per_second": 0.0001}, "rate_per_second", "0, for no limit, or from 0.001"),
            ({"rate_per_second": 100_001}, "rate_per_second", "100,000"),
            ({"rate_per_second": "5"}, "rate_per_second", "a number"),
            ({"rate_per_second": float("nan")}, "rate_per_second", "a number"),
            ({"max_in_flight": 0}, "max_in_flight", "from 1 to 1,000,000"),
            ({"max_in_flight": 1.5}, "max_in_flight", "whole number"),
            ({"host": "x", "max_in_flight": 4}, "host", "Unknown field"),
        ],
    )
    @pytest.mark.parametrize("write", [targets.put_target, targets.change_target])
    def test_is_refused_by_field_and_then_changes_nothing(
        self, write: Any, changes: dict[str, Any], field: str, words: str
    ) -> None:
        with pytest.raises(InvalidInput) as refused:
            write(pattern=HOST, changes=changes)
        assert list(refused.value.errors) == [field]
        assert words in refused.value.errors[field][0]
        assert not TargetRule.objects.exists()

    @pytest.mark.parametrize("pattern", ["http://x", "a b", "", "*.*.*.x", "x:99999"])
    def test_is_refused_for_what_is_no_host(self, pattern: str) -> None:
        with pytest.raises(InvalidInput) as refused:
            put(pattern, rate_per_second=5)
        assert list(refused.value.errors) == ["pattern"]
        assert not TargetRule.objects.exists()


class TestDelete:
    def test_takes_a_rule_away_and_lets_go_what_it_held(self) -> None:
        paused = make_calling(2)
        pause()
        assert queued() == set()
        targets.delete_target(pattern=HOST.upper())
        assert queued() == ids(paused)

    def test_finds_no_rule_that_is_not_there(self) -> None:
        with pytest.raises(NotFound):
            targets.delete_target(pattern=HOST)

    def test_leaves_those_of_the_settings_and_says_what_to_do(self, settings: Any) -> None:
        settings.CARILLON = settings.CARILLON.model_copy(update={"target_rates": {HOST: 5.0}})
        with pytest.raises(Conflict, match="Put a rule with the same pattern"):
            targets.delete_target(pattern=HOST)


class TestList:
    def test_holds_the_rules_of_operators_and_those_of_the_settings(self, settings: Any) -> None:
        settings.CARILLON = settings.CARILLON.model_copy(
            update={"target_rates": {HOST: 5.0}, "target_rate_per_second": 20.0}
        )
        pause()
        shown = [(each["pattern"], each["source"], each["rate_per_second"], each["paused"])
                 for each in targets.representations()]  # fmt: skip
        assert shown == [
            ("*", "settings", 20.0, False),
            (HOST, "operator", None, True),
            (HOST, "settings", 5.0, False),
        ]


class TestTrail:
    def test_tells_each_change_once_with_its_actor(self) -> None:
        for _ in range(2):
            pause()
        for _ in range(2):
            change(rate_per_second=5)
        change(paused=False)
        with acting_as(BY):
            targets.delete_target(pattern=HOST)
        rows = Change.objects.filter(kind="target").order_by("id")
        assert {(each.name, each.actor_kind, each.actor) for each in rows} == {(HOST, "operator", "olga")}
        assert [(each.action, sorted(each.changes)) for each in rows] == [
            ("created", []),
            ("updated", ["rate_per_second"]),
            ("updated", ["pause_reason", "paused_at", "paused_by"]),
            ("deleted", []),
        ]


class TestRelease:
    def test_walks_on_where_many_wait(self) -> None:
        tenant = make_tenant()
        triggers = [make_calling(1, f"h{n}.example", tenant=tenant)[0] for n in range(5)]
        pause("*")
        dispatch()
        TargetRule.objects.all().delete()
        rules, releasing = dispatch_store.targets.rules(), dispatch_store.Releasing()
        assert [releasing.step(rules=rules, limit=2) for _ in range(3)] == [(2, True), (2, True), (1, False)]
        assert all(not row(trigger)["held"] for trigger in triggers)

    def test_looks_on_past_what_is_paused(self) -> None:
        """A thousand hosts under a pause must not keep the one that is let go waiting."""
        tenant = make_tenant()
        for n in range(6):
            make_calling(1, f"a{n}.example", tenant=tenant)
        (free,) = make_calling(1, "z.example", tenant=tenant)
        pause("*")
        dispatch()
        TargetRule.objects.all().delete()
        pause("a*")
        releasing = dispatch_store.Releasing()
        assert releasing.step(rules=dispatch_store.targets.rules(), limit=2) == (1, False)
        assert not row(free)["held"]

    def test_a_slice_that_fails_keeps_none_of_the_others_waiting(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tenant = make_tenant()
        triggers = [make_calling(1, f"h{n}.example", tenant=tenant)[0] for n in range(4)]
        pause("*")
        dispatch()
        TargetRule.objects.all().delete()
        rules, releasing = dispatch_store.targets.rules(), dispatch_store.Releasing()
        with monkeypatch.context() as broken:
            broken.setattr("jobs.store.dispatch.targets._columns", Mock(side_effect=OSError("too slow")))
            with pytest.raises(OSError, match="too slow"):
                releasing.step(rules=rules, limit=3)
        assert releasing.step(rules=rules, limit=3) == (1, False)
        assert [row(trigger)["held"] for trigger in triggers] == [True, True, True, False]
        assert releasing.step(rules=rules, limit=3)[0] == 3

    def test_a_caps_room_is_shared_by_those_who_wait(self) -> None:
        """Were each shown as many as there is room for, dispatch would park all but these again, turn by turn."""
        tenants = [make_tenant(slug=f"t{n}") for n in range(6)]
        for tenant in tenants:
            make_calling(5, HOST, tenant=tenant)
        pause()
        dispatch()
        change(paused=False, max_in_flight=4)
        shown, more = dispatch_store.Releasing().step(rules=dispatch_store.targets.rules(), limit=100)
        assert (shown, more) == (4, True)
        seen = Trigger.objects.filter(held=False).values_list("tenant_id", flat=True)
        assert len(set(seen)) == 4

    def test_the_most_urgent_are_shown_first(self) -> None:
        tenant = make_tenant()
        make_calling(3, HOST, tenant=tenant, priority=3)
        (urgent,) = make_calling(1, HOST, tenant=tenant, priority=0)
        pause()
        dispatch()
        change(paused=False, max_in_flight=1)
        release_targets()
        assert [trigger.id for trigger in Trigger.objects.filter(held=False)] == [urgent.id]

    def test_leaves_alone_what_waits_for_something_else(self) -> None:
        job = make_job(target=HOST, overlap_policy="queue")
        make_trigger(job, "running")
        waiting = make_trigger(job)
        dispatch()
        assert row(waiting)["parked"]
        release_targets()
        assert row(waiting)["parked"]
