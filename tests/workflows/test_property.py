"""Random graphs and outcomes, many parents ended at the same time, against a model that knows nothing of counters."""

import random
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from jobs.explain.workflows.standing import Standing
from jobs.models import Attempt, Trigger, WorkflowRun
from jobs.store import workflows
from tests import factories
from tests.races.conftest import at_once
from tests.workflows.playing import begin, claim_due, finish, key_of, make_workflow, states

pytestmark = pytest.mark.django_db(transaction=True)
WHENS = ("all_success", "all_finished", "any_success", "any_failure")
CONDITIONS = ("on_success", "on_failure", "on_finished")
ENDS = {"succeeded": "succeeded", "dead": "failed", "cancelled": "cancelled"}
THREADS = 4
#: How often failed runs are retried, with other outcomes. Two callers ask for each retry at once.
GENERATIONS = 3


class Graph:
    """A random graph."""

    def __init__(self, rng: random.Random) -> None:
        self.keys = [f"t{number}" for number in range(rng.randint(2, 14))]
        self.whens = {key: rng.choice(WHENS) for key in self.keys}
        density = rng.uniform(0.1, 0.7)
        self.edges = [
            (before, after, rng.choice(CONDITIONS))
            for place, after in enumerate(self.keys)
            for before in self.keys[:place]
            if rng.random() < density
        ]

    def expected(self, ends: Mapping[str, str], kept: Mapping[str, str]) -> dict[str, str]:
        """The state of each task at the run's end, if started ones end as ``ends`` says and ``kept`` is not touched.

        Tasks are in the order in which they depend on each other.
        """
        ended: dict[str, str] = {}
        for key in self.keys:
            met = [self._is_met(ended[before], on) for before, after, on in self.edges if after == key]
            all_needed = self.whens[key].startswith("all")
            starts = not met or (all(met) if all_needed else any(met))
            ended[key] = kept.get(key) or (ENDS[ends[key]] if starts else "skipped upstream")
        return ended

    def kept(self, ended: Mapping[str, str]) -> dict[str, str]:
        """Tasks that a retry leaves as they are: they did not fail, and come after no task that did."""
        kept: dict[str, str] = {}
        for key in self.keys:
            comes_after = any(before not in kept for before, after, _ in self.edges if after == key)
            if ended[key] not in ("failed", "cancelled") and not comes_after:
                kept[key] = ended[key]
        return kept

    @staticmethod
    def _is_met(before: str, on: str) -> bool:
        if on == "on_finished":
            return True
        return before == "succeeded" if on == "on_success" else before in ("failed", "cancelled")


class Played:
    """A run, how its tasks end, and the states that the model expects."""

    def __init__(self, run: WorkflowRun, graph: Graph) -> None:
        self.run, self.graph = run, graph
        self.kept: dict[str, str] = {}
        self.starts: Counter[str] = Counter()

    def draw(self, rng: random.Random) -> None:
        """Choose how tasks end from here on."""
        self.ends = {key: rng.choices(list(ENDS), (6, 3, 1))[0] for key in self.graph.keys}

    def judge(self) -> None:
        expected = self.graph.expected(self.ends, self.kept)
        self.starts.update(
            key for key, state in expected.items() if key not in self.kept and not state.startswith("skipped")
        )
        assert states(self.run) == expected
        self.judge_explain(expected)
        self.run.refresh_from_db()
        assert self.run.state == ("failed" if {"failed", "cancelled"} & {*expected.values()} else "succeeded")
        attempts = Attempt.objects.filter(trigger__workflow_run_id=self.run.id)
        assert Counter(map(key_of, attempts.values_list("trigger_id", flat=True))) == self.starts
        self.kept = self.graph.kept(expected)

    def judge_explain(self, expected: Mapping[str, str]) -> None:
        """Explain says the same of edges as the database decided by them."""
        standing = Standing(self.run, {task.task: task for task in workflows.task_runs(self.run.id)})
        for key, state in expected.items():
            task = standing.tasks[key]
            unmet, edges = len(list(standing.unmet(task))), len(task.after)
            may_start = not unmet if task.needs_all else unmet < edges or not edges
            assert may_start == (state != "skipped upstream"), key

    def retry(self) -> bool:
        return workflows.retry_run(run_id=self.run.id, tenant_id=self.run.tenant_id)


def play_all(runs: Mapping[UUID, Played], rng: random.Random) -> None:
    """Each round's tasks are dealt out to threads regardless of their run, so that their transactions cross."""
    while rows := claim_due():
        run_of = dict(Trigger.objects.values_list("id", "workflow_run_id"))
        ends = {row.id: runs[run_of[row.id]].ends[key_of(row.id)] for row in rows}
        rng.shuffle(rows)
        hands = [hand for hand in (rows[nth::THREADS] for nth in range(THREADS)) if hand]
        at_once(*(partial(finish, hand, partial(_end_of, ends)) for hand in hands))


def _end_of(ends: Mapping[UUID, str], row: Any) -> str:
    return ends[row.id]


@pytest.mark.parametrize("seed", range(12))
def test_every_task_starts_once_an_outcome_or_is_skipped_as_the_model_says(seed: int) -> None:
    rng = random.Random(seed)
    tenant = factories.make_tenant(max_in_flight=1000)
    runs: dict[UUID, Played] = {}
    for number in range(4):
        graph = Graph(rng)
        workflow = make_workflow(
            tenant,
            *graph.edges,
            tasks=graph.keys,
            whens=graph.whens,
            on_failure="continue",
            name=f"w{number}",
        )
        for _ in range(2):
            run = begin(workflow)
            runs[run.id] = Played(run, graph)
    for _ in range(GENERATIONS):
        for played in runs.values():
            played.draw(rng)
        play_all(runs, rng)
        for played in runs.values():
            played.judge()
        for played in runs.values():
            done = at_once(played.retry, played.retry)
            assert sorted(done) == [False, played.run.state == "failed"]
