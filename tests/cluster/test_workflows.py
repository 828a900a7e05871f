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
#: As in test_wake_ups.py: a beat that is not woken would look by itself after as long.
SLEEP_SECONDS = 10
EXTRACTS = ("extract_1", "extract_2", "extract_3")


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
    once = {"retry_policy": {"max_attempts": 1}}
    return {
        "name": name,
        "tasks": {
            key: {"job_type": kind, "payload": payloads.get(key, {}), **once} for key, kind in kinds.items()
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
        """Ten steps by looking alone would take a hundred seconds."""
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
