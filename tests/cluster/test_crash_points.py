"""Crash points: a beat or a worker dies at each named point, and no row is lost or doubled (DESIGN §2)."""

import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from jobs.core.workflows.states import RUN_TYPE
from jobs.crash_points import POINTS, RUN_POINTS, crash_point
from stage.processes import run_python
from stage.waiting import wait_until
from tests.cluster import etl, ledger, runs
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


#: The points that a task meets, in groups that are armed at once, to be done sooner. Only one of each group costs the
#: trigger an attempt (`LOSING`); otherwise a trigger that meets all of them could be buried as poison.
GROUPS = {
    "before commits": ("dispatch.before_commit", "claim.before_commit", "finish.before_commit"),
    "after commits": ("dispatch.after_commit", "claim.after_commit", "finish.after_commit"),
    "after publishing": ("dispatch.after_publish", "begin_run.after_commit", "finish.after_publish"),
}
LOSING = {"finish.before_commit", "claim.after_commit", "begin_run.after_commit"}
_RETRY = {"max_attempts": 50, "backoff": "fixed", "initial_delay_seconds": 0.1, "jitter": "none"}
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
    """Arm the point, wait until a process has died there, and until firings end again."""
    (armed / point).touch()
    wait_until(lambda: not (armed / point).exists(), timeout=30, what=f"somebody to reach {point}")
    [(died_at,)] = stage.query("SELECT clock_timestamp()")
    wait_until(
        lambda: stage.query(f"SELECT 1 FROM jobs_trigger WHERE finished_at > '{died_at}' LIMIT 1"),
        timeout=30,
        what=f"firings to end after a death at {point}",
    )


def types_at(point: str) -> set[str]:
    """The job types of the tasks that pass the point."""
    if point in RUN_POINTS:
        return {RUN_TYPE}
    types = {etl.type_of(task) for task in (*etl.TASKS, etl.ROWS)}
    # Attempts that failed and are retried pass it; those that begin inner runs do not fail here.
    return types - {RUN_TYPE} if point == "finish.after_publish" else types


def die_for_each_task(
    stage: Stage, points: tuple[str, ...], armed: Path, *, workflow_id: str, key: str
) -> None:
    """Arm the points for each task, begin one run of each kind a point, and wait until all have ended."""
    for file in [f"{point}@{job_type}" for point in points for job_type in types_at(point)]:
        (armed / file).touch()
    # Only an attempt that fails and is retried has a message published as it ends.
    fail_first = etl.HANDLED if "finish.after_publish" in points else ["extract_2"]
    begun = [
        (ends, runs.begin(stage, workflow_id, key=key, run_input={"fails": fails, "fail_first": fail_first}))
        for fails, ends in etl.ENDS.items()
        for _ in points
    ]
    for ends, run_id in begun:
        found = runs.ended(stage, run_id, key=key, within=180)
        states = {task["task"]: task["state"] for task in found["tasks"]}
        assert (found["state"], states) == (ends.run, {task: ends.tasks[task] for task in etl.TASKS})
    # The process that finishes the last task dies when the end of its run can be seen already.
    wait_until(lambda: not [*armed.iterdir()], timeout=30, what=f"somebody to die at each of {points}")


def judge_runs(stage: Stage, *, begun: int, lost: Counter[str]) -> str:
    """``begun`` runs of each kind: each task was carried out once for each outcome of the tasks before it.

    ``lost``: by job type, attempts whose process died at a point. Returns the figures.
    """
    tasks, triggers = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for ends in etl.ENDS.values():
        tasks.update(ends.tasks.items())
        triggers.update(etl.ends_of_triggers(ends))
    found = stage.query(
        "SELECT task.key, one.state, count(*) FROM jobs_taskrun one JOIN jobs_workflowrun run ON run.id = one.run_id"
        " JOIN jobs_workflowtask task ON task.version_id = run.version_id AND task.number = one.task GROUP BY 1, 2"
    )
    assert {(task, state): count for task, state, count in found} == {
        ends: count * begun for ends, count in tasks.items()
    }
    found = stage.query("SELECT job_type, state, count(*) FROM jobs_trigger GROUP BY 1, 2")
    assert {(job_type, state): count for job_type, state, count in found} == {
        ends: count * begun for ends, count in triggers.items()
    }
    # Each trigger that began an inner run began one.
    assert stage.query(
        "SELECT depth, state, count(*), count(DISTINCT trigger_id) FROM jobs_workflowrun GROUP BY 1, 2 ORDER BY 1, 2"
    ) == [
        (0, "failed", 2 * begun, 0),
        (0, "succeeded", begun, 0),
        (1, "failed", begun, begun),
        (1, "succeeded", begun, begun),
    ]
    # No task was started again after its end, and none succeeded twice.
    assert stage.query("SELECT max(replay_count) FROM jobs_trigger") == [(0,)]
    twice = "SELECT 1 FROM jobs_attempt WHERE state = 'succeeded' GROUP BY trigger_id HAVING count(*) > 1"
    assert not stage.query(twice)
    found = stage.query(
        "SELECT job_type, count(*) FROM jobs_attempt a JOIN jobs_trigger t ON t.id = a.trigger_id"
        " WHERE a.state = 'lost' GROUP BY 1"
    )
    assert lost <= Counter(dict(found))
    handled = stage.query(f"SELECT id::text FROM jobs_trigger WHERE job_type <> '{RUN_TYPE}'")
    return ledger.judge_effects(stage, {trigger_id for (trigger_id,) in handled})


class TestCrashPoints:
    def test_lose_and_double_nothing_wherever_a_process_dies(self, tmp_path: Path) -> None:
        with Stage(beats=2, workers=2, CARILLON_CRASH_POINTS=str(tmp_path), **ENVIRONMENT) as stage:
            stage.execute(ledger.TABLES)
            periods = ledger.create_jobs(stage, ledger.create_tenant(stage))
            for point in POINTS * ROUNDS:
                die_at(stage, point, tmp_path)
            print(f"{ledger.judge(stage, periods)}, {len(POINTS) * ROUNDS} deaths")
            print(stage.manage("audit_firings"))

    # Each has a stage of its own: the more often a beat died, the longer `up` waits before it starts that beat again.
    @pytest.mark.parametrize("points", [*GROUPS.values()] * ROUNDS, ids=[*GROUPS] * ROUNDS)
    def test_start_each_task_of_a_workflow_once_an_outcome(
        self, points: tuple[str, ...], tmp_path: Path
    ) -> None:
        """A process dies at each point of each task. A third of the runs succeed; the alert tells of the others."""
        environment = ENVIRONMENT | {"CARILLON_HANDLER_MODULES": "tests.cluster.etl_tasks"}
        with Stage(beats=2, workers=2, CARILLON_CRASH_POINTS=str(tmp_path), **environment) as stage:
            stage.execute(ledger.TABLES)
            key = stage.create_tenant()
            runs.create(stage, etl.INNER, key=key)
            workflow_id = runs.create(stage, etl.WORKFLOW, key=key)
            die_for_each_task(stage, points, tmp_path, workflow_id=workflow_id, key=key)
            lost = Counter(job_type for point in LOSING & {*points} for job_type in types_at(point))
            figures = judge_runs(stage, begun=len(points), lost=lost)
            print(f"{figures}, {sum(len(types_at(point)) for point in points)} deaths")

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
        assert all(source.count(f'crash_point("{point}"') == 1 for point in points)
        assert source.count('crash_point("') == len(points)
        assert {point for group in GROUPS.values() for point in group} == {
            point for point in points if not point.startswith("materialize")
        }
        for point in points:
            crash_point(point, ["etl.report"])

    def test_may_be_armed_for_a_job_type(self, tmp_path: Path) -> None:
        armed = {"claim.before_commit": "b", "finish.before_commit": "abc"}
        for file in [f"{point}@{job_type}" for point, job_types in armed.items() for job_type in job_types]:
            (tmp_path / file).touch()
        program = (
            "from jobs.crash_points import crash_point\n"
            "crash_point('claim.before_commit', ['a'])\n"
            "print('went on', flush=True)\n"
            "crash_point('finish.before_commit', ['a', 'b', 'b'])\n"
            "print('and on')\n"
        )
        done = run_python(["-c", program], environment={**os.environ, "CARILLON_CRASH_POINTS": str(tmp_path)})
        assert (done.returncode, done.stdout) == (-signal.SIGKILL, "went on\n")
        assert {file.name for file in tmp_path.iterdir()} == {
            "claim.before_commit@b",
            "finish.before_commit@c",
        }
