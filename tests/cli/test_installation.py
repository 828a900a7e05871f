"""``carillon installation``: the levers from the command line."""

import pytest

from carillon.errors import FORBIDDEN, NOT_FOUND, REFUSED, USAGE
from jobs.models import Change, Installation, Queue
from tests.cli.conftest import ApiAdapter, Command
from tests.factories import dispatch, make_trigger
from tests.interfaces.api.caller import Caller


@pytest.fixture
def levers(carillon: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs ``carillon installation …`` with a key of the installation."""
    monkeypatch.setenv("CARILLON_API_KEY", str(Caller.of_installation().token))
    return lambda *arguments, **options: carillon("installation", *arguments, **options)


class TestDispatch:
    def test_is_stopped_shown_and_started(self, levers: Command) -> None:
        make_trigger()
        stopped = levers("stop", "--reason", "Incident 42.", "-o", "json")
        assert stopped.code == 0, stopped.err
        assert (stopped.json["dispatch"], stopped.json["reason"]) == ("stopped", "Incident 42.")
        assert dispatch().queued == []
        assert "Incident 42." in levers("show").out
        assert levers("start", "-o", "json").json["stopped_at"] is None
        assert len(dispatch().queued) == 1
        assert {row.actor_kind for row in Change.objects.filter(kind="installation")} == {"api_key"}

    def test_is_not_stopped_without_a_reason_or_by_a_tenant(self, levers: Command, carillon: Command, owner: Caller,
                                                            monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
        assert levers("stop").code == USAGE
        refused = levers("stop", "--reason", "")
        assert refused.code == REFUSED
        assert "reason → " in refused.err
        monkeypatch.setenv("CARILLON_API_KEY", str(owner.token))
        assert levers("stop", "--reason", "x").code == FORBIDDEN
        assert not Installation.objects.filter(stopped_at__isnull=False).exists()


class TestJobTypes:
    def test_are_paused_capped_listed_and_let_go(self, levers: Command) -> None:
        assert levers("pause", "noop", "--reason", "Bad deploy.").code == 0
        assert levers("cap", "noop", "4").code == 0
        [row] = [row for row in levers("job-types", "-o", "json").json if row["name"] == "noop"]
        assert (row["paused"], row["reason"], row["max_in_flight"]) == (True, "Bad deploy.", 4)
        assert "Bad deploy." in levers("job-types").out
        assert levers("resume", "noop", "-o", "json").json["paused"] is False
        assert levers("cap", "noop", "none", "-o", "json").json["max_in_flight"] is None

    @pytest.mark.parametrize(
        ("line", "code", "word"),
        [
            (("cap", "noop", "0"), REFUSED, "max_in_flight → "),
            (("cap", "noop", "9" * 30), REFUSED, "max_in_flight → "),
            (("cap", "noop", "four"), USAGE, "whole number"),
            (("cap", "noop", "-1"), USAGE, "-1"),
            (("cap", "noop", "\u0664"), USAGE, "whole number"),
            (("cap", "nonesuch", "4"), NOT_FOUND, "no such object"),
            (("pause", "..", "--reason", "x"), USAGE, "not the name"),
            (("pause", "noop"), USAGE, "reason"),
            (("pause", "noop", "--reason", "a\nb"), REFUSED, "reason → "),
        ],
    )
    def test_are_left_alone_where_that_is_wrong(
        self, levers: Command, api: ApiAdapter, line: tuple[str, ...], code: int, word: str
    ) -> None:
        refused = levers(*line)
        assert (refused.code, word in refused.err) == (code, True), refused.err
        assert code != USAGE or api.sent == []
        assert not Queue.objects.exists()
