"""``/installation/targets``: the rules for the hosts that jobs call, as a key of the installation writes them."""

from typing import Any

import pytest

from jobs.models import Change, TargetRule
from tenants.models import ApiKey
from tests.factories import dispatch, make_job, make_trigger
from tests.interfaces.api.caller import Caller, faulty_fields

PATH = "/installation/targets/api.example.com"
PAUSE = {"paused": True, "reason": "It is down."}


@pytest.fixture
def operator(owner: Caller) -> Caller:
    return Caller.of_installation()


def name_of(operator: Caller) -> str:
    return f"ck_{ApiKey.objects.get(tenant=None).prefix} tests"


class TestTargets:
    def test_are_put_listed_changed_and_deleted(self, operator: Caller) -> None:
        shown = operator.put(PATH, {"rate_per_second": 5, "max_in_flight": 20})
        assert shown.status_code == 200
        assert operator.get("/installation/targets").json() == {"results": [shown.json()]}
        assert shown.json() == {
            "pattern": "api.example.com",
            "source": "operator",
            "rate_per_second": 5.0,
            "max_in_flight": 20,
            "paused": False,
            "paused_at": None,
            "paused_by": "",
            "reason": "",
        }
        paused = operator.patch(PATH, PAUSE).json()
        assert (paused["rate_per_second"], paused["paused_by"], paused["reason"]) == (
            5.0,
            name_of(operator),
            "It is down.",
        )
        assert operator.put(PATH, {"max_in_flight": 3}).json()["paused"] is False
        assert operator.delete(PATH).status_code == 204
        assert operator.delete(PATH).status_code == 404
        assert operator.get("/installation/targets").json() == {"results": []}
        rows = Change.objects.filter(kind="target")
        assert [(row.actor_kind, row.actor) for row in rows] == [("api_key", name_of(operator))] * 4

    def test_of_the_settings_are_listed_and_cannot_be_deleted(self, operator: Caller, settings: Any) -> None:
        settings.CARILLON = settings.CARILLON.model_copy(update={"target_rates": {"api.example.com": 5.0}})
        [shown] = operator.get("/installation/targets").json()["results"]
        assert (shown["pattern"], shown["source"], shown["rate_per_second"]) == (
            "api.example.com",
            "settings",
            5.0,
        )
        refused = operator.delete(PATH)
        assert (refused.status_code, "settings" in refused.json()["detail"]) == (409, True)

    @pytest.mark.parametrize("pattern", ["*", "*.example.com", "api.example.com:8443", "[2001:db8::1]:80"])
    def test_are_named_by_their_pattern(self, operator: Caller, pattern: str) -> None:
        assert operator.put(f"/installation/targets/{pattern}", PAUSE).json()["pattern"] == pattern

    @pytest.mark.parametrize("pattern", ["a%20b", "http:", "a..b", "a:99999", "*a*b*c", "x" * 300])
    def test_for_what_is_no_host_are_refused_by_name(self, operator: Caller, pattern: str) -> None:
        for method in ("put", "patch"):
            answer = getattr(operator, method)(f"/installation/targets/{pattern}", PAUSE)
            assert faulty_fields(answer) == {"pattern"}
        assert not TargetRule.objects.exists()

    @pytest.mark.parametrize(
        ("body", "fields"),
        [
            ({}, {"body"}),
            ([], {"body"}),
            ({"paused": True}, {"reason"}),
            ({"rate_per_second": -1, "max_in_flight": 0}, {"rate_per_second", "max_in_flight"}),
            ({"rate_per_second": 1e9}, {"rate_per_second"}),
            ({"max_in_flight": True}, {"max_in_flight"}),
            ({"rate": 5}, {"rate"}),
        ],
    )
    def test_are_refused_by_field(self, operator: Caller, body: Any, fields: set[str]) -> None:
        for method in ("put", "patch"):
            assert faulty_fields(getattr(operator, method)(PATH, body)) == fields
        assert not TargetRule.objects.exists()


class TestTenants:
    def test_learn_that_their_target_is_paused_and_why_but_not_by_whom(
        self, operator: Caller, owner: Caller
    ) -> None:
        trigger = make_trigger(make_job(owner.tenant, target="api.example.com"))
        operator.put("/installation/targets/*", PAUSE)
        assert dispatch().queued == []
        explained = owner.get(f"/triggers/{trigger.id}/explain").json()
        assert "target" in explained["blocking"]
        assert "It is down." in explained["summary"]
        assert name_of(operator) not in str(explained)
