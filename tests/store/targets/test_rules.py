"""Operators' rules for targets: made, refused, taken away, listed, and put on the trail."""

from typing import Any

import pytest

from jobs.actions import targets
from jobs.core.errors import Conflict, InvalidInput, NotFound
from jobs.models import Change, TargetRule
from jobs.store.trail import acting_as
from tests.store.targets.rules import BY, HOST, change, ids, make_calling, pause, put, queued

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("job_types")]


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
