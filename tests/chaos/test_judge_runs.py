"""The judge, fed histories of workflows with maps, waits, callers and schedules in which a promise is broken."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from chaos.history import Brought, Record, RunSeen, Started, Steered
from tests.chaos.histories import START, T0, a_fault, a_job, a_run, judged, kinds, without
from tests.chaos.runs import (
    BEGINS,
    TALES,
    TIMED,
    Tale,
    a_run_of,
    a_workflow,
    executions,
    item,
    moment,
    of_task,
    runs_of_schedule,
    seen,
)


def history(name: str, *, more: Any = (), **how: Any) -> list[Record]:
    """A run beside a job, and the faults of ``more``; of a workflow that has a schedule all of its runs."""
    found = runs_of_schedule(name, **how) if name in TIMED else a_run_of(name, **how)
    return a_run(a_job(), more=[*found, *more])


def tales(name: str, nth: int = 0, *, drop: tuple[str, ...] = (), **changes: Any) -> list[Tale]:
    """Those of a workflow with one of them told otherwise: executions of units (``each_3`` for ``each:3``), or a field of
    ``Tale``. ``drop``: what was not executed.
    """
    fields = {key: changes.pop(key) for key in list(changes) if key in Tale.__dataclass_fields__}
    told = list(TALES[name])
    story = {unit: found for unit, found in told[nth].story.items() if unit not in drop}
    story |= {_unit(key): found for key, found in changes.items()}
    told[nth] = replace(told[nth], **{"story": story, **fields})
    return told


def _unit(key: str) -> str:
    task, _, nth = key.rpartition("_")
    return f"{task}:{nth}" if nth.isdigit() else key


def carrying(records: list[Record], unit: str, **values: Any) -> list[Record]:
    """The history in which the requests of a task carried something else."""
    numbers = {line.delivery for line in records if of_task(unit)(line)}
    return [
        replace(line, values=line.values | values)
        if isinstance(line, Brought) and line.delivery in numbers
        else line
        for line in records
    ]


def called(records: list[Record], verb: str, **changes: Any) -> list[Record]:
    """The history in which a call was another one; without changes: in which it was not made."""
    return [
        replace(line, **changes) if isinstance(line, Steered) and line.verb == verb else line
        for line in records
        if changes or not (isinstance(line, Steered) and line.verb == verb)
    ]


def again(
    name: str, unit: str, late: float, *, number: int = 1, fence: int = 9, **facts: Any
) -> list[Record]:
    """One more execution of a task."""
    at = moment(BEGINS)
    return executions(
        a_workflow(name), unit, f"run{number}", at, [(late, 200)], fence=fence, attempt=9, **facts
    )


def unread(line: Record) -> bool:
    """Whether it is what the ledger said at the end."""
    return isinstance(line, RunSeen) and line.reading > 0


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
        # Where an item failed and the workflow halts, the first two.
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
        waves = {f"each_{nth}": [(0.1, 200)] for nth in (0, 2, 3)}
        story = {_unit(key): told for key, told in waves.items()}
        records = history("mapped", story={**a_story("mapped"), **story})
        assert "overlap" in kinds(records)

    def test_has_its_turn(self) -> None:
        records = history("mapped", story={**a_story("mapped"), "each:5": [(0.105, 200)]})
        assert "early" in kinds(records)

    def test_starts_after_the_task_that_lists_it(self) -> None:
        assert "early" in kinds(history("mapped", story={**a_story("mapped"), "each:0": [(0.055, 200)]}))

    def test_carries_its_place_and_what_stands_there(self) -> None:
        assert kinds(carrying(history("mapped"), "each:2", nth=3)) == {"value"}
        assert kinds(carrying(history("mapped"), "each:2", item="0.2")) == {"value"}
        assert kinds(carrying(history("listed"), "each:3", item="4.2")) == {"value"}

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
        """Whether the last ones began nobody can tell; that all do where the workflow goes on, everybody."""
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


def a_story(name: str) -> Any:
    from tests.chaos.runs import STORIES

    return STORIES[name]


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


class TestAWait:
    def test_is_over_no_earlier_than_its_time(self) -> None:
        assert kinds(history("waits", tales=tales("waits", after_nap=[(0.9, 200)]))) == {"early"}
        assert kinds(history("waits", tales=tales("waits", after_moment=[(1.9, 200)]))) == {"early"}
        assert kinds(history("waits", tales=tales("waits", after_unheard=[(1.9, 200)]))) == {"early"}
        assert kinds(seen(history("waits"), nap={"finished_at": T0 + BEGINS + 0.5})) == {"task"}

    def test_is_over_no_earlier_than_it_was_answered(self) -> None:
        assert kinds(history("waits", tales=tales("waits", after_paid=[(1.4, 200)]))) == {"early"}
        assert kinds(history("waits", tales=tales("waits", after_granted=[(2.4, 200)]))) == {"early"}
        assert kinds(history("waits", tales=tales("waits", after_refused=[(3.4, 200)]))) == {"early"}

    @pytest.mark.parametrize(
        ("verb", "task"), [("signal", "paid"), ("approve", "granted"), ("refuse", "refused")]
    )
    def test_ends_so_if_it_was_answered_so(self, verb: str, task: str) -> None:
        assert "task" in kinds(called(history("waits"), verb))
        failed = {"state": "failed", "finished_at": T0 + BEGINS + 20}
        assert "task" in kinds(seen(history("waits"), **{task: failed}))

    def test_fails_for_nobody_but_who_may_be_late(self) -> None:
        assert "task" in kinds(seen(history("waits"), nap={"state": "failed"}))

    def test_carries_what_its_caller_said(self) -> None:
        assert kinds(carrying(history("waits"), "after_paid", paid=7)) == {"value"}
        assert kinds(carrying(history("waits"), "after_granted", granted=False)) == {"value"}

    def test_is_not_executed(self) -> None:
        assert "phantom" in kinds([*history("waits"), *again("waits", "nap", 0.5)])

    def test_is_unfinished_if_it_goes_on_after_its_time(self) -> None:
        records = seen(history("waits"), unheard={"state": "started"}, state="running", finished_at=None)
        assert "unfinished" in kinds(records)

    def test_may_go_on_if_it_was_never_answered(self) -> None:
        records = without(called(history("waits"), "signal"), of_task("after_paid"))
        goes_on = {"state": "started", "finished_at": None}
        follows = {"state": "waiting", "finished_at": None, "trigger_id": ""}
        assert judged(
            seen(records, paid=goes_on, after_paid=follows, state="running", finished_at=None)
        ).passed


class TestARetry:
    def test_begins_what_failed_and_what_comes_after_once_more(self) -> None:
        for task in ("weak", "after", "close"):
            records = without(
                history("retried"), lambda x, task=task: of_task(task)(x) and 1.65 < x.at - T0 - BEGINS < 2
            )
            assert "lost" in kinds(records), task

    def test_keeps_what_had_succeeded(self) -> None:
        records = [*history("retried"), *again("retried", "begin", 1.75)]
        assert "phantom" in kinds(records)
        assert "task" in kinds(seen(history("retried"), begin={"finished_at": T0 + BEGINS + 1}))

    def test_keeps_items_that_had_succeeded(self) -> None:
        assert "phantom" in kinds([*history("listed"), *again("listed", "each:2", 3.15, number=4)])
        assert "task" in kinds(item(history("listed"), "each", 2, state="failed"))
        gone = without(history("listed"), lambda x: of_task("each:1")(x) and x.at > T0 + BEGINS + 3)
        assert "lost" in kinds(gone)

    def test_of_tasks_begins_these_and_no_others(self) -> None:
        assert "phantom" in kinds([*history("retried"), *again("retried", "weak", 3.15)])
        last = without(history("retried"), lambda x: of_task("beside")(x) and x.at > T0 + BEGINS + 3)
        assert "lost" in kinds(last)

    def test_gives_a_task_its_whole_budget_once_more(self) -> None:
        """A third attempt of a task that has two is no repetition then, and one without the retry is."""
        more = tales("retried", 1, weak=[(1.7, 503), (2.8, 200)], after=[(2.83, 200)], close=[(2.86, 200)])
        assert judged(history("retried", tales=more)).passed
        assert "executed twice" in kinds([*history("retried"), *again("retried", "alarm", 1.5, fence=2)])

    def test_comes_no_sooner_than_it_was_asked_for(self) -> None:
        """What was executed before is of the generation before, in which it was too much."""
        assert "executed twice" in kinds(history("retried", tales=tales("retried", 1, weak=[(1.55, 200)])))

    def test_without_a_task_begins_what_comes_after_it(self) -> None:
        assert "lost" in kinds(without(history("passed"), of_task("after")))
        assert "phantom" in kinds([*history("passed"), *again("passed", "bad", 2.1)])
        assert "phantom" in kinds([*history("passed"), *again("passed", "beside", 2.1)])
        assert "task" in kinds(seen(history("passed"), bad={"state": "failed"}))

    def test_that_may_have_begun_or_not_is_held_against_no_one(self) -> None:
        records = without(called(history("passed"), "retry", acknowledged_at=None), of_task("after"))
        verdict = judged(records)
        assert verdict.passed, verdict.breaches
        assert verdict.excused["a run whose retry may have begun or not"] == 1

    def test_takes_values_that_were_kept(self) -> None:
        assert judged(history("passed")).passed
        assert kinds(carrying(history("passed"), "last", beside=4711)) == {"value"}

    def test_lets_the_run_end_once_more(self) -> None:
        assert "unfinished" in kinds(seen(history("retried"), state="running", finished_at=None))
        assert "second end" in kinds(seen(history("retried"), reading=1, state="failed"))

    def test_of_a_frozen_worker_that_sends_what_it_had_claimed_before_is_known_by_its_fence(self) -> None:
        facts = {"fence": 0, "attempt": 1, "claimed": 0.1}
        late = executions(a_workflow("retried"), "weak", "run1", moment(BEGINS), [(2.2, 200)], **facts)
        verdict = judged([*history("retried"), *late, *a_fault(4, BEGINS + 0.11, BEGINS + 2.2)])
        assert {breach.kind for breach in verdict.breaches} == {"value"}, (
            verdict.breaches
        )  # it carried nothing


class TestACancel:
    def test_stops_what_had_not_started(self) -> None:
        told = tales("cancelled", ends={key: ("cancelled", "requested") for key in ("held", "mend")})
        late = [replace(told[0], story={**told[0].story, "after": [(2.2, 200)]}), *told[1:]]
        assert "stopped" in kinds(history("cancelled", tales=late))

    def test_lets_what_had_started_come_late(self) -> None:
        told = tales("cancelled", work=[(1.3, 200)])
        assert judged(history("cancelled", tales=told)).passed

    def test_is_the_end_of_the_run(self) -> None:
        alone = [replace(TALES["cancelled"][0], retry=None)]
        records = history("cancelled", tales=alone)
        assert judged(records).passed, judged(records).breaches
        assert kinds(seen(records, state="failed")) == {"task"}
        assert kinds(seen(records, state="succeeded")) == {"task"}
        assert kinds(seen(records, state="running", finished_at=None)) == {"unfinished"}
        assert "task" in kinds(called(records, "cancel"))

    def test_of_which_nobody_knows_may_be_the_end_or_not(self) -> None:
        records = called(
            history("cancelled", tales=[replace(TALES["cancelled"][0], retry=None)]),
            "cancel",
            acknowledged_at=None,
        )
        assert judged(records).passed
        assert judged(seen(records, state="failed")).passed


class TestAPause:
    def test_holds_what_had_not_started(self) -> None:
        assert "stopped" in kinds(history("paused", tales=tales("paused", each_1=[(1.5, 200)])))
        assert "stopped" in kinds(history("paused", tales=tales("paused", each_1=[(1.0, 200)])))

    def test_lets_what_had_started_come_late(self) -> None:
        told = tales("paused", beside=[(2.9, 200)])
        assert kinds(history("paused", tales=told)) <= {"late"}

    def test_counts_for_no_lateness(self) -> None:
        assert judged(history("paused")).passed
        later = tales(
            "paused", each_1=[(5.3, 200)], each_2=[(6.0, 200)], each_3=[(6.7, 200)], gather=[(7.3, 200)]
        )
        assert kinds(history("paused", tales=later)) == {"late"}


class TestASchedule:
    def test_begins_a_run_at_each_instant(self) -> None:
        assert "lost" in kinds(history("dropping", without=[39.75]))
        assert "lost" in kinds(history("lining", without=[6.75]))

    def test_begins_none_at_another_instant(self) -> None:
        at = moment(12.75)
        odd = [
            replace(line, run_id="odd", scheduled_for=at) if isinstance(line, RunSeen) else line
            for line in history("dropping")
            if not isinstance(line, Started)
        ]
        assert "phantom" in kinds([*history("dropping"), *[x for x in odd if isinstance(x, RunSeen)]])

    def test_begins_one_run_at_an_instant(self) -> None:
        records = history("dropping")
        twin = [
            replace(x, run_id="twin") for x in records if isinstance(x, RunSeen) and x.run_id == "dropping0"
        ]
        assert "doubled firing" in kinds([*records, *twin])

    def test_begins_none_beside_another_one(self) -> None:
        records = [
            replace(line, at=line.at - 2.0) if isinstance(line, Started) and "lining1" in line.key else line
            for line in history("lining")
        ]
        assert "overlap" in kinds(records)
        assert "overlap" in kinds(without(records, unread))

    def test_may_drop_one_that_finds_another_and_no_other(self) -> None:
        verdict = judged(history("dropping"))
        assert verdict.excused["dropped by its overlap policy"] == 2
        assert "lost" in kinds(history("dropping", without=[19.75]))

    def test_may_drop_one_in_a_fault(self) -> None:
        records = history("dropping", without=[39.75], more=a_fault(2, 35, 38))
        assert judged(records).passed, judged(records).breaches

    def test_is_known_from_the_log_alone(self) -> None:
        records = without(history("lining"), unread)
        assert judged(records).runs == len(TIMED["lining"])
        gone = without(records, lambda x: isinstance(x, Started) and x.scheduled_for == moment(34.75))
        assert "lost" in kinds(gone)
        assert START < moment(1)
