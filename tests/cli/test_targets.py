"""``carillon targets``: the rules for the hosts that jobs call, from the command line."""

import pytest

from carillon.errors import FORBIDDEN, NOT_FOUND, REFUSED, USAGE
from jobs.models import Change, TargetRule
from tests.cli.conftest import ApiAdapter, Command
from tests.factories import dispatch, make_job, make_trigger
from tests.interfaces.api.caller import Caller

HOST = "api.example.com"


@pytest.fixture
def targets(carillon: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs ``carillon targets …`` with a key of the installation."""
    monkeypatch.setenv("CARILLON_API_KEY", str(Caller.of_installation().token))
    return lambda *arguments, **options: carillon("targets", *arguments, **options)


class TestTargets:
    def test_are_paused_limited_listed_and_let_go(self, targets: Command) -> None:
        make_trigger(make_job(target=HOST))
        paused = targets("pause", HOST, "--reason", "It is down.", "-o", "json")
        assert paused.code == 0, paused.err
        assert (paused.json["paused"], paused.json["reason"]) == (True, "It is down.")
        assert dispatch().queued == []
        assert targets("set", HOST, "--rate", "0.5", "--max-in-flight", "3").code == 0
        [row] = targets("list", "-o", "json").json
        assert (row["rate_per_second"], row["max_in_flight"], row["paused"]) == (0.5, 3, True)
        assert "It is down." in targets("list").out
        assert targets("resume", HOST, "-o", "json").json["paused"] is False
        assert len(dispatch().queued) == 1
        assert targets("set", HOST, "--rate", "none", "-o", "json").json["rate_per_second"] is None
        assert targets("delete", HOST).code == 0
        assert targets("list", "-o", "json").json == []
        assert {row.actor_kind for row in Change.objects.filter(kind="target")} == {"api_key"}

    def test_are_not_for_tenants(
        self, targets: Command, carillon: Command, owner: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CARILLON_API_KEY", str(owner.token))
        assert targets("pause", HOST, "--reason", "x").code == FORBIDDEN

    @pytest.mark.parametrize(
        ("line", "code", "word"),
        [
            (("pause", "a b", "--reason", "x"), REFUSED, "pattern → "),
            (("pause", HOST), USAGE, "reason"),
            (("pause", HOST, "--reason", "a\nb"), REFUSED, "reason → "),
            (("pause", "..", "--reason", "x"), USAGE, "is not a host"),
            (("set", HOST), USAGE, "--rate"),
            (("set", HOST, "--rate", "fast"), USAGE, "a number"),
            (("set", HOST, "--rate", "9" * 30), REFUSED, "rate_per_second → "),
            (("set", HOST, "--rate", "0.0001"), REFUSED, "rate_per_second → "),
            (("set", HOST, "--max-in-flight", "1.5"), USAGE, "whole number"),
            (("set", HOST, "--max-in-flight", "0"), REFUSED, "max_in_flight → "),
            (("delete", HOST), NOT_FOUND, "no such object"),
        ],
    )
    def test_are_left_alone_where_that_is_wrong(
        self, targets: Command, api: ApiAdapter, line: tuple[str, ...], code: int, word: str
    ) -> None:
        refused = targets(*line)
        assert (refused.code, word in refused.err) == (code, True), refused.err
        assert code != USAGE or api.sent == []
        assert not TargetRule.objects.exists()
