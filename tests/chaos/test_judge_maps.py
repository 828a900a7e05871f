"""The judge, fed histories of runs with maps, in which a promise is broken."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from chaos.history import Brought
from tests.chaos.histories import T0, a_fault, a_job, a_run, judged, kinds, without
from tests.chaos.runs import (
    again,
    carrying,
    history,
    item,
    of_task,
    seen,
    tales,
    unread,
)
from tests.chaos.tales import BEGINS, STORIES, TALES, TIMED, Tale


class TestASoundRun:
    @pytest.mark.parametrize("name", [*TALES, "mapped"])
    def test_passes(self, name: str) -> None:
        verdict = judged(history(name))
        assert verdict.passed, verdict.breaches
        assert verdict.runs == len(TIMED.get(name, [1]))

    @pytest.mark.parametrize("name", [*TALES, "mapped"])
    def test_passes_before_the_ledger_is_read(self, name: str) -> None:
        verdict = judged(without(history(name), unread))
        assert verdict.passed, verdict.breaches

    def test_requires_each_item_and_each_generation(self) -> None:
        alone = judged(a_run(a_job())).firings
        assert judged(history("mapped")).firings - alone == 1 + 6 + 2
        assert judged(history("retried")).firings - alone == 5 + 3 + 3
        # If an item failed and the workflow halts, only the first two.
        assert judged(history("listed")).firings - alone == (1 + 2) + 3

    def test_has_no_items_of_an_empty_list(self) -> None:
        story = {"begin": [(0.05, 200)], "gather": [(0.1, 200)]}
        records = history("listed", number=5, story=story)
        records = seen(records, each={"state": "succeeded", "reason": "", "items": []})
        assert judged(records).passed, judged(records).breaches
        assert "task" in kinds(seen(records, each={"state": "failed", "reason": "no_list"}, state="failed"))

    def test_fails_without_a_list(self) -> None:
        told = Tale(story={"begin": [(0.05, 200)]}, ends={"each": ("failed", "no_list")})
        records = history("listed", number=3, tales=[told])
        assert judged(records).passed, judged(records).breaches
        assert kinds(seen(records, each={"reason": "too_long"})) == {"task"}
        assert "task" in kinds(seen(records, each={"state": "succeeded", "reason": ""}))


class TestAnItem:
    @pytest.mark.parametrize("unit", ["each:0", "each:5"])
    def test_is_lost_if_it_was_not_executed(self, unit: str) -> None:
        records = without(history("mapped"), of_task(unit))
        assert "lost" in kinds(records)
        assert "lost" in kinds(without(records, unread))

    def test_is_lost_if_it_was_given_up_before_its_budget_was_used(self) -> None:
        assert "lost" in kinds(without(history("mapped"), lambda x: of_task("each:1")(x) and x.attempt == 2))

    def test_is_a_phantom_beyond_the_list(self) -> None:
        assert "phantom" in kinds([*history("mapped"), *again("mapped", "each:6", 0.4)])
        assert "phantom" in kinds([*history("diamond"), *again("diamond", "left:0", 0.4)])

    def test_is_executed_once_for_each_outcome(self) -> None:
        assert "executed twice" in kinds([*history("mapped"), *again("mapped", "each:2", 5.0)])
        assert "fence" in kinds([*history("mapped"), *again("mapped", "each:2", 5.0, fence=1)])
        assert "doubled firing" in kinds([*history("mapped"), *again("mapped", "each:2", 5.0, trigger="b")])

    def test_is_one_of_so_many_at_once_as_its_map_allows(self) -> None:
        at_once = {f"each:{nth}": [(0.1, 200)] for nth in (0, 2, 3)}
        assert "overlap" in kinds(history("mapped", story={**STORIES["mapped"], **at_once}))

    def test_has_its_turn(self) -> None:
        records = history("mapped", story={**STORIES["mapped"], "each:5": [(0.105, 200)]})
        assert "early" in kinds(records)

    def test_starts_after_the_task_that_lists_it(self) -> None:
        assert "early" in kinds(history("mapped", story={**STORIES["mapped"], "each:0": [(0.055, 200)]}))

    def test_carries_its_place_and_what_stands_there(self) -> None:
        assert kinds(carrying(history("mapped"), "each:2", nth=3)) == {"value"}
        assert kinds(carrying(history("mapped"), "each:2", item="0.2")) == {"value"}
        assert kinds(carrying(history("listed"), "each:3", item="4.2")) == {"value"}

    def test_is_of_the_same_list_as_the_others(self) -> None:
        """Even if a fault caused the list to be answered twice."""
        records = history("mapped", more=a_fault(1, BEGINS + 0.055, BEGINS + 0.056))
        second = again("mapped", "split", 0.08)
        number = second[0].delivery
        records += [*second, Brought(delivery=number, values={"number": 1})]
        assert judged(records).passed, judged(records).breaches
        assert kinds(carrying(records, "each:5", item=f"{number}.5")) == {"value"}

    def test_is_in_the_ledger_as_it_was_answered(self) -> None:
        assert "task" in kinds(item(history("mapped"), "each", 1, state="succeeded"))
        assert "task" in kinds(item(history("mapped"), "each", 0, state="failed"))
        assert "task" in kinds(item(history("mapped"), "each", 0, state="skipped", reason="halted"))
        assert "task" in kinds(item(history("mapped"), "each", 0, state="cancelled"))
        assert "task" in kinds(item(history("mapped"), "each", 0, state="started"))
        assert kinds(item(history("mapped"), "each", 0, value="0.0")) == {"value"}
        assert kinds(item(history("mapped"), "each", 0, trigger_id="other")) == {"doubled firing"}
        assert "second end" in kinds(item(history("mapped"), "each", 0, finished_at=T0 + 50))

    def test_is_in_the_ledger_once_for_each_place(self) -> None:
        assert "task" in kinds(item(history("mapped"), "each", 2, item=3))
        items = [line for line in history("mapped") if unread(line)][-1].tasks["each"]["items"]
        assert "task" in kinds(seen(history("mapped"), each={"items": items[:5]}))
        assert "task" in kinds(seen(history("mapped"), each={"items": [*items, items[0] | {"item": 6}]}))

    def test_decides_the_end_of_its_map(self) -> None:
        assert "task" in kinds(seen(history("mapped"), each={"state": "succeeded"}, state="succeeded"))

    def test_may_be_buried_by_a_fault_that_took_its_last_attempt(self) -> None:
        records = without(history("mapped"), lambda x: of_task("each:1")(x) and x.attempt == 2)
        verdict = judged([*records, *a_fault(1, BEGINS + 0.15, BEGINS + 1)])
        assert verdict.passed, verdict.breaches
        assert verdict.excused["a task buried: a fault cost it its last attempt"] == 1

    def test_is_not_begun_where_another_one_failed_and_the_workflow_halts(self) -> None:
        """Then the last items may begin or not; if the workflow goes on, all begin."""
        first, last = tales("listed", drop=("each:3",), ends=_skipped(3, 4))
        story = {**last.story, "each:3": [(3.1, 200)], "each:4": [(3.12, 200)]}
        verdict = judged(history("listed", tales=[first, replace(last, story=story)]))
        assert verdict.passed, verdict.breaches
        records = item(
            without(history("mapped"), of_task("each:5")), "each", 5, state="skipped", reason="halted"
        )
        assert {"task", "lost"} <= kinds(records)


def _skipped(*places: int) -> dict[str, tuple[str, str]]:
    return {f"each:{nth}": ("skipped", "halted") for nth in places}


class TestWhatAMapCollects:
    def changed(self, change: Callable[[list[Any]], list[Any]]) -> set[str]:
        records = history("mapped")
        [gather] = [line.delivery for line in records if of_task("gather")(line)]
        [values] = [x.values for x in records if isinstance(x, Brought) and x.delivery == gather]
        return kinds(carrying(records, "gather", each=change(values["each"])))

    def test_is_in_the_order_of_the_list(self) -> None:
        assert self.changed(lambda found: [found[2], *found[1:2], found[0], *found[3:]]) == {"value"}

    def test_is_one_result_for_each_item(self) -> None:
        assert self.changed(lambda found: found[:-1]) == {"value"}
        assert self.changed(lambda found: [*found, None]) == {"value"}
        assert self.changed(lambda found: [None, *found[1:]]) == {"value"}

    def test_is_nothing_of_an_item_that_failed(self) -> None:
        assert self.changed(lambda found: [found[0], found[0], *found[2:]]) == {"value"}
