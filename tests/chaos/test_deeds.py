"""The load's deeds to runs: each call is put down as it was answered."""

import random
import threading
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from chaos import history
from chaos.history import Journal, Record, RunAsked, RunSeen, Steered
from chaos.load.caller import Caller, Refused
from chaos.load.workflows import deeds, reading
from chaos.load.workflows.deeds import Hands
from chaos.load.workflows.shapes import Deed
from tests.chaos.telling import a_workflow

AT = "2026-01-01T00:00:00Z"


class Api(Caller):
    """Shows the run in one state after the other, the last for good, and answers calls as it is told."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(web="127.0.0.1:1", receiver_url="", journal=journal)
        self.shows: list[tuple[str, dict[str, str]]] = []
        self.answers: list[Exception | None] = []
        self.calls: list[tuple[str, Any, str]] = []

    def call(self, tenant: str, method: str, path: str, body: Any = None, *, key: str = "") -> Any:
        if method == "POST":
            self.calls.append((path.removeprefix("/workflow-runs/run/"), body, key))
            if (answer := self.answers.pop(0)) is not None:
                raise answer
            return {}
        if path.endswith("/items?page_size=200&ordering=item"):
            rows = [
                {"item": nth, "value": "v", "state": "succeeded", "reason": ""} | _SAID for nth in (0, 1, 2)
            ]
            return {"results": rows}
        state, tasks = self.shows.pop(0) if len(self.shows) > 1 else self.shows[0]
        shown = {"id": "run", "workflow_id": "w", "input": {"number": 2}, "scheduled_for": AT}
        return shown | {
            "state": state,
            "created_at": AT,
            "cancel_reason": "",
            "outer_run_id": None,
            "finished_at": None,
            "tasks": list(map(_task, tasks.items())),
        }


_SAID = {"trigger_id": None, "inner_run_id": None, "finished_at": AT}


def _task(told: tuple[str, str]) -> dict[str, Any]:
    task, state = told
    count = 2 if task == "each" else None
    return {"task": task, "state": state, "reason": "", "attempt_count": 1, "item_count": count} | _SAID


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal.jsonl")


@pytest.fixture
def api(journal: Journal) -> Api:
    return Api(journal)


@pytest.fixture
def hands(api: Api, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> Hands:
    for name in ("LOOK_SECONDS", "AGAIN_SECONDS", "PATIENCE_SECONDS"):
        monkeypatch.setattr(deeds, name, 0.0)
    asked = RunAsked(workflow_id="w", number=2, requested_at=0.0, run_id="run")
    return Hands(
        api, journal, a_workflow("waits"), asked, over=threading.Event(), broken_off=threading.Event()
    )


def done(hands: Hands, *each: Deed) -> list[Record]:
    hands.carry_out(each, random.Random(1))
    return list(history.read(hands.journal.path))


class TestAnAnswer:
    def test_is_given_once_the_task_waits(self, hands: Hands, api: Api) -> None:
        api.shows = [("running", {"paid": "waiting"}), ("running", {"paid": "started"})]
        api.answers = [None]
        [call] = done(hands, Deed(verb="signal", task="paid"))
        assert isinstance(call, Steered)
        assert (call.verb, call.task, call.acknowledged_at is None) == ("signal", "paid", False)
        assert api.calls == [("signals/paid", {"payload": {"sent": 2}}, "")]

    def test_is_given_again_if_the_task_still_waits_after_it(self, hands: Hands, api: Api) -> None:
        api.shows = [("running", {"granted": "started"})]
        api.answers = [OSError(), None]
        first, second = done(hands, Deed(verb="approve", task="granted"))
        assert isinstance(first, Steered)
        assert isinstance(second, Steered)
        assert (first.acknowledged_at is None, second.acknowledged_at is None) == (True, False)

    def test_is_not_given_to_a_task_that_has_ended(self, hands: Hands, api: Api) -> None:
        api.shows = [("running", {"refused": "skipped"})]
        assert done(hands, Deed(verb="refuse", task="refused")) == []

    def test_may_have_been_given_though_it_is_refused(self, hands: Hands, api: Api) -> None:
        api.shows = [("running", {"paid": "started"}), ("running", {"paid": "succeeded"})]
        api.answers = [Refused("", 409)]
        [call] = done(hands, Deed(verb="signal", task="paid"))
        assert isinstance(call, Steered)
        assert call.acknowledged_at is None


class TestARetry:
    def test_comes_after_the_end_which_is_put_down(self, hands: Hands, api: Api) -> None:
        api.shows = [("running", {"begin": "failed"}), ("failed", {"begin": "failed", "each": "failed"})]
        api.answers = [OSError(), None]
        seen, call = done(hands, Deed(verb="retry"))
        assert isinstance(seen, RunSeen)
        assert (seen.reading, seen.state, seen.tasks["begin"]["attempts"]) == (0, "failed", 1)
        assert [item["item"] for item in seen.tasks["each"]["items"]] == [0, 1]
        assert isinstance(call, Steered)
        assert (call.verb, call.tasks, call.skip) == ("retry", [], [])
        assert {key for _, _, key in api.calls} == {"chaos-retry-run-1"}

    def test_is_of_no_run_that_succeeded_unless_tasks_are_named(self, hands: Hands, api: Api) -> None:
        api.shows, api.answers = [("succeeded", {"begin": "succeeded"})], [None]
        found = done(hands, Deed(verb="retry"), Deed(verb="retry", tasks=("begin",)))
        assert [type(each).__name__ for each in found] == ["RunSeen", "Steered"]
        assert api.calls == [("retry", {"tasks": ["begin"], "skip": []}, "chaos-retry-run-1")]

    def test_skips_what_failed_alone(self, hands: Hands, api: Api) -> None:
        api.shows, api.answers = [("failed", {"bad": "failed"})], [None]
        done(hands, Deed(verb="retry", skip=("bad",)))
        assert api.calls == [("retry", {"tasks": [], "skip": ["bad"]}, "chaos-retry-run-1")]


class TestACancel:
    def test_is_repeated_until_it_is_acknowledged(self, hands: Hands, api: Api) -> None:
        api.answers = [OSError(), OSError(), None]
        [call] = done(hands, Deed(verb="cancel"))
        assert isinstance(call, Steered)
        assert call.acknowledged_at is not None
        assert len(api.calls) == 3

    def test_is_of_every_second_run_where_it_is_to_be(self, hands: Hands, api: Api) -> None:
        api.answers = [None]
        assert len(done(hands, Deed(verb="cancel", every=2), Deed(verb="pause", every=3))) == 1

    def test_that_is_wrong_ends_the_run_of_the_suite(self, hands: Hands, api: Api) -> None:
        api.answers = [Refused("POST", 404)]
        with pytest.raises(Refused):
            done(hands, Deed(verb="cancel"))

    def test_is_given_up_at_once_when_the_load_was_broken_off(self, hands: Hands, api: Api) -> None:
        hands.broken_off.set()
        assert done(hands, Deed(verb="cancel", after=(60.0, 60.0))) == []
        assert api.calls == []

    def test_is_given_up_when_the_load_has_long_been_over(self, hands: Hands, api: Api) -> None:
        hands.over.set()
        api.shows = [("running", {"paid": "waiting"})]
        assert done(hands, Deed(verb="signal", task="paid")) == []


class TestAnInnerRun:
    shown: ClassVar[dict[str, Any]] = {
        "id": "inner-run", "workflow_id": "w", "state": "cancelled", "cancel_reason": "outer", "scheduled_for": AT,
        "created_at": AT, "finished_at": AT, "input": {"number": 2, "begin": 7}, "outer_run_id": "run",
        "trigger_id": "trigger", "tasks": [],
    }  # fmt: skip

    def seen(self, **changes: Any) -> RunSeen:
        class Shown:
            def call(self, *_: str) -> dict[str, Any]:
                return TestAnInnerRun.shown | changes

        return reading.read_run(cast(Caller, Shown()), "acme", "inner-run", reading=1)

    def test_is_put_down_with_its_outer_run_and_all_of_its_input(self) -> None:
        seen = self.seen()
        assert (seen.outer_run_id, seen.trigger_id, seen.cancel_reason) == ("run", "trigger", "outer")
        assert (seen.number, seen.input) == (2, {"number": 2, "begin": 7})

    def test_is_told_by_the_task_that_it_is(self) -> None:
        task = _task(("inner", "started")) | {"inner_run_id": "inner-run", "item_count": None}
        assert self.seen(tasks=[task]).tasks["inner"]["inner_run_id"] == "inner-run"
        assert "inner_run_id" not in self.seen(tasks=[task | {"inner_run_id": None}]).tasks["inner"]

    @pytest.mark.parametrize("given", [None, {}])
    def test_that_lacks_its_input_is_left_to_the_judge(self, given: Any) -> None:
        seen = self.seen(input=given)
        assert (seen.number, seen.input) == (reading.NO_NUMBER, {})

    def test_of_a_caller_has_its_number_alone(self) -> None:
        seen = self.seen(outer_run_id=None, trigger_id=None)
        assert (seen.number, seen.input, seen.outer_run_id, seen.trigger_id) == (2, {}, "", "")


def test_a_moment_is_in_seconds() -> None:
    assert reading.moment("1970-01-01T00:01:00Z") == 60.0
    assert reading.moment(None) is None
