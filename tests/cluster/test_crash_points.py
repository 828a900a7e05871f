"""Killed just here: a beat or a worker dies at each named point, and no row is lost or doubled (DESIGN §2)."""

import os
from pathlib import Path

import pytest

from jobs.crash_points import POINTS, RUN_POINTS, crash_point
from stage.waiting import wait_until
from tests.cluster import ledger, runs
from tests.cluster.stage import Stage

pytestmark = pytest.mark.cluster
#: How often each point is hit.
ROUNDS = int(os.environ.get("CRASH_ROUNDS") or 1)
ENVIRONMENT = {
    "CARILLON_HANDLER_MODULES": "tests.cluster.recording",
    "CARILLON_LEADER_LEASE_SECONDS": "2",
    "CARILLON_WORKER_LEASE_SECONDS": "3",
    "CARILLON_DISPATCH_DEADLINE_SECONDS": "3",
}


_RETRY = {"max_attempts": 50, "backoff": "fixed", "initial_delay_seconds": 0.1, "jitter": "none"}
#: A run within a run.
INNER = {"name": "inner", "tasks": {"load": {"job_type": "recording", "retry_policy": _RETRY}}}
#: Two extracts, one of which fails first, and what follows from both: the inner run, then a report.
WORKFLOW = {
    "name": "etl",
    "tasks": {
        key: {"job_type": "recording", "retry_policy": _RETRY, "payload": {"fails_first": key == "b"}}
        for key in ("a", "b", "join", "report")
    }
    | {"inner": {"workflow": {"name": "inner"}}},
    "edges": [
        {"before": "a", "after": "join"},
        {"before": "b", "after": "join"},
        {"before": "join", "after": "inner"},
        {"before": "inner", "after": "report"},
    ],
}


#: A run each second, beside those before it, however late.
EACH_SECOND = {
    "name": "each second",
    "tasks": {"load": {"job_type": "recording", "retry_policy": _RETRY, "payload": {"fails_first": True}}},
    "schedule": {"type": "interval", "every_seconds": 1},
    "overlap_policy": "allow",
    "max_concurrent": 1000,
    "misfire_policy": "fire_all",
}


def die_at(stage: Stage, point: str, armed: Path) -> None:
    """Arm the point, wait until somebody has died there, and until firings end again."""
    (armed / point).touch()
    wait_until(lambda: not (armed / point).exists(), timeout=30, what=f"somebody to reach {point}")
    [(died_at,)] = stage.query("SELECT clock_timestamp()")
    wait_until(
        lambda: stage.query(f"SELECT 1 FROM jobs_trigger WHERE finished_at > '{died_at}' LIMIT 1"),
        timeout=30,
        what=f"firings to end after a death at {point}",
    )


class TestCrashPoints:
    def test_lose_and_double_nothing_wherever_a_process_dies(self, tmp_path: Path) -> None:
        with Stage(beats=2, workers=2, CARILLON_CRASH_POINTS=str(tmp_path), **ENVIRONMENT) as stage:
            stage.execute(ledger.TABLES)
            periods = ledger.create_jobs(stage, ledger.create_tenant(stage))
            for point in POINTS * ROUNDS:
                die_at(stage, point, tmp_path)
            print(f"{ledger.judge(stage, periods)}, {len(POINTS) * ROUNDS} deaths")
            print(stage.manage("audit_firings"))

    def test_start_each_task_of_a_workflow_once_an_outcome(self, tmp_path: Path) -> None:
        """Whoever dies works for a task: there is nothing else. No schedule materializes anything."""
        points = [point for point in (*POINTS, *RUN_POINTS) if not point.startswith("materialize")]
        with Stage(beats=2, workers=2, CARILLON_CRASH_POINTS=str(tmp_path), **ENVIRONMENT) as stage:
            stage.execute(ledger.TABLES)
            key = stage.create_tenant()
            runs.create(stage, INNER, key=key)
            workflow_id = runs.create(stage, WORKFLOW, key=key)
            for point in points * ROUNDS:
                (tmp_path / point).touch()
                run_id = runs.begin(stage, workflow_id, key=key)
                assert runs.ended(stage, run_id, key=key)["state"] == "succeeded", point
                assert not (tmp_path / point).exists(), f"nobody reached {point}"
            begun = len(points) * ROUNDS
            expected = begun * (len(WORKFLOW["tasks"]) + len(INNER["tasks"]))
            for table in ("jobs_trigger", "jobs_taskrun"):
                assert stage.query(f"SELECT state, count(*) FROM {table} GROUP BY 1") == [
                    ("succeeded", expected)
                ]
            [made] = stage.query("SELECT count(*), count(DISTINCT trigger_id) FROM made")
            assert made == (expected - begun,) * 2
            assert stage.query("SELECT state, count(*) FROM jobs_workflowrun GROUP BY 1") == [
                ("succeeded", 2 * begun)
            ]
            assert not stage.query("SELECT 1 FROM started GROUP BY trigger_id, fence HAVING count(*) > 1")

    def test_begin_one_run_for_each_firing_of_a_workflows_schedule(self, tmp_path: Path) -> None:
        with Stage(beats=2, workers=2, CARILLON_CRASH_POINTS=str(tmp_path), **ENVIRONMENT) as stage:
            stage.execute(ledger.TABLES)
            key = stage.create_tenant()
            runs.create(stage, EACH_SECOND, key=key)
            for point in (*POINTS, *RUN_POINTS) * ROUNDS:
                die_at(stage, point, tmp_path)
            [(until,)] = stage.query("SELECT clock_timestamp()")
            due = f"job_type = 'carillon.workflow' AND scheduled_for <= '{until}'"
            wait_until(
                lambda: (
                    not stage.query(f"SELECT 1 FROM jobs_trigger WHERE {due} AND finished_at IS NULL LIMIT 1")
                ),
                timeout=60,
                what="all firings that are due to end",
            )
            [(state, firings, begun, agree)] = stage.query(
                "SELECT t.state, count(*), count(r.id), bool_and(t.result ->> 'workflow_run_id' = r.id::text)"
                " FROM jobs_trigger t LEFT JOIN jobs_workflowrun r ON r.trigger_id = t.id"
                f" WHERE t.{due.replace('AND ', 'AND t.')} GROUP BY 1"
            )
            assert (state, begun, agree) == ("succeeded", firings, True)
            assert "differences: none" in stage.manage("audit_firings")

    def test_are_all_there_is_and_do_nothing_unarmed(self) -> None:
        source = "".join(path.read_text() for path in Path("jobs").rglob("*.py"))
        points = (*POINTS, *RUN_POINTS)
        assert all(source.count(f'crash_point("{point}")') == 1 for point in points)
        assert source.count('crash_point("') == len(points)
        for point in points:
            crash_point(point)
