"""The words of explain for tasks and runs: tables of rows as read, and of the words for them."""

from collections.abc import Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from jobs.explain.workflows import standing as rules
from jobs.explain.workflows.standing import Standing
from jobs.shapes.workflow.explain import RUN_GATE_NAMES, TASK_GATE_NAMES
from tests.factories import utc

AT = utc(2030, 1, 31, 2)
NEXT = AT + timedelta(seconds=8)
ENDED = ("succeeded", "failed", "skipped", "cancelled")


def task(key: str, state: str, *after: Sequence[str], **more: Any) -> SimpleNamespace:
    """A row of ``task_runs``. If it has started, ``state`` is its trigger's. An edge is (before, condition)."""
    of_trigger = state if state in ("pending", "queued", "running", "retrying") else None
    plain = {
        "task": key,
        "state": "started" if of_trigger else state,
        "reason": "",
        "after": [{"task": before, "on": on} for before, on in after],
        "ready_at": AT,
        "finished_at": AT if state in ENDED else None,
        "trigger_id": UUID(int=len(key)) if of_trigger else None,
        "trigger_state": of_trigger,
        "due_at": NEXT,
        "started_at": AT,
        "attempt_count": 1,
        "needs_all": True,
        "exempt": False,
        "inner_run_id": None,
    }
    return SimpleNamespace(**(plain | more))


def a_run(
    *tasks: SimpleNamespace, halts: bool = True, max_parallel: int | None = None, **more: Any
) -> Standing:
    plain = {
        "state": "running",
        "halted": False,
        "paused_at": None,
        "cancel_requested": False,
        "finished_at": None,
    }
    version = SimpleNamespace(halts=halts, max_parallel=max_parallel)
    return Standing(SimpleNamespace(**(plain | more), version=version), {each.task: each for each in tasks})


def blocking(standing: Standing, key: str) -> dict[str, str]:
    gates = rules.task_gates(standing, standing.tasks[key])
    assert [gate.name for gate in gates] == list(TASK_GATE_NAMES)
    return {gate.name: gate.detail for gate in gates if not gate.passed}


S, F, E = "on_success", "on_failure", "on_finished"
FAILED = task("extract", "failed", reason="exhausted")
AFTER_FAILURE = {"halted": True}


class TestATaskThatWaits:
    @pytest.mark.parametrize(
        ("before", "said"),
        [
            ("retrying", "Waits for load: retrying, next attempt at 2030-01-31T02:00:08Z."),
            ("running", "Waits for load: running since 2030-01-31T02:00:00Z."),
            ("queued", "Waits for load: queued."),
            ("pending", "Waits for load: pending, due at 2030-01-31T02:00:08Z."),
            ("ready", "Waits for load: ready."),
        ],
    )
    def test_tells_how_the_task_before_it_stands(self, before: str, said: str) -> None:
        standing = a_run(task("load", before), task("report", "waiting", ("load", S)))
        assert blocking(standing, "report") == {"upstream": said}

    def test_tells_what_a_waiting_task_before_it_waits_for(self) -> None:
        standing = a_run(
            task("extract", "retrying"),
            task("load", "waiting", ("extract", S)),
            task("report", "waiting", ("load", S)),
        )
        assert blocking(standing, "report") == {
            "upstream": "Waits for load: waiting for extract, which is retrying, next attempt at 2030-01-31T02:00:08Z."
        }
        [upstream, *_] = rules.task_gates(standing, standing.tasks["report"])
        assert (upstream.used, upstream.blockers) == (1, (UUID(int=len("extract")),))

    def test_names_no_more_than_three_and_no_task_that_has_ended(self) -> None:
        keys = [f"t{number}" for number in range(6)]
        edges = [(key, S) for key in keys]
        standing = a_run(
            task("t0", "succeeded"),
            *(task(key, "queued") for key in keys[1:]),
            task("end", "waiting", *edges),
        )
        assert blocking(standing, "end") == {
            "upstream": "Waits for t1: queued; t2: queued; t3: queued; and 2 more."
        }

    def test_that_needs_one_edge_says_so(self) -> None:
        standing = a_run(
            task("a", "queued"),
            task("b", "queued"),
            task("c", "waiting", ("a", S), ("b", S), needs_all=False),
        )
        assert blocking(standing, "c")["upstream"].startswith("Waits for one of a: queued; b: queued")

    @pytest.mark.parametrize(
        ("edges", "is_held"),
        [
            ([("other", S)], True),
            ([("other", F)], False),
            ([("other", E)], False),
            ([("handler", S)], False),
            ([("between", S)], False),
        ],
    )
    def test_is_held_by_the_halt_unless_it_may_handle_the_failure(
        self, edges: list[tuple[str, str]], is_held: bool
    ) -> None:
        standing = a_run(
            FAILED,
            task("other", "running"),
            task("handler", "running", ("extract", F), exempt=True),
            task("between", "waiting", ("handler", S)),
            task("end", "waiting", *edges),
            **AFTER_FAILURE,
        )
        said = blocking(standing, "end")
        assert ("halt" in said) == is_held
        if is_held:
            assert said["halt"] == (
                "extract failed at 2030-01-31T02:00:00Z, and this workflow halts: it is skipped when its turn comes."
            )


class TestATaskThatIsReady:
    def test_tells_of_the_pause(self) -> None:
        standing = a_run(task("load", "ready"), paused_at=AT)
        assert blocking(standing, "load") == {
            "paused": "The run is paused since 2030-01-31T02:00:00Z: nothing more of it starts until it is resumed."
        }

    def test_tells_of_max_parallel_and_of_what_uses_it(self) -> None:
        standing = a_run(task("a", "running"), task("bb", "queued"), task("c", "ready"), max_parallel=2)
        assert blocking(standing, "c") == {
            "max_parallel": "2 of 2 tasks are started at once (max_parallel); 1 task is ready."
        }
        gate = rules.task_gates(standing, standing.tasks["c"])[3]
        assert (gate.limit, gate.used, gate.blockers) == (2, 2, (UUID(int=1), UUID(int=2)))

    def test_names_no_trigger_of_an_earlier_start(self) -> None:
        again = task("load", "ready", trigger_id=UUID(int=9), trigger_state="dead")
        standing = a_run(again, task("end", "waiting", ("load", S)))
        assert rules.task_gates(standing, standing.tasks["end"])[0].blockers == ()
        assert standing.first_to_look_at([again]) is None


class TestATaskThatHasStarted:
    def test_has_its_trigger_before_it_alone(self) -> None:
        standing = a_run(task("load", "retrying"), paused_at=AT, max_parallel=1)
        assert blocking(standing, "load") == {
            "trigger": "Its trigger is retrying, next attempt at 2030-01-31T02:00:08Z."
        }


class TestATaskThatHasEnded:
    SKIPPED = "Skipped at 2030-01-31T02:00:00Z: "

    @pytest.mark.parametrize(
        ("before", "on", "said"),
        [
            ("failed", S, "its edge from load (on_success) could not be met: load failed."),
            ("cancelled", S, "its edge from load (on_success) could not be met: load was cancelled."),
            ("succeeded", F, "its edge from load (on_failure) could not be met: load succeeded."),
            ("skipped", F, "its edge from load (on_failure) could not be met: load was skipped."),
        ],
    )
    def test_names_the_edge_that_could_not_be_met(self, before: str, on: str, said: str) -> None:
        standing = a_run(task("load", before), task("end", "skipped", ("load", on), reason="upstream"))
        assert rules.task_end(standing, standing.tasks["end"]) == self.SKIPPED + said

    def test_names_the_end_of_a_chain_of_skipped_tasks(self) -> None:
        standing = a_run(
            FAILED,
            task("load", "skipped", ("extract", S), reason="upstream"),
            task("check", "skipped", ("load", S), reason="upstream"),
            task("report", "skipped", ("check", S), reason="upstream"),
        )
        assert rules.task_end(standing, standing.tasks["report"]) == (
            f"{self.SKIPPED}its edge from check (on_success) could not be met: check was skipped, since extract failed."
        )

    def test_that_needed_one_edge_says_that_there_was_none(self) -> None:
        edges = [("extract", S), ("load", S)]
        standing = a_run(
            FAILED, task("load", "failed"), task("end", "skipped", *edges, reason="upstream", needs_all=False)
        )
        assert rules.task_end(standing, standing.tasks["end"]) == (
            f"{self.SKIPPED}none of its 2 edges could be met; from extract (on_success): extract failed."
        )

    def test_names_the_task_for_whose_failure_the_workflow_halts(self) -> None:
        late = task("late", "failed", finished_at=NEXT)
        halted = task("load", "skipped", reason="halted")
        after = task("end", "skipped", ("load", S), reason="upstream")
        standing = a_run(late, FAILED, halted, after, **AFTER_FAILURE)
        why = "extract failed at 2030-01-31T02:00:00Z"
        assert rules.task_end(standing, halted) == f"{self.SKIPPED}{why}, and this workflow halts."
        assert rules.task_end(standing, after).endswith(
            f"load was skipped, since {why} and this workflow halts."
        )

    def test_has_no_gates(self) -> None:
        assert rules.task_gates(a_run(FAILED), FAILED) == []

    def test_without_a_trigger_is_told_by_its_reason(self) -> None:
        assert rules.task_end(a_run(FAILED), FAILED) == "Failed at 2030-01-31T02:00:00Z (exhausted)."


class TestARun:
    def test_is_held_by_what_has_started(self) -> None:
        standing = a_run(task("a", "succeeded"), task("bb", "retrying"), task("c", "waiting", ("bb", S)))
        gates = {gate.name: gate for gate in rules.run_gates(standing)}
        assert list(gates) == list(RUN_GATE_NAMES)
        assert [name for name, gate in gates.items() if not gate.passed] == ["tasks"]
        assert gates["tasks"].detail == (
            "Waits for bb: retrying, next attempt at 2030-01-31T02:00:08Z; 1 task behind."
        )
        assert (gates["tasks"].used, gates["tasks"].limit, gates["tasks"].blockers) == (2, 3, (UUID(int=2),))

    def test_that_is_paused_or_asked_to_stop_says_so(self) -> None:
        standing = a_run(task("a", "running"), task("b", "ready"), paused_at=AT, cancel_requested=True)
        said = {gate.name: gate.detail for gate in rules.run_gates(standing) if not gate.passed}
        assert set(said) == {"paused", "tasks"}
        assert said["tasks"].endswith("It was asked to stop.")

    def test_looks_first_at_what_is_retried(self) -> None:
        started = [task("a", "running"), task("b", "queued"), task("c", "retrying"), task("d", "ready")]
        found = a_run(*started).first_to_look_at(started)
        assert found is not None
        assert found.task == "c"

    def test_that_has_ended_counts_its_tasks_and_names_what_failed(self) -> None:
        standing = a_run(
            FAILED,
            task("a", "succeeded"),
            task("b", "skipped"),
            task("c", "skipped"),
            state="failed",
            finished_at=AT,
        )
        assert rules.run_gates(standing) == []
        assert rules.run_end(standing) == (
            "Failed at 2030-01-31T02:00:00Z: 1 task succeeded, 1 task failed, 2 tasks were skipped. "
            "extract: failed at 2030-01-31T02:00:00Z (exhausted)."
        )
