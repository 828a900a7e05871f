"""Workflows carried out by real beats and workers, and the time that a step of a chain takes."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from stage.waiting import wait_until
from tests.cluster import runs
from tests.cluster.receiver import Receiver
from tests.cluster.stage import Stage

pytestmark = pytest.mark.cluster
#: As in test_wake_ups.py: a beat that is not woken polls after as long.
SLEEP_SECONDS = 10
EXTRACTS = ("extract_1", "extract_2", "extract_3")
ONCE = {"retry_policy": {"max_attempts": 1}}
WORKS = {"job_type": "test.works"}


@pytest.fixture(scope="module")
def stage() -> Iterator[Any]:
    with Stage(
        beats=1,
        workers=1,
        CARILLON_MAX_SLEEP_MS=str(SLEEP_SECONDS * 1000),
        CARILLON_LEADER_LEASE_SECONDS="40",
        CARILLON_HANDLER_MODULES="tests.cluster.handlers",
    ) as stage:
        stage.key = stage.create_tenant()
        yield stage


def etl(name: str, **types: str) -> dict[str, Any]:
    """Three extracts, then transform, load and report; and an alert if load fails. ``types``: other job types."""
    kinds = dict.fromkeys((*EXTRACTS, "transform", "load", "report", "alert"), "test.works") | types
    payloads = {"transform": {"attempt": {"$from": "extract_2.result.attempt"}}}
    return {
        "name": name,
        "tasks": {
            key: {"job_type": kind, "payload": payloads.get(key, {}), **ONCE} for key, kind in kinds.items()
        },
        "edges": [
            *({"before": extract, "after": "transform"} for extract in EXTRACTS),
            {"before": "transform", "after": "load"},
            {"before": "load", "after": "report"},
            {"before": "load", "after": "alert", "on": "on_failure"},
        ],
    }


def ended(stage: Any, run_id: str) -> tuple[str, dict[str, str]]:
    """The state in which a run ended, and those of its tasks."""
    found = runs.ended(stage, run_id, key=stage.key)
    return found["state"], {task["task"]: task["state"] for task in found["tasks"]}


def attempts(stage: Any, run_id: str) -> int:
    [(count,)] = stage.query(
        "SELECT count(*) FROM jobs_attempt a JOIN jobs_trigger t ON t.id = a.trigger_id"
        f" WHERE t.workflow_run_id = '{run_id}'"
    )
    return int(count)


class TestARun:
    def test_that_goes_well_carries_out_each_task_once_and_no_alert(self, stage: Any) -> None:
        run_id = runs.run(stage, etl("well"), key=stage.key)
        state, found = ended(stage, run_id)
        assert state == "succeeded"
        assert found.pop("alert") == "skipped"
        assert set(found.values()) == {"succeeded"}
        assert attempts(stage, run_id) == 6

    def test_that_fails_alerts_and_can_be_retried(self, stage: Any) -> None:
        run_id = runs.run(stage, etl("ill", load="test.raises"), key=stage.key)
        state, found = ended(stage, run_id)
        assert state == "failed"
        assert (found["load"], found["report"], found["alert"]) == ("failed", "skipped", "succeeded")
        assert runs.act(stage, run_id, "retry", key=stage.key)["state"] == "running"
        assert ended(stage, run_id)[0] == "failed"
        # Extracts and transform once; load and its alert twice.
        assert attempts(stage, run_id) == 8

    def test_that_fails_is_told_of_once(self, stage: Any, receiver: Receiver) -> None:
        notify = {"notify": {"on": ["failed"], "url": receiver.url}}
        run_id = runs.run(stage, etl("telling", load="test.raises") | notify, key=stage.key)
        assert ended(stage, run_id)[0] == "failed"
        wait_until(lambda: receiver.deliveries, 60, what="a notice")
        [(told, state)] = stage.query(
            "SELECT payload #>> '{body,data,workflow_run_id}', state FROM jobs_trigger"
            " WHERE job_type = 'carillon.notice'"
        )
        assert (told, state in ("running", "succeeded")) == (run_id, True)
        assert len(receiver.deliveries) == 1

    def test_that_is_cancelled_stops_what_runs_and_starts_nothing_more(self, stage: Any) -> None:
        run_id = runs.run(stage, etl("cancelled", transform="test.yields"), key=stage.key)
        wait_until(
            lambda: stage.query(
                f"SELECT 1 FROM jobs_trigger WHERE workflow_run_id = '{run_id}' AND state = 'running'"
                " AND started_at IS NOT NULL AND job_type = 'test.yields'"
            ),
            timeout=60,
            what="transform to run",
        )
        assert runs.act(stage, run_id, "cancel", key=stage.key)["cancel_requested"]
        state, found = ended(stage, run_id)
        assert state == "cancelled"
        assert {found[key] for key in EXTRACTS} == {"succeeded"}
        assert {found[key] for key in ("transform", "load", "report", "alert")} == {"cancelled"}
        assert attempts(stage, run_id) == 4


class TestAChain:
    def test_takes_no_step_by_a_beat_that_looks_by_itself(self, stage: Any) -> None:
        """Ten steps by polling alone would take a hundred seconds."""
        keys = [f"t{number}" for number in range(10)]
        chain = {
            "name": "chain",
            "tasks": {key: {"job_type": "noop"} for key in keys},
            "edges": [{"before": one, "after": other} for one, other in pairwise(keys)],
        }
        run_id = runs.run(stage, chain, key=stage.key)
        assert ended(stage, run_id)[0] == "succeeded"
        [(seconds,)] = stage.query(
            f"SELECT extract(epoch FROM finished_at - created_at)::float FROM jobs_workflowrun WHERE id = '{run_id}'"
        )
        assert seconds < 2 * SLEEP_SECONDS


class TestEachKindOfGraph:
    """By the API, with real workers: the graphs that the tests of `tests/workflows` play by hand."""

    def _workflow(self, name: str, tasks: dict[str, Any], *edges: tuple[str, ...]) -> dict[str, Any]:
        return {
            "name": name,
            "tasks": tasks,
            "edges": [dict(zip(("before", "after", "on"), edge, strict=False)) for edge in edges],
        }

    def _run(self, stage: Any, name: str, tasks: dict[str, Any], *edges: tuple[str, ...]) -> str:
        return runs.run(stage, self._workflow(name, tasks, *edges), key=stage.key)

    def _task(self, stage: Any, run_id: str, key: str) -> dict[str, Any]:
        found = stage.call("GET", f"/workflow-runs/{run_id}", key=stage.key)
        [task] = [task for task in found["tasks"] if task["task"] == key]
        return dict(task)

    def _started(self, stage: Any, run_id: str, key: str) -> None:
        wait_until(
            lambda: self._task(stage, run_id, key)["state"] == "started", timeout=60, what=f"{key} to start"
        )

    def test_a_diamond(self, stage: Any) -> None:
        tasks = dict.fromkeys("abcd", WORKS)
        run_id = self._run(stage, "diamond", tasks, ("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"))
        assert ended(stage, run_id) == ("succeeded", dict.fromkeys("abcd", "succeeded"))
        assert attempts(stage, run_id) == 4

    def test_conditions(self, stage: Any) -> None:
        tasks = {
            "a": {"job_type": "test.raises", **ONCE},
            "b": WORKS,
            "c": WORKS,
            "d": WORKS | {"when": "any_success"},
        }
        edges = (("a", "b"), ("a", "c", "on_failure"), ("b", "d"), ("c", "d"))
        state, found = ended(stage, self._run(stage, "conditional", tasks, *edges))
        assert state == "failed"
        assert found == {"a": "failed", "b": "skipped", "c": "succeeded", "d": "succeeded"}

    def test_a_map_and_its_results(self, stage: Any) -> None:
        tasks = {
            "list": {"job_type": "test.echoes", "payload": {"items": [1, 2, 3]}},
            "each": {
                "job_type": "test.echoes",
                "map": {"over": {"$from": "list.result.items"}},
                "payload": {"item": {"$from": "map.item"}},
            },
            "all": {"job_type": "test.echoes", "payload": {"found": {"$from": "each.result"}}},
        }
        run_id = self._run(stage, "map", tasks, ("list", "each"), ("each", "all"))
        assert ended(stage, run_id)[0] == "succeeded"
        trigger = self._task(stage, run_id, "all")["trigger_id"]
        result = stage.call("GET", f"/triggers/{trigger}", key=stage.key)["result"]
        assert result == {"found": [{"item": number} for number in (1, 2, 3)]}

    def test_a_workflow_within_a_workflow(self, stage: Any) -> None:
        echo = {"job_type": "test.echoes", "payload": {"day": {"$from": "workflow.input.day"}}}
        runs.create(stage, self._workflow("inner", {"x": echo, "y": WORKS}, ("x", "y")), key=stage.key)
        tasks = {
            "a": {"job_type": "test.echoes", "payload": {"day": "Monday"}},
            "inner": {"workflow": {"name": "inner", "input": {"day": {"$from": "a.result.day"}}}},
            "b": {"job_type": "test.echoes", "payload": {"day": {"$from": "inner.result.x.day"}}},
        }
        run_id = self._run(stage, "outer", tasks, ("a", "inner"), ("inner", "b"))
        assert ended(stage, run_id) == ("succeeded", dict.fromkeys(tasks, "succeeded"))
        inner = stage.call(
            "GET", f"/workflow-runs/{self._task(stage, run_id, 'inner')['inner_run_id']}", key=stage.key
        )
        assert (inner["state"], inner["outer_run_id"]) == ("succeeded", run_id)
        trigger = self._task(stage, run_id, "b")["trigger_id"]
        assert stage.call("GET", f"/triggers/{trigger}", key=stage.key)["result"] == {"day": "Monday"}

    def test_a_cancel_reaches_the_workflow_within(self, stage: Any) -> None:
        runs.create(stage, self._workflow("slow", {"x": {"job_type": "test.yields"}}), key=stage.key)
        run_id = self._run(stage, "cancelled outer", {"inner": {"workflow": {"name": "slow"}}})
        inner_id = wait_until(
            lambda: self._task(stage, run_id, "inner")["inner_run_id"], timeout=60, what="the inner run"
        )
        self._started(stage, inner_id, "x")
        runs.act(stage, run_id, "cancel", key=stage.key)
        assert ended(stage, run_id) == ("cancelled", {"inner": "cancelled"})
        assert ended(stage, inner_id) == ("cancelled", {"x": "cancelled"})

    def test_a_signal_and_an_approval(self, stage: Any) -> None:
        tasks = {
            "paid": {"wait": {"type": "signal"}},
            "release": {"wait": {"type": "approval", "message": "Release it?"}},
            "b": {"job_type": "test.echoes", "payload": {"sum": {"$from": "paid.result.sum"}}},
        }
        run_id = self._run(stage, "waits", tasks, ("paid", "release"), ("release", "b"))
        self._started(stage, run_id, "paid")
        body = {"payload": {"sum": 5}}
        stage.call("POST", f"/workflow-runs/{run_id}/signals/paid", key=stage.key, body=body)
        self._started(stage, run_id, "release")
        stage.call("POST", f"/workflow-runs/{run_id}/tasks/release/approve", key=stage.key, body={})
        assert ended(stage, run_id) == ("succeeded", dict.fromkeys(tasks, "succeeded"))
        trigger = self._task(stage, run_id, "b")["trigger_id"]
        assert stage.call("GET", f"/triggers/{trigger}", key=stage.key)["result"] == {"sum": 5}

    def test_a_new_version_during_a_run(self, stage: Any) -> None:
        definition = self._workflow(
            "versions", {"go": {"wait": {"type": "signal"}}, "old": WORKS}, ("go", "old")
        )
        workflow_id = runs.create(stage, definition, key=stage.key)
        first = runs.begin(stage, workflow_id, key=stage.key)
        self._started(stage, first, "go")
        edited = self._workflow("versions", {"new": WORKS})
        assert stage.call("PUT", f"/workflows/{workflow_id}", key=stage.key, body=edited)["version"] == 2
        assert ended(stage, runs.begin(stage, workflow_id, key=stage.key)) == (
            "succeeded",
            {"new": "succeeded"},
        )
        stage.call("POST", f"/workflow-runs/{first}/signals/go", key=stage.key, body={})
        assert ended(stage, first) == ("succeeded", {"go": "succeeded", "old": "succeeded"})
