"""The judge, fed histories in which an inner run outlives its outer one, or a run its deadline."""

from dataclasses import replace

import pytest

from chaos.history import Record, WorkflowMade
from chaos.judge import Case
from chaos.judge.workflows.told import under_way
from tests.chaos.histories import a_fault, a_job, a_run, judged, kinds, without
from tests.chaos.inner import DEEP, FIRST, SECOND, at, changed
from tests.chaos.runs import a_run_of, called, history, of_task, unread
from tests.chaos.tales import BEGINS, INNER, Tale


class TestACancel:
    def test_ends_the_inner_run_with_its_outer_one(self) -> None:
        goes_on = {"state": "running", "finished_at": None, "cancel_reason": ""}
        outer = {"state": "running", "finished_at": None, "inner": {"state": "started", "finished_at": None}}
        records = changed(changed(history("called_off"), SECOND, **goes_on), "run1", **outer)
        assert "orphan" in kinds(records)

    def test_of_which_the_outer_run_knows_and_the_inner_one_does_not_leaves_it_behind(self) -> None:
        goes_on = {"state": "running", "finished_at": None, "cancel_reason": ""}
        assert {"orphan", "task"} <= kinds(changed(history("called_off"), SECOND, **goes_on))

    def test_ends_it_within_two_seconds_and_what_was_at_work(self) -> None:
        """The call came at 4.8; an attempt of a second that had begun may go on."""

        def ended(seconds: float) -> set[str]:
            records = changed(history("called_off"), SECOND, finished_at=at(seconds))
            late = {"finished_at": at(seconds)}
            return kinds(changed(records, "run1", inner=late, **late))

        assert ended(8.5) == set()
        assert ended(9.0) == {"late"}

    def test_may_take_longer_in_a_fault(self) -> None:
        records = changed(history("called_off"), SECOND, finished_at=at(30))
        records = changed(records, "run1", inner={"finished_at": at(30)}, finished_at=at(30))
        assert kinds(records) == {"late"}
        assert judged([*records, *a_fault(2, BEGINS + 5, BEGINS + 6)]).passed
        spared = a_fault(2, BEGINS + 5, BEGINS + 6, affects=["another"])
        assert "late" in kinds([*records, *spared])

    def test_ends_what_is_two_deep(self) -> None:
        records = nested_cancelled()
        assert judged(records).passed, judged(records).breaches
        goes_on = {"state": "running", "finished_at": None, "cancel_reason": ""}
        assert "orphan" in kinds(changed(records, DEEP, **goes_on))

    def test_lets_nothing_more_of_it_begin(self) -> None:
        first, second = INNER["called_off"]
        late, inner = second.inner["inner"]
        going_on = replace(
            inner,
            # The work takes longer than otherwise; the task after it begins with its end.
            story={"work": [(0.05, 503), (3.2, 200)], "more": [(4.3, 200)]},
            ends={"held": ("cancelled", "requested")},
        )
        told = [first, replace(second, inner={"inner": (late, going_on)})]
        found = [
            breach
            for breach in judged(history("called_off", tales=told)).breaches
            if breach.kind == "stopped"
        ]
        assert [breach.job for breach in found] == ["called_off_inner/more"]

    def test_lets_no_run_begin_after_it(self) -> None:
        first, second = INNER["called_off"]
        _, inner = second.inner["inner"]
        told = [first, replace(second, inner={"inner": (4.9, inner)})]
        assert "stopped" in kinds(history("called_off", tales=told))

    def test_of_which_the_outcome_is_unknown_may_have_done_so_or_not(self) -> None:
        records = [
            replace(line, acknowledged_at=None) if getattr(line, "verb", "") == "cancel" else line
            for line in history("called_off")
        ]
        assert judged(records).passed, judged(records).breaches

    def test_is_the_reason(self) -> None:
        assert kinds(changed(history("called_off"), SECOND, cancel_reason="requested")) == {"task"}
        assert "task" in kinds(called(history("called_off"), "cancel"))

    def test_without_one_the_inner_run_goes_on_unanswered(self) -> None:
        """Its signal never comes: that is the caller's doing."""
        records = without(called(called(history("called_off"), "cancel"), "retry"), unread)
        assert not under_way(Case(records))


def nested_cancelled() -> list[Record]:
    """A cancel while the run two deep is at work."""
    whole = INNER["nested"][0]
    deep = Tale(
        story={"work": [(0.05, 200)]},
        ends={"end": ("cancelled", "requested")},
        state="cancelled",
        reason="outer",
    )
    mid = Tale(
        story={"first": [(0.05, 200)]},
        ends={"last": ("cancelled", "requested")},
        inner={"deep": (0.15, deep)},
        state="cancelled",
        reason="outer",
    )
    told = replace(
        whole,
        story={"begin": [(0.05, 200)], "beside": [(0.1, 200)]},
        ends=dict.fromkeys(("after", "mend"), ("cancelled", "requested")),
        calls=[("cancel", 0.4, "")],
        inner={"mid": (0.15, mid)},
        state="cancelled",
        reason="requested",
    )
    return history("nested", tales=[told])


class TestADeadline:
    def ended(self, seconds: float) -> list[Record]:
        """The inner run and its outer one end ``seconds`` after the outer one began."""
        late = {"finished_at": at(seconds)}
        records = changed(history("overdue"), FIRST, **late)
        return changed(records, "run1", inner=late, **late)

    def test_ends_no_run_before_it(self) -> None:
        assert "deadline" in kinds(self.ended(3.9))

    def test_ends_each_run_soon_after_it(self) -> None:
        """Two seconds for each of both runs, and two for an attempt that had begun."""
        assert kinds(self.ended(9.9)) == set()
        found = [breach.job for breach in judged(self.ended(10.1)).breaches if breach.kind == "late"]
        assert found == ["overdue/", "overdue_inner/"]

    def test_may_be_kept_late_in_a_fault(self) -> None:
        assert judged([*self.ended(40), *a_fault(2, BEGINS + 4, BEGINS + 5)]).passed

    def test_is_kept_by_a_run_that_goes_on(self) -> None:
        goes_on = {"state": "running", "finished_at": None, "cancel_reason": ""}
        outer = goes_on | {"inner": {"state": "started", "finished_at": None}}
        records = changed(changed(history("overdue"), FIRST, **goes_on), "run1", **outer)
        assert {"deadline", "orphan", "unfinished"} <= kinds(records)
        left = changed(history("overdue"), FIRST, **goes_on)
        assert {"orphan", "task"} <= kinds(left)

    def test_is_the_reason(self) -> None:
        assert kinds(changed(history("overdue"), "run1", cancel_reason="requested")) == {"task"}

    def test_of_a_run_that_ended_before_it_is_nothing(self) -> None:
        """Then all of its tasks are required."""
        bounded = [
            replace(line, deadline_seconds=30.0)
            if isinstance(line, WorkflowMade) and line.name == "nested"
            else line
            for line in history("nested")
        ]
        verdict = judged(bounded)
        assert verdict.passed, verdict.breaches
        assert verdict.firings == judged(history("nested")).firings
        assert "lost" in kinds(without(bounded, of_task("after")))


class TestARunUnderWay:
    @pytest.mark.parametrize(("closed", "goes_on"), [(BEGINS + 3, True), (BEGINS + 40, False)])
    @pytest.mark.parametrize("name", INNER)
    def test_keeps_the_log_from_being_read(self, name: str, closed: float, goes_on: bool) -> None:
        records = a_run(a_job(), more=without(a_run_of(name), unread), closed=closed)
        assert under_way(Case(records)) == goes_on
