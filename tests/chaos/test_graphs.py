"""The judge's model of a graph, checked against the engine: random graphs end as the model says."""

import random
from functools import partial
from typing import Any

import pytest

from chaos.history import WorkflowMade
from chaos.judge.workflows.graphs import FAILURES, Fate, begins_again, fates, longest
from jobs.actions.workflows import runs
from jobs.core.errors import Conflict
from jobs.models import TaskRun, WorkflowRun
from tests import factories
from tests.workflows.playing import begin, claim_due, finish, key_of, make_workflow, states

WHENS = ("all_success", "all_finished", "any_success", "any_failure")
CONDITIONS = ("on_success", "on_failure", "on_finished")


def a_workflow(rng: random.Random, *, on_failure: str) -> WorkflowMade:
    keys = [f"t{number}" for number in range(rng.randint(2, 12))]
    density = rng.uniform(0.1, 0.6)
    edges = [
        [before, after, rng.choice(CONDITIONS)]
        for place, after in enumerate(keys)
        for before in keys[:place]
        if rng.random() < density
    ]
    return WorkflowMade(
        at=0.0,
        workflow_id="workflow",
        tenant="acme",
        name="workflow",
        # Not in the order in which they depend on each other.
        tasks={key: {"when": rng.choice(WHENS)} for key in rng.sample(keys, k=len(keys))},
        edges=edges,
        on_failure=on_failure,
    )


def played(workflow: WorkflowMade, rng: random.Random) -> WorkflowRun:
    """A run, whose tasks end in a random order, some of them badly."""
    made = make_workflow(
        factories.make_tenant(max_in_flight=1000),
        *workflow.edges,
        tasks=list(workflow.tasks),
        whens={key: task["when"] for key, task in workflow.tasks.items()},
        on_failure=workflow.on_failure,
    )
    run = begin(made)
    play_on(run, workflow, rng)
    return run


def play_on(run: WorkflowRun, workflow: WorkflowMade, rng: random.Random) -> None:
    ends = {key: rng.choices(["succeeded", "dead", "cancelled"], (6, 3, 1))[0] for key in workflow.tasks}
    while rows := claim_due():
        rng.shuffle(rows)
        for row in rows:
            finish([row], partial(_end, ends))
    assert WorkflowRun.objects.get(id=run.id).finished_at


def _end(ends: dict[str, str], row: Any) -> str:
    return ends[key_of(row.id)]


FITTING = {
    Fate.START: {"succeeded", "failed", "cancelled"},
    Fate.UPSTREAM: {"skipped upstream"},
    Fate.HALTED: {"skipped halted"},
    Fate.EITHER: {"succeeded", "failed", "cancelled", "skipped halted"},
}


def ends_of(run: WorkflowRun) -> dict[str, Any]:
    """When each task ended."""
    keys = dict(run.version.tasks.values_list("number", "key"))
    return {keys[task]: at for task, at in TaskRun.objects.filter(run=run).values_list("task", "finished_at")}


class TestFates:
    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize("on_failure", ["halt", "continue"])
    @pytest.mark.parametrize("seed", range(12))
    def test_are_what_the_engine_makes_of_a_random_graph(self, seed: int, on_failure: str) -> None:
        rng = random.Random(seed)
        workflow = a_workflow(rng, on_failure=on_failure)
        found = states(played(workflow, rng))
        expected = fates(workflow, {task: state.split()[0] for task, state in found.items()})
        assert {task: found[task] for task in found if found[task] not in FITTING[expected[task]]} == {}

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize("on_failure", ["halt", "continue"])
    @pytest.mark.parametrize("seed", range(12))
    def test_of_a_retry_are_what_the_engine_makes_of_it(self, seed: int, on_failure: str) -> None:
        rng = random.Random(seed)
        workflow = a_workflow(rng, on_failure=on_failure)
        run = played(workflow, rng)
        before, ended_at = states(run), ends_of(run)
        failed = [task for task, state in before.items() if state in FAILURES]
        tasks, skip = rng.choice([([], []), (rng.sample(list(before), k=2), []), ([], failed[:1])])
        try:
            runs.retry_run(tenant=run.tenant, run_id=run.id, tasks=tasks, skip=skip)
        except Conflict:
            assert not failed
            assert not tasks
            return
        known = {task: (state.split()[0], state.partition(" ")[2]) for task, state in before.items()}
        again = begins_again(workflow, known, tasks=tasks, skip=skip)
        assert {task for task, at in ends_of(run).items() if at != ended_at[task]} == again
        play_on(run, workflow, rng)
        found = states(run)
        kept = {task for task in found if task not in again}
        assert {task: found[task] for task in kept - {*skip}} == {
            task: before[task] for task in kept - {*skip}
        }
        ends = {task: "succeeded" if task in skip else state.split()[0] for task, state in found.items()}
        expected = fates(workflow, ends, kept)
        assert {task for task, fate in expected.items() if fate == Fate.KEPT} == kept
        assert {task: found[task] for task in again if found[task] not in FITTING[expected[task]]} == {}

    @pytest.mark.parametrize("when", WHENS)
    def test_wait_for_the_tasks_before_that_have_not_ended(self, when: str) -> None:
        on = "on_failure" if when == "any_failure" else "on_success"
        workflow = WorkflowMade(
            at=0.0, workflow_id="w", tenant="acme", name="w",
            tasks={"a": {"when": "all_success"}, "b": {"when": "all_success"}, "c": {"when": when}},
            edges=[["a", "c", on], ["b", "c", on]],
        )  # fmt: skip
        assert fates(workflow, {})["c"] == Fate.WAIT
        met, unmet = ("failed", "succeeded") if on == "on_failure" else ("succeeded", "failed")
        needs_all = when.startswith("all")
        assert (fates(workflow, {"a": met})["c"] == Fate.WAIT) == needs_all
        assert fates(workflow, {"a": unmet})["c"] == (Fate.UPSTREAM if needs_all else Fate.WAIT)
        assert fates(workflow, {"a": unmet, "b": unmet})["c"] == Fate.UPSTREAM

    def test_are_open_where_a_task_beside_it_failed_and_the_workflow_halts(self) -> None:
        tasks = {key: {"when": "all_success"} for key in ("a", "b", "after_b")}
        workflow = WorkflowMade(
            at=0.0, workflow_id="w", tenant="acme", name="w", tasks=tasks,
            edges=[["b", "after_b", "on_success"]],
        )  # fmt: skip
        ends = {"a": FAILURES[0], "b": "succeeded"}
        assert fates(workflow, ends)["after_b"] == Fate.EITHER
        assert fates(workflow, {"b": "succeeded"})["after_b"] == Fate.START


def test_the_longest_way_counts_what_runs_beside_it_once() -> None:
    tasks = {key: {"when": "all_success"} for key in ("a", "b", "c", "d")}
    edges = [
        ["a", "b", "on_success"],
        ["a", "c", "on_success"],
        ["b", "d", "on_success"],
        ["c", "d", "on_success"],
    ]
    workflow = WorkflowMade(at=0.0, workflow_id="w", tenant="acme", name="w", tasks=tasks, edges=edges)
    assert longest(workflow, {"a": 1, "b": 2, "c": 5, "d": 1}) == 7
