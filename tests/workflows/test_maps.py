"""Maps: a task once for each item of a list, and the list of their results."""

import random
from functools import partial
from typing import Any

import pytest

from jobs.actions.workflows import runs
from jobs.models import Attempt, TaskRun, Trigger, WorkflowRun
from jobs.store import workflows
from tests import factories
from tests.engine.conftest import handler
from tests.interfaces.api.caller import Caller, faulty_fields
from tests.races.conftest import at_once
from tests.workflows.playing import begin, claim_due, finish, key_of, make_workflow, play, states

__all__ = ("handler",)
pytestmark = pytest.mark.django_db(transaction=True)
EDGES = (("list", "each"), ("each", "all"))


def mapped(items: object, *edges: Any, max_parallel: int = 1000, **options: Any) -> WorkflowRun:
    """A run whose list has ended."""
    over = {"over": {"$from": "list.result"}, "max_parallel": max_parallel}
    payloads = {
        "each": {"sleep_ms": {"$from": "map.item.ms"}, "fail": False},
        "all": {"sleep_ms": {"$from": "each.result.0"}},
    }
    options = {"payloads": payloads, **options}
    tenant = factories.make_tenant(max_in_flight=100_000)
    run = begin(make_workflow(tenant, *(edges or EDGES), maps={"each": over}, **options))
    finish(claim_due(), lambda _: "succeeded", result=items)
    return run


def items(run: WorkflowRun) -> list[str]:
    found = TaskRun.objects.filter(run=run, item__isnull=False).order_by("item")
    return [
        f"{one.state} {one.reason}" if one.state in ("skipped", "cancelled") else one.state for one in found
    ]


def finish_items(rows: list[Any], dead: set[int] | None = None) -> None:
    """Finish each with its place as the result: in the order of the rows, or by place if some are ``dead``."""
    placed = [(TaskRun.objects.get(id=row.id).item, row) for row in rows]
    for item, row in sorted(placed, key=lambda one: one[0]) if dead else placed:
        finish([row], lambda _, item=item: "dead" if item in (dead or ()) else "succeeded", result=item)


class TestItems:
    def test_have_a_trigger_each_with_their_item_and_the_results_are_listed_in_order(self) -> None:
        run = mapped([{"ms": ms} for ms in (30, 10, 20)])
        rows = claim_due()
        assert sorted(row.payload["sleep_ms"] for row in rows) == [10, 20, 30]
        assert states(run)["all"] == "waiting"
        finish_items(random.sample(rows, 3))
        [last] = claim_due()
        assert (key_of(last.id), last.payload) == ("all", {"sleep_ms": 0})
        finish([last], lambda _: "succeeded")
        run.refresh_from_db()
        assert run.state == "succeeded"

    def test_are_started_so_many_at_once(self) -> None:
        run = mapped([{"ms": 0}] * 7, max_parallel=3)
        assert [len(step) for step in play(run)] == [3, 3, 1, 1]

    def test_count_for_max_parallel_of_the_run(self) -> None:
        run = mapped([{"ms": 0}] * 5, max_parallel=4, name="w")
        assert [len(step) for step in play(run)] == [4, 1, 1]
        tight = begin(
            make_workflow(
                factories.make_tenant(),
                ("list", "each"),
                maps={"each": {"over": {"$from": "workflow.input"}}},
                payloads={"each": {"sleep_ms": {"$from": "map.index"}}},
                max_parallel=2,
            ),
            run_input=[1, 2, 3],
        )
        assert [len(step) for step in play(tight)] == [1, 2, 1]

    def test_of_an_empty_list_are_none_and_the_map_succeeds(self) -> None:
        run = mapped([], payloads={"all": {}})
        assert play(run) == [["all"]]
        assert run.state == "succeeded"

    @pytest.mark.parametrize(
        ("list_", "reason"), [({"a": 1}, "no_list"), (None, "no_list"), ([1] * 10_001, "too_long")]
    )
    def test_of_what_is_no_list_or_too_long_fail_the_map(self, list_: object, reason: str) -> None:
        run = mapped(list_, *EDGES, ("each", "alert", "on_failure"))
        assert play(run) == [["alert"]]
        assert states(run)["each"] == "failed"
        assert TaskRun.objects.get(run=run, state="failed").reason == reason

    def test_may_be_null(self) -> None:
        run = mapped([None, 1], payloads={"each": {"sleep_ms": {"$from": "map.index"}}})
        assert sorted(row.payload["sleep_ms"] for row in claim_due()) == [0, 1]
        assert items(run) == ["started", "started"]

    def test_of_two_runs_do_not_meet(self) -> None:
        workflow = make_workflow(
            factories.make_tenant(max_in_flight=1000),
            tasks=["each"],
            maps={"each": {"over": {"$from": "workflow.input"}}},
        )
        both = [begin(workflow, run_input=list(range(100))) for _ in range(3)]
        play(both[0])
        for run in both:
            run.refresh_from_db()
            assert run.state == "succeeded"
        assert Attempt.objects.count() == 300
        assert Trigger.objects.values("idempotency_key").distinct().count() == 300


class TestFailures:
    EDGES = (("list", "each"), ("each", "all"), ("each", "alert", "on_failure"))

    def test_fail_the_map_once_all_items_have_ended(self) -> None:
        run = mapped([{"ms": 0}] * 3, *self.EDGES, on_failure="continue")
        rows = claim_due()
        finish_items(rows, dead={1})
        assert (states(run)["each"], items(run)) == ("failed", ["succeeded", "failed", "succeeded"])
        assert play(run) == [["alert"]]
        assert run.state == "failed"

    def test_let_no_more_items_start_where_the_workflow_halts(self) -> None:
        run = mapped([{"ms": 0}] * 5, *self.EDGES, max_parallel=2)
        finish_items(claim_due(), dead={0})
        assert items(run) == ["failed", "succeeded", *["skipped halted"] * 3]
        assert play(run) == [["alert"]]
        assert states(run)["each"] == "failed"

    def test_leave_null_in_the_list_for_whom_any_end_will_do(self) -> None:
        edges = (("list", "each"), ("each", "all", "on_finished"))
        payloads = {"all": {"fail": {"$from": "each.result.1"}, "sleep_ms": {"$from": "each.result.2"}}}
        run = mapped([0, 1, 2], *edges, on_failure="continue", payloads=payloads)
        finish_items(claim_due(), dead={1})
        [row] = claim_due()
        assert row.payload == {"fail": None, "sleep_ms": 2}
        assert states(run)["all"] == "started"

    def test_are_retried_and_what_succeeded_is_kept(self) -> None:
        run = mapped([{"ms": 0}] * 4, *self.EDGES, on_failure="continue")
        finish_items(claim_due(), dead={1, 3})
        play(run)
        runs.retry_run(tenant=run.tenant, run_id=run.id)
        assert states(run)["each"] == "started"
        assert items(run) == ["succeeded", "started", "succeeded", "started"]
        rows = claim_due()
        finish_items(rows)
        assert play(run) == [["all"]]
        assert (run.state, len(rows)) == ("succeeded", 2)

    def test_all_items_begin_again_where_the_map_is_named_or_its_list_may_be_another(self) -> None:
        run = mapped([{"ms": 0}] * 3, *self.EDGES)
        finish_items(claim_due())
        play(run)
        runs.retry_run(tenant=run.tenant, run_id=run.id, tasks=["each"])
        finish_items(claim_due())
        play(run)
        runs.retry_run(tenant=run.tenant, run_id=run.id, tasks=["list"])
        finish(claim_due(), lambda _: "succeeded", result=[{"ms": 1}] * 2)
        rows = claim_due()
        assert [row.payload["sleep_ms"] for row in rows] == [1, 1]
        finish_items(rows)
        assert play(run) == [["all"]]
        assert run.state == "succeeded"
        assert items(run) == ["succeeded"] * 3  # the third is of the earlier list


class TestSteering:
    def test_a_cancel_ends_what_waits_and_asks_what_runs(self) -> None:
        run = mapped([{"ms": 0}] * 5, max_parallel=2)
        rows = claim_due()
        runs.cancel_run(tenant=run.tenant, run_id=run.id)
        assert items(run) == ["started", "started", *["cancelled requested"] * 3]
        finish(rows, lambda _: "cancelled")
        run.refresh_from_db()
        assert (run.state, states(run)["each"]) == ("cancelled", "cancelled")

    def test_a_pause_holds_items(self) -> None:
        run = mapped([{"ms": 0}] * 4, max_parallel=2)
        rows = claim_due()
        runs.pause_run(tenant=run.tenant, run_id=run.id)
        finish_items(rows)
        assert (claim_due(), items(run)) == ([], ["succeeded", "succeeded", "ready", "ready"])
        runs.resume_run(tenant=run.tenant, run_id=run.id)
        assert len(claim_due()) == 2

    def test_a_map_that_was_paused_before_it_began_goes_on(self) -> None:
        run = begin(
            make_workflow(
                factories.make_tenant(), *EDGES, maps={"each": {"over": {"$from": "workflow.input"}}}
            ),
            run_input=[1, 2],
        )
        rows = claim_due()
        runs.pause_run(tenant=run.tenant, run_id=run.id)
        finish(rows, lambda _: "succeeded")
        assert states(run)["each"] == "ready"
        runs.resume_run(tenant=run.tenant, run_id=run.id)
        assert play(run) == [["each", "each"], ["all"]]


@pytest.mark.parametrize("seed", range(4))
def test_items_that_end_at_the_same_time_start_each_once_and_end_the_map_once(seed: int) -> None:
    rng = random.Random(seed)
    numbers = [rng.randint(1, 60) for _ in range(3)]
    tenant = factories.make_tenant(max_in_flight=1000)
    workflow = make_workflow(
        tenant,
        ("each", "all", "on_finished"),
        maps={"each": {"over": {"$from": "workflow.input"}, "max_parallel": rng.randint(1, 20)}},
        on_failure="continue",
        max_parallel=rng.choice([None, 15]),
    )
    begun = [begin(workflow, run_input=list(range(number))) for number in numbers]
    while rows := claim_due():
        rng.shuffle(rows)
        ends = {row.id: rng.choice(["succeeded", "succeeded", "dead"]) for row in rows}
        hands = [hand for hand in (rows[nth::4] for nth in range(4)) if hand]
        at_once(*(partial(finish, hand, lambda row, ends=ends: ends[row.id]) for hand in hands))
    for run, number in zip(begun, numbers, strict=True):
        run.refresh_from_db()
        attempts = Attempt.objects.filter(trigger__workflow_run_id=run.id)
        assert attempts.count() == attempts.values("trigger_id").distinct().count() == number + 1
        assert run.state in ("succeeded", "failed")
        assert (states(run)["each"] == "failed") is ("failed" in items(run))


class TestSkip:
    def test_goes_on_as_if_the_task_had_succeeded(self) -> None:
        run = begin(make_workflow(factories.make_tenant(), ("a", "b"), ("b", "c"), ("b", "x", "on_failure")))
        play(run, {"b": "dead"})
        runs.retry_run(tenant=run.tenant, run_id=run.id, skip=["b"])
        assert states(run) == {
            "a": "succeeded",
            "b": "skipped requested",
            "c": "started",
            "x": "skipped upstream",
        }
        assert play(run) == [["c"]]
        assert run.state == "succeeded"

    def test_of_a_map_keeps_the_results_there_are(self) -> None:
        run = mapped([0, 1], *EDGES, payloads={"all": {"sleep_ms": {"$from": "each.result.0"}}})
        finish_items(claim_due(), dead={1})
        play(run)
        runs.retry_run(tenant=run.tenant, run_id=run.id, skip=["each"])
        [row] = claim_due()
        assert row.payload == {"sleep_ms": 0}

    def test_of_a_task_that_did_not_fail_is_refused_and_nothing_changes(self) -> None:
        run = begin(make_workflow(factories.make_tenant(), ("a", "b")))
        play(run, {"b": "dead"})
        path = f"/workflow-runs/{run.id}/retry"
        caller = Caller(run.tenant)
        assert caller.post(path, {"skip": ["a"]}).status_code == 409
        assert faulty_fields(caller.post(path, {"skip": ["none"], "tasks": ["no"]})) == {
            "skip[0]",
            "tasks[0]",
        }
        assert faulty_fields(caller.post(path, {"skip": ["b"], "tasks": ["b"]})) == {"skip[0]"}
        run.refresh_from_db()
        assert (run.state, states(run)) == ("failed", {"a": "succeeded", "b": "failed"})


class TestApi:
    def test_lists_items_in_order(self) -> None:
        run = mapped([{"ms": 0}] * 3, max_parallel=1)
        caller = Caller(run.tenant)
        path = f"/workflow-runs/{run.id}"
        [_, each, _] = caller.get(path).json()["tasks"]
        assert (each["task"], each["state"], each["item_count"], each["items_left"]) == (
            "each",
            "started",
            3,
            3,
        )
        page = caller.get(f"{path}/tasks/each/items?page_size=2").json()
        assert [one["item"] for one in page["results"]] == [0, 1]
        assert [one["trigger_id"] is None for one in page["results"]] == [False, True]
        assert [one["item"] for one in caller.get(page["next"]).json()["results"]] == [2]
        assert caller.get(f"{path}/tasks/none/items").status_code == 404

    @pytest.mark.parametrize(
        ("task", "field"),
        [
            ({"map": {}}, "map.over"),
            ({"map": {"over": [1, 2]}}, "map.over"),
            ({"map": {"over": {"$from": "none.result"}}}, "map.over"),
            ({"map": {"over": {"$from": "map.item"}}}, "map.over"),
            ({"map": {"over": {"$from": "workflow.input"}, "max_parallel": 0}}, "map.max_parallel"),
            ({"payload": {"sleep_ms": {"$from": "map.index"}}}, "payload.sleep_ms"),
        ],
    )
    def test_refuses_a_map_by_its_field(self, task: dict[str, Any], field: str) -> None:
        document = {"name": "etl", "tasks": {"t": {"job_type": "noop", **task}}}
        answer = Caller(factories.make_tenant()).post("/workflows", document)
        assert answer.status_code == 400, answer.content
        assert faulty_fields(answer) == {f"tasks.t.{field}"}


def test_ten_thousand_items_are_complete() -> None:
    tenant = factories.make_tenant(max_in_flight=100_000, max_payload_bytes=1_000_000)
    workflow = make_workflow(tenant, ("each", "all"), maps={"each": {"over": {"$from": "workflow.input"}}})
    run = begin(workflow, run_input=list(range(10_000)))
    assert [len(step) for step in _steps(run)] == [*[1000] * 10, 1]
    run.refresh_from_db()
    assert run.state == "succeeded"
    assert workflows.task_runs(run.id)[0].item_count == 10_000


def _steps(run: WorkflowRun) -> list[list[Any]]:
    steps = []
    while rows := claim_due():
        steps.append(rows)
        finish(rows, lambda _: "succeeded", result=1)
    return steps
