"""Killed just here: a beat or a worker dies at each named point, and no row is lost or doubled (DESIGN §2)."""

import json
import os
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from jobs.crash_points import POINTS, crash_point
from tests.cluster.stage import Stage, wait_until

pytestmark = pytest.mark.cluster
JOBS = 24
#: How often each point is hit.
ROUNDS = int(os.environ.get("CRASH_ROUNDS") or 1)
ENVIRONMENT = {
    "CARILLON_HANDLER_MODULES": "tests.cluster.recording",
    "CARILLON_LEADER_LEASE_SECONDS": "2",
    "CARILLON_WORKER_LEASE_SECONDS": "3",
    "CARILLON_DISPATCH_DEADLINE_SECONDS": "3",
}
#: What `tests.cluster.recording` writes to. Said here: importing that module would register its type in this process.
TABLES = (
    "CREATE TABLE started (trigger_id uuid, fence int) ;"
    "CREATE TABLE made (trigger_id uuid, attempt_number int)"
)
LEDGER = "SELECT job_id::text, scheduled_for, state, id::text, attempt_count FROM jobs_trigger"


def create_jobs(stage: Stage) -> dict[str, tuple[datetime, timedelta]]:
    """Jobs that fire every second or two; of each its first possible instant and its period, as was acknowledged."""
    key = json.loads(stage.manage("create_tenant", "acme", "--api-key", "test", "--json"))["api_key"]
    periods = {}
    for number in range(JOBS):
        every = 1 + number % 2
        body = {
            "name": f"job-{number}",
            "job_type": "recording",
            "schedule": {"type": "interval", "every_seconds": every},
            # Some fail first, so that there is a retry to wake a beat for.
            "payload": {"fails_first": number % 4 == 0},
            "retry_policy": {"backoff": "fixed", "initial_delay_seconds": 0.1, "jitter": "none"},
            "overlap_policy": "allow",
            "max_concurrent": 1000,
            "misfire_policy": "fire_all",
        }
        job = stage.call("POST", "/jobs", key=key, body=body)
        periods[job["id"]] = (datetime.fromisoformat(job["created_at"]), timedelta(seconds=every))
    return periods


def firings(periods: dict[str, tuple[datetime, timedelta]], until: datetime) -> set[tuple[str, datetime]]:
    """What the schedules name up to ``until``, by arithmetic alone."""
    return {
        (job_id, created_at + every * k)
        for job_id, (created_at, every) in periods.items()
        for k in range(1, int((until - created_at) / every) + 1)
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


def judge(stage: Stage, periods: dict[str, tuple[datetime, timedelta]]) -> None:
    [(horizon,)] = stage.query("SELECT clock_timestamp()")
    expected = firings(periods, horizon)

    def unfinished() -> set[tuple[str, datetime]]:
        return expected - {
            (job_id, at) for job_id, at, state, *_ in stage.query(LEDGER) if state == "succeeded"
        }

    wait_until(lambda: not unfinished(), timeout=60, what="every firing to succeed")
    rows = [row for row in stage.query(LEDGER) if row[1] <= horizon]
    assert sorted((job_id, at) for job_id, at, *_ in rows) == sorted(
        expected
    )  # none lost, doubled or made up
    ours = {trigger_id for _, _, _, trigger_id, _ in rows}

    started = [row for row in stage.query("SELECT trigger_id::text, fence FROM started") if row[0] in ours]
    assert len(set(started)) == len(started), "started twice under one fence"
    # Every start has its attempt, so what was started again was lost or failed before, and says so.
    attempts = set(stage.query("SELECT trigger_id::text, fence FROM jobs_attempt"))
    assert set(started) <= attempts

    made = [trigger_id for (trigger_id,) in stage.query("SELECT trigger_id::text FROM made")]
    assert len(set(made)) == len(made), "an effect was made twice"
    assert ours <= set(made)
    prevented = stage.query("SELECT sum(duplicates) FROM jobs_effect")[0][0]
    again = len(started) - len(ours)
    print(
        f"{len(rows)} firings, {len(POINTS) * ROUNDS} deaths, {again} started again, {prevented} effects prevented"
    )


class TestCrashPoints:
    def test_lose_and_double_nothing_wherever_a_process_dies(self, tmp_path: Path) -> None:
        with Stage(beats=2, workers=2, CARILLON_CRASH_POINTS=str(tmp_path), **ENVIRONMENT) as stage:
            stage.execute(TABLES)
            periods = create_jobs(stage)
            for point in POINTS * ROUNDS:
                die_at(stage, point, tmp_path)
            judge(stage, periods)
            print(stage.manage("audit_firings"))

    def test_are_all_there_is_and_do_nothing_unarmed(self) -> None:
        source = "".join(path.read_text() for path in Path("jobs").rglob("*.py"))
        assert all(source.count(f'crash_point("{point}")') == 1 for point in POINTS)
        assert source.count('crash_point("') == len(POINTS)
        for point in POINTS:
            crash_point(point)
