"""The judge, fed histories of workflows in which a promise is broken."""

from dataclasses import replace
from datetime import timedelta

import pytest

from chaos.history import Brought, Effect, RunAsked, RunSeen, TenantMade
from chaos.load.workflows import MAX_PARALLEL
from tests.chaos.histories import START, a_fault, a_job, a_run, judged, kinds, without
from tests.chaos.runs import (
    a_run_of,
    of_task,
    seen,
)
from tests.chaos.tales import BEGINS, STORIES
from tests.chaos.telling import a_workflow, executions

AT = START + timedelta(seconds=BEGINS)


def history(name: str, *, more=(), **how):
    """A run beside a job, and the faults of ``more``."""
    return a_run(a_job(), more=[*a_run_of(name, **how), *more])


def told(name: str, **changes):
    """The story of a workflow with some of its tasks told otherwise; None: the task was not executed."""
    return {task: told for task, told in {**STORIES[name], **changes}.items() if told is not None}


class TestASoundRun:
    @pytest.mark.parametrize("name", STORIES)
    def test_passes(self, name):
        verdict = judged(history(name))
        assert verdict.passed, verdict.breaches
        assert verdict.runs == 1
        assert not verdict.excused

    @pytest.mark.parametrize("name", STORIES)
    def test_passes_before_the_ledger_is_read(self, name):
        verdict = judged(without(history(name), lambda line: isinstance(line, RunSeen)))
        assert verdict.passed, verdict.breaches

    def test_requires_each_task_that_starts(self):
        [job, both] = [judged(a_run(a_job())), judged(history("broken"))]
        assert both.firings - job.firings == len(STORIES["broken"])


class TestATaskThatMustBeExecuted:
    @pytest.mark.parametrize(("name", "task"), [("diamond", "close"), ("fan", "gather"), ("broken", "mend")])
    def test_is_lost_if_it_is_not(self, name, task):
        records = without(history(name), of_task(task))
        assert "lost" in kinds(records)
        assert "lost" in kinds(without(records, lambda line: isinstance(line, RunSeen)))

    def test_is_lost_if_it_was_given_up_before_its_budget_was_used(self):
        assert "lost" in kinds(history("mixed", story=told("mixed", late_failure=[(0.05, 500)])))

    def test_may_be_buried_by_a_fault_that_took_its_last_attempt(self):
        story = told("broken", right=[(0.1, 500)])
        assert "lost" in kinds(history("broken", story=story))
        verdict = judged(history("broken", story=story, more=a_fault(1, BEGINS + 0.5, BEGINS + 1)))
        assert verdict.passed, verdict.breaches
        assert verdict.excused["a task buried: a fault cost it its last attempt"] == 1

    def test_is_unfinished_if_the_ledger_has_no_end_of_it(self):
        records = seen(history("fan"), gather={"state": "waiting"}, state="running", finished_at=None)
        assert kinds(without(records, of_task("gather"))) == {"lost", "unfinished"}

    def test_is_not_due_as_long_as_its_run_may_take(self):
        late = history("chain", begins=55, story=told("chain", step5=None, step4=None))
        assert judged(without(late, lambda line: isinstance(line, RunSeen))).passed


class TestATaskThatMustNotBeExecuted:
    def test_is_a_phantom_if_it_is(self):
        assert "phantom" in kinds(history("diamond", story=told("diamond", mend=[(1.3, 200)])))

    def test_is_a_phantom_after_a_failure_that_halts(self):
        assert "phantom" in kinds(history("broken", story=told("broken", meet=[(1.3, 200)])))


class TestTheOrder:
    def test_is_broken_by_a_task_that_counts_a_parent_twice(self):
        """Ten of twenty parts have ended, and one began at the same time as the task that waits for all."""
        story = told("fan", gather=[(0.3, 200)])
        assert "early" in kinds(history("fan", story=story))

    def test_is_broken_by_a_task_that_may_start_with_any_and_began_before_all(self):
        assert "early" in kinds(history("mixed", story=told("mixed", any_bad=[(1.5, 200)])))
        assert "early" in kinds(history("mixed", story=told("mixed", any_good=[(0.04, 200)])))

    def test_is_kept_by_what_follows_a_task_that_was_skipped_before_all_before_it_had_ended(self):
        story = told("broken", left=[(0.1, 503), (4.0, 200)])
        verdict = judged(history("broken", story=story))
        assert verdict.passed, verdict.breaches

    def test_is_kept_where_a_fault_cut_short_the_last_attempt_of_the_task_before(self):
        cut = [line for line in history("broken") if not of_task("right")(line)]
        assert "early" in kinds(cut)
        verdict = judged([*cut, *a_fault(1, BEGINS, BEGINS + 1)])
        assert "early" not in {breach.kind for breach in verdict.breaches}


class TestAnExecution:
    def again(self, *, fence: int = 2, late: float = 5.0, **facts):
        return executions(
            a_workflow("diamond"), "left", "run1", AT, [(late, 200)], fence=fence, attempt=2, **facts
        )

    def test_is_made_twice_without_a_fault(self):
        assert "executed twice" in kinds([*history("diamond"), *self.again()])

    def test_is_made_twice_by_a_fault_that_found_it_in_flight(self):
        more = a_fault(1, BEGINS + 0.15, BEGINS + 1)
        verdict = judged([*history("diamond", more=more), *self.again()])
        assert {breach.kind for breach in verdict.breaches} == {"value"}, (
            verdict.breaches
        )  # it carried nothing
        assert verdict.excused["executed again after a fault"] == 1

    def test_has_a_fence_of_its_own(self):
        assert "fence" in kinds([*history("diamond"), *self.again(fence=1)])

    def test_is_of_one_trigger(self):
        assert "doubled firing" in kinds([*history("diamond"), *self.again(trigger="another")])

    def test_is_one_of_so_many_at_once_as_the_run_allows(self):
        parts = [task for task in STORIES["fan"] if task.startswith("part")]

        def at_once(count: int):
            waves = {task: [(0.1 + 0.5 * (n // count), 200)] for n, task in enumerate(parts)}
            return told("fan", **waves, gather=[(12, 200)])

        assert judged(history_of_narrow(at_once(MAX_PARALLEL))).passed
        assert kinds(history_of_narrow(at_once(MAX_PARALLEL + 1))) == {"overlap"}

    def test_counts_for_its_tenants_cap(self):
        cap = TenantMade(slug="acme", max_in_flight=1)
        assert judged(history("fan", begins=12, more=[cap])).passed
        story = told("fan", part1=[(0.1, 200)])
        assert kinds(history("fan", begins=12, story=story, more=[cap])) == {"quota"}

    def test_is_late_if_nothing_but_the_engine_made_it_wait(self):
        assert judged(history("chain", story=told("chain", step5=[(3.3, 200)]))).passed
        assert kinds(history("chain", story=told("chain", step5=[(3.6, 200)]))) == {"late"}
        later = {task: [(at + 2.1, status) for at, status in each] for task, each in STORIES["chain"].items()}
        assert kinds(history("chain", story=later)) == {"late"}

    def test_comes_after_its_back_off(self):
        assert "early" in kinds(history("diamond", story=told("diamond", right=[(0.1, 503), (0.5, 200)])))


def history_of_narrow(story):
    return history("narrow", story=story)


class TestAValue:
    def changed(self, name: str, task: str, **values):
        """The history in which the requests of a task carried something else."""
        records = history(name)
        numbers = {line.delivery for line in records if of_task(task)(line)}
        return [
            replace(line, values=line.values | values)
            if isinstance(line, Brought) and line.delivery in numbers
            else line
            for line in records
        ]

    def test_is_what_the_task_before_was_answered(self):
        assert kinds(self.changed("diamond", "meet", left=4711)) == {"value"}
        assert kinds(self.changed("fan", "gather", part7=None)) == {"value"}

    def test_is_not_that_of_a_refused_attempt(self):
        refused = next(line for line in history("chain") if of_task("step2")(line)).delivery
        assert kinds(self.changed("chain", "step4", step2=refused)) == {"value"}

    def test_is_the_input_of_the_run(self):
        assert kinds(self.changed("mixed", "good", number=2)) == {"value"}

    def test_is_there(self):
        records = history("diamond")
        [close] = [line.delivery for line in records if of_task("close")(line)]
        assert kinds(without(records, lambda x: isinstance(x, Brought) and x.delivery == close)) == {"value"}

    def test_is_one_for_all_that_take_it(self):
        """Even if a fault caused the task to be answered twice."""
        records = history("fan", more=a_fault(1, BEGINS + 0.055, BEGINS + 0.056))
        second = executions(a_workflow("fan"), "split", "run1", AT, [(0.08, 200)], fence=2, attempt=2)
        records += [*second, Brought(delivery=second[0].delivery, values={"number": 1})]
        assert judged(records).passed, judged(records).breaches
        part = next(line for line in records if of_task("part3")(line)).delivery
        broken = [
            replace(line, values=line.values | {"split": second[0].delivery})
            if isinstance(line, Brought) and line.delivery == part
            else line
            for line in records
        ]
        assert kinds(broken) == {"value"}


class TestTheLedger:
    def test_says_of_each_task_what_follows_from_those_before(self):
        assert kinds(seen(history("diamond"), mend={"reason": "halted"})) == {"task"}
        assert "task" in kinds(seen(history("diamond"), close={"state": "skipped", "reason": "upstream"}))
        assert "task" in kinds(seen(history("diamond"), left={"state": "cancelled"}))
        assert "task" in kinds(seen(history("broken"), meet={"state": "succeeded", "reason": ""}))

    def test_says_of_each_task_what_its_receiver_did(self):
        assert "task" in kinds(seen(history("diamond"), close={"state": "failed"}, state="failed"))
        assert "task" in kinds(seen(history("mixed"), refused={"state": "succeeded"}))

    def test_says_of_each_run_what_follows_from_its_tasks(self):
        assert kinds(seen(history("diamond"), state="failed")) == {"task"}
        assert kinds(seen(history("broken"), state="succeeded")) == {"task"}
        assert kinds(seen(history("broken"), state="cancelled")) == {"task"}

    def test_has_an_end_of_each_run(self):
        assert kinds(seen(history("diamond"), state="running", finished_at=None)) == {"unfinished"}

    def test_has_one_end_of_each_run_and_task(self):
        records = history("diamond")
        last = max(line.finished_at for line in records if isinstance(line, RunSeen))
        assert kinds(seen(records, reading=1, finished_at=last + 1)) == {"second end"}
        assert kinds(seen(records, reading=1, state="failed")) == {"second end"}
        assert kinds(seen(records, close={"finished_at": last + 1})) == {"second end"}
        assert kinds(seen(records, reading=1, left={"finished_at": 1.0})) == {"second end"}

    def test_may_have_ended_before_it_began_where_the_clock_was_put_back(self):
        records = history("diamond")
        last = max(line.finished_at for line in records if isinstance(line, RunSeen))
        sooner = seen(records, finished_at=last - 3600)
        assert kinds(sooner) == {"second end"}
        assert "second end" in kinds([*sooner, *a_fault(27, 19, 25, clock_seconds=90)])
        assert "second end" not in kinds([*sooner, *a_fault(27, 19, 25, clock_seconds=-3600)])

    def test_may_have_ended_between_the_readings(self):
        assert judged(seen(history("diamond"), reading=1, state="running", finished_at=None)).passed

    def test_knows_the_triggers_that_were_executed(self):
        assert kinds(seen(history("diamond"), left={"trigger_id": "another"})) == {"doubled firing"}


class TestARun:
    def test_that_was_acknowledged_is_on_record(self):
        records = [*history("diamond"), *a_run_of("chain", number=2)]
        assert judged(records).passed
        records = without(records, lambda line: isinstance(line, RunSeen) and line.number == 2)
        assert "unrecorded" in kinds(records)

    def test_was_asked_for(self):
        assert "phantom" in kinds(without(history("diamond"), lambda line: isinstance(line, RunAsked)))

    def test_is_one_for_each_key(self):
        again = without(a_run_of("diamond", begins=BEGINS + 5), lambda line: isinstance(line, RunAsked))
        again = [replace(line, run_id="run2") if isinstance(line, RunSeen) else line for line in again]
        again = [
            replace(line, key=line.key.replace("run1", "run2")) if hasattr(line, "key") else line
            for line in again
        ]
        assert kinds([*history("diamond"), *again]) == {"doubled firing"}

    def test_may_have_begun_where_the_outcome_of_the_call_is_unknown(self):
        records = [
            replace(line, acknowledged_at=None, run_id="", scheduled_for=None)
            if isinstance(line, RunAsked)
            else line
            for line in history("diamond")
        ]
        assert judged(records).passed
        assert judged(without(records, lambda line: isinstance(line, RunSeen))).passed
        unasked = without(records, lambda line: isinstance(line, RunSeen | RunAsked))
        assert kinds(unasked) == {"phantom"}

    @pytest.mark.parametrize("count", [0, 2])
    def test_has_the_effect_of_each_task_once(self, count):
        records = [
            replace(line, count=count) if isinstance(line, Effect) else line for line in history("chain")
        ]
        assert kinds(records) == {"effect"}

    def test_that_acknowledged_writes_were_lost_excuses(self):
        records = history("diamond", more=a_fault(17, BEGINS + 1, BEGINS + 9))
        assert judged(seen(records, state="failed")).passed
