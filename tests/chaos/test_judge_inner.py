"""The judge, fed histories of runs with inner runs, in which a promise is broken."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from chaos.history import Brought, Ended, Record, RunAsked, RunSeen, Started
from chaos.history.workflows import OF_RUN
from tests.chaos.histories import a_fault, a_job, a_run, judged, kinds, without
from tests.chaos.inner import (
    DEEP,
    FIRST,
    MID,
    SECOND,
    THIRD,
    at,
    changed,
    given,
    of_run,
    of_runs,
    started_as,
    twin,
)
from tests.chaos.runs import carrying, history, of_task, seen, tales, unread
from tests.chaos.tales import BEGINS, INNER


class TestASoundRun:
    @pytest.mark.parametrize(
        ("name", "runs"), [("nested", 3), ("redone", 4), ("called_off", 3), ("overdue", 2)]
    )
    def test_passes(self, name: str, runs: int) -> None:
        verdict = judged(history(name))
        assert verdict.passed, verdict.breaches
        assert verdict.runs == runs
        assert not verdict.excused

    @pytest.mark.parametrize("name", INNER)
    def test_passes_before_the_ledger_is_read(self, name: str) -> None:
        verdict = judged(without(history(name), unread))
        assert verdict.passed, verdict.breaches

    def test_requires_each_task_of_each_inner_run(self) -> None:
        alone = judged(a_run(a_job())).firings
        assert judged(history("nested")).firings - alone == 3 + 2 + 2
        assert judged(history("redone")).firings - alone == (3 + 2) + (2 + 3) + (2 + 3)

    @pytest.mark.parametrize("name", INNER)
    def test_is_asked_for_under_its_number(self, name: str) -> None:
        """Its inner runs are not asked for: only its tasks begin them."""
        assert "phantom" in kinds(without(history(name), lambda line: isinstance(line, RunAsked)))


class TestAStart:
    @pytest.mark.parametrize(("name", "run_id"), [("nested", MID), ("nested", DEEP), ("redone", SECOND)])
    def test_begins_one_run(self, name: str, run_id: str) -> None:
        records = history(name)
        assert "doubled run" in kinds([*records, *twin(records, run_id)])

    def test_begins_one_run_by_the_log_alone(self) -> None:
        records = history("nested")
        numbers = {line.delivery for line in records if of_run(DEEP)(line) and isinstance(line, Started)}
        again = [
            replace(line, delivery=-line.delivery)
            for line in records
            if isinstance(line, Started | Ended | Brought) and line.delivery in numbers
        ]
        again = [
            replace(line, key=line.key.replace(DEEP, f"{DEEP}.twin"), trigger_id=f"{line.trigger_id}.twin")
            if isinstance(line, Started)
            else line
            for line in again
        ]
        assert "doubled run" in kinds(without([*records, *again], unread))

    def test_is_another_one_after_a_retry(self) -> None:
        records = history("redone")
        assert "doubled run" in kinds(started_as(records, SECOND, task_start=0))
        assert "doubled run" in kinds(started_as(records, THIRD, task_start=1))
        assert "doubled run" in kinds(started_as(records, THIRD, trigger_id="another"))

    @pytest.mark.parametrize(("name", "run_id"), [("nested", MID), ("nested", DEEP), ("redone", SECOND)])
    def test_is_lost_if_it_begins_none(self, name: str, run_id: str) -> None:
        records = without(history(name), of_runs(run_id))
        assert "lost" in kinds(records)
        assert "lost" in kinds(without(records, unread))

    def test_may_fail_without_a_run_in_a_fault(self) -> None:
        """Its worker died as often as its retries allow."""
        bad = {"state": "failed", "inner_run_id": "", "attempts": 5}
        skipped = {"state": "skipped", "reason": "upstream", "trigger_id": "", "attempts": 0}
        story = {"begin": [(0.05, 200)], "beside": [(0.1, 200)], "mend": [(20.0, 200)]}
        told = [replace(INNER["nested"][0], story=story, ends={"after": ("skipped", "upstream")})]
        records = without(history("nested", tales=told), of_runs(MID))
        records = seen(records, mid=bad | {"finished_at": at(19.9)}, after=skipped, state="failed")
        assert "task" in kinds(records)
        verdict = judged([*records, *a_fault(1, BEGINS + 0.2, BEGINS + 0.3)])
        assert {breach.kind for breach in verdict.breaches} <= {"late"}, verdict.breaches
        assert verdict.excused["a task that failed in a fault, and had begun no run"] == 2

    def test_comes_after_the_tasks_before(self) -> None:
        soon = replace(INNER["nested"][0], inner={"mid": (0.055, INNER["nested"][0].inner["mid"][1])})
        assert "early" in kinds(history("nested", tales=[soon]))

    def test_is_late_if_nothing_but_the_engine_made_it_wait(self) -> None:
        mid = INNER["nested"][0].inner["mid"][1]

        def begun(seconds: float) -> set[str]:
            told = tales("nested", inner={"mid": (seconds, mid)}, after=[(seconds + 0.75, 200)])
            return kinds(history("nested", tales=told))

        assert begun(2.0) == set()
        assert begun(2.1) == {"late"}


class TestARunThatNoTaskBegan:
    def test_is_a_phantom_if_its_task_must_not_start(self) -> None:
        story = {"begin": [(0.05, 400)]}
        none = [replace(INNER["nested"][0], story=story, inner={})]
        sound = history("nested", tales=none)
        assert judged(sound).passed, judged(sound).breaches
        strange = [line for line in history("nested") if of_runs(MID)(line)]
        assert "phantom" in kinds([*sound, *strange])

    def test_is_a_phantom_if_a_retry_keeps_its_task(self) -> None:
        sound = redone_after(["after"])
        assert judged(sound).passed, judged(sound).breaches
        third = [line for line in history("redone") if of_run(THIRD)(line)]
        assert "phantom" in kinds([*sound, *third])

    def test_is_a_phantom_if_there_is_no_such_outer_run(self) -> None:
        records = [
            replace(line, outer_run_id="gone") if isinstance(line, RunSeen) and line.run_id == MID else line
            for line in history("nested")
        ]
        assert "phantom" in kinds(records)

    def test_may_be_of_a_call_of_which_the_outcome_is_unknown(self) -> None:
        records = [
            replace(line, acknowledged_at=None, run_id="", scheduled_for=None)
            if isinstance(line, RunAsked)
            else line
            for line in history("nested")
        ]
        assert judged(records).passed, judged(records).breaches
        assert judged(without(records, unread)).passed, judged(without(records, unread)).breaches


def redone_after(tasks: list[str]) -> list[Record]:
    """The last retry is of these tasks, and keeps the inner run."""
    first, second, third = INNER["redone"]
    last = [first, replace(second, retry=(4.0, {"tasks": tasks})), replace(third, inner={}, ends={})]
    return history("redone", tales=last)


class TestTheTask:
    def test_ends_as_its_run_does(self) -> None:
        records = history("redone")
        assert "task" in kinds(changed(records, FIRST, state="succeeded"))
        assert "task" in kinds(changed(records, THIRD, state="failed"))
        assert "task" in kinds(changed(history("nested"), "run1", mid={"state": "failed"}))
        assert "task" in kinds(changed(history("called_off"), SECOND, state="succeeded"))

    def test_does_not_end_before_its_run_does(self) -> None:
        records = history("nested")
        last = max(
            line.finished_at or 0.0 for line in records if of_run(MID)(line) and isinstance(line, RunSeen)
        )
        assert kinds(changed(records, "run1", mid={"finished_at": last - 0.01})) == {"second end"}
        goes_on = changed(records, DEEP, state="running", finished_at=None)
        assert {"task", "unfinished"} <= kinds(goes_on)

    def test_does_not_go_on_after_its_run(self) -> None:
        held = changed(
            history("nested"),
            "run1",
            mid={"state": "started", "finished_at": None},
            state="running",
            finished_at=None,
        )
        assert "unfinished" in kinds(held)

    def test_does_not_end_without_a_run(self) -> None:
        records = without(history("nested"), of_runs(MID))
        assert {"lost", "task"} <= kinds(records)

    def test_knows_its_run(self) -> None:
        records = history("redone")
        assert kinds(changed(records, "run1", inner={"inner_run_id": FIRST})) == {"task"}
        assert kinds(changed(records, "run1", inner={"inner_run_id": ""})) == {"task"}
        assert "task" in kinds(changed(history("nested"), MID, trigger_id="another"))

    def test_has_a_run_of_which_the_ledger_tells(self) -> None:
        gone = without(history("nested"), lambda line: isinstance(line, RunSeen) and line.run_id == DEEP)
        assert "unrecorded" in kinds(gone)

    def test_is_no_request(self) -> None:
        strange = [
            replace(line, key=f"{OF_RUN}run1:mid")
            if of_task("beside")(line) and isinstance(line, Started)
            else line
            for line in history("nested")
        ]
        assert "phantom" in kinds(strange)


class TestWhatComesOfIt:
    def test_starts_after_its_end(self) -> None:
        assert "early" in kinds(history("nested", tales=tales("nested", after=[(0.7, 200)])))

    def test_starts_if_it_ended_well_and_not_else(self) -> None:
        assert "lost" in kinds(without(history("nested"), of_task("after")))
        first = replace(INNER["redone"][0], story={**INNER["redone"][0].story, "after": [(1.5, 200)]})
        assert "phantom" in kinds(history("redone", tales=[first, *INNER["redone"][1:]]))
        assert "phantom" in kinds(history("nested", tales=tales("nested", mend=[(0.95, 200)])))

    def test_is_within_it_as_in_any_other_run(self) -> None:
        gone = lambda line: of_run(DEEP)(line) and of_task("work")(line)  # noqa: E731
        assert "lost" in kinds(without(history("nested"), gone))
        assert "task" in kinds(changed(history("nested"), DEEP, end={"state": "failed"}))

    def test_may_come_after_a_run_of_which_a_fault_cost_the_last_attempt(self) -> None:
        cut = without(history("redone"), lambda line: of_run(FIRST)(line) and of_task("weak")(line))
        assert "early" in kinds(cut)
        verdict = judged([*cut, *a_fault(1, BEGINS, BEGINS + 1)])
        assert "early" not in {breach.kind for breach in verdict.breaches}


class TestAnInput:
    def test_is_what_its_task_gives(self) -> None:
        records = history("nested")
        assert kinds(given(records, MID, begin=4711)) == {"value"}
        assert kinds(given(records, DEEP, first=None)) == {"value"}
        assert kinds(given(records, DEEP, more=1)) == {"value"}
        assert kinds(given(records, MID, number=2)) == {"value"}

    def test_is_that_of_the_present_start(self) -> None:
        """The value of a task that a retry keeps is the one that was kept."""
        assert kinds(given(history("redone"), THIRD, begin=4711)) == {"value"}

    def test_is_what_its_tasks_carry(self) -> None:
        records = history("nested")
        [work] = [line for line in records if of_run(DEEP)(line) and of_task("work")(line)]
        assert isinstance(work, Started)
        broken = carrying(records, "work", **{"input.first": 4711})
        assert kinds(broken) == {"value"}
        assert kinds(without(carrying(records, "work", **{"input.first": 4711}), unread)) == {"value"}


class TestAResult:
    @pytest.mark.parametrize("path", ["mid.first", "mid.deep.work"])
    def test_is_that_of_the_task_at_its_path(self, path: str) -> None:
        assert kinds(carrying(history("nested"), "after", **{path: 4711})) == {"value"}
        assert kinds(without(carrying(history("nested"), "after", **{path: 4711}), unread)) == {"value"}

    def test_is_not_that_of_another_task_within(self) -> None:
        records = history("nested")
        [end] = [line for line in records if of_run(DEEP)(line) and of_task("end")(line)]
        assert isinstance(end, Started)
        assert kinds(carrying(records, "after", **{"mid.deep.work": end.delivery})) == {"value"}

    def test_is_that_of_the_last_run(self) -> None:
        """After a retry it is not the result of the run before."""
        records = history("redone")
        weak = [line.delivery for line in records if of_task("weak")(line) and isinstance(line, Started)]
        assert len(weak) == 4
        last = [line for line in records if of_task("after")(line) and isinstance(line, Started)][-1]
        broken = [
            replace(line, values=line.values | {"inner.weak": weak[2]})
            if getattr(line, "delivery", None) == last.delivery and hasattr(line, "values")
            else line
            for line in records
        ]
        assert kinds(broken) == {"value"}

    def test_is_kept_with_its_task(self) -> None:
        assert judged(redone_after(["after"])).passed
        assert kinds(carrying(redone_after(["after"]), "after", **{"inner.weak": 4711})) == {"value"}


class TestAClockThatWasSet:
    """The database's clock: an inner run has from it the moment at which it began."""

    def test_makes_no_run_early_that_began_when_its_instant_came_once_more(self) -> None:
        """The clock had been there five seconds before, when it was ahead."""
        ahead = a_fault(27, BEGINS - 6, BEGINS - 4, clock_seconds=5)
        for name in INNER:
            verdict = judged([*history(name), *ahead])
            assert verdict.passed, verdict.breaches

    def test_leaves_a_run_with_the_start_that_began_it(self) -> None:
        """The clock had been past it, and past the retry that began it, before."""
        ahead = a_fault(27, BEGINS - 6, BEGINS - 4, clock_seconds=90)
        for name in INNER:
            found = judged([*history(name), *ahead]).breaches
            assert not [breach for breach in found if "/" in breach.job]

    def test_makes_no_run_early_that_began_while_it_was_behind(self) -> None:
        behind = a_fault(27, BEGINS + 0.13, BEGINS + 0.7, clock_seconds=-3600)

        def back(line: Any) -> Any:
            return replace(line, scheduled_for=line.scheduled_for - timedelta(hours=1))

        records = [
            back(line) if of_runs(MID)(line) and isinstance(line, Started | RunSeen) else line
            for line in history("nested")
        ]
        verdict = judged([*records, *behind])
        assert verdict.passed, verdict.breaches
        assert "early" in kinds(records)
