"""The judge, fed histories of runs that wait, are steered or begun by schedules, in which a promise is broken."""

from dataclasses import replace

import pytest

from chaos.history import RunSeen, Started
from chaos.judge import Case
from chaos.judge.workflows.told import under_way
from tests.chaos.histories import T0, a_fault, a_job, a_run, judged, kinds, without
from tests.chaos.runs import (
    a_run_of,
    again,
    called,
    carrying,
    history,
    item,
    moment,
    of_task,
    runs_of_schedule,
    seen,
    tales,
    unread,
)
from tests.chaos.tales import BEGINS, TALES, TIMED
from tests.chaos.telling import a_workflow, executions


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

    def test_for_an_instant_does_not_fail(self) -> None:
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
        """A third attempt of a task that has two is then no repetition; without the retry it is one."""
        more = tales("retried", 1, weak=[(1.7, 503), (2.8, 200)], after=[(2.83, 200)], close=[(2.86, 200)])
        assert judged(history("retried", tales=more)).passed
        assert "executed twice" in kinds([*history("retried"), *again("retried", "alarm", 1.5, fence=2)])

    def test_comes_no_sooner_than_it_was_asked_for(self) -> None:
        """An execution before that belongs to the generation before, in which it was one too many."""
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
        told = tales("cancelled", ends=dict.fromkeys(("held", "mend"), ("cancelled", "requested")))
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

    def test_of_unknown_outcome_may_be_the_end_or_not(self) -> None:
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
        records = history("dropping")
        odd = [replace(x, run_id="odd", scheduled_for=at) for x in records if isinstance(x, RunSeen)]
        assert "phantom" in kinds([*records, *odd])

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

    def test_goes_on_while_the_ledger_is_read(self) -> None:
        """A run that was under way then has executions that are in no log."""
        records = without(runs_of_schedule("lining"), lambda x: isinstance(x, Started) and "lining3" in x.key)
        closed = 34.0
        late = a_run(a_job(), more=records, closed=closed)
        assert judged(late).passed, judged(late).breaches


class TestARunUnderWay:
    @pytest.mark.parametrize(("closed", "goes_on"), [(12.0, True), (50.0, False)])
    def test_keeps_the_log_from_being_read(self, closed: float, goes_on: bool) -> None:
        records = a_run(a_job(), more=without(a_run_of("retried"), unread), closed=closed)
        assert under_way(Case(records)) == goes_on

    def test_does_not_if_it_will_not_be_answered(self) -> None:
        records = without(called(a_run_of("waits"), "signal"), unread)
        assert not under_way(Case(a_run(a_job(), more=records)))

    def test_does_not_if_it_is_a_schedules(self) -> None:
        assert not under_way(Case(a_run(a_job(), more=runs_of_schedule("lining"), closed=36.0)))
