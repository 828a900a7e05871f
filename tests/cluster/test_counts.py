"""The counts of activity (``jobs.activity``) checked against the ledger, over firings that end in every way.

Without a fault they are equal. A killed worker takes with it the counts that it had not reported yet: those of its
last second.

``FIRINGS``, ``KILLS``   how many of each half, and how often a worker is killed in the second; ``-s`` shows the figures
``SLEEP_MS``             how long each of them runs
"""

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from jobs.core.activity import ALL_TENANTS, BURIALS, ENDS
from stage.waiting import wait_until
from tests.cluster.crew import Crew
from tests.cluster.ledger import FLOOD
from tests.cluster.stage import Stage

pytestmark = pytest.mark.cluster
FIRINGS, KILLS = int(os.environ.get("FIRINGS") or 1_000), int(os.environ.get("KILLS") or 1)
SLEEP_MS = int(os.environ.get("SLEEP_MS") or 0)
#: Shares of firings that succeed, that fail as often as they may, and that are cancelled while they wait.
SHARES = {"succeeds": 0.65, "fails at once": 0.1, "fails twice": 0.2, "waits": 0.05}
RETRIES = {"succeeds": 5, "fails at once": 1, "fails twice": 2, "waits": 1}
COUNTED = ("started", *ENDS, "retried", "cancelled", *BURIALS)
#: An attempt is retried if its trigger went on after it.
LEDGER = """
    SELECT 'started', count(*) FROM jobs_attempt
    UNION ALL SELECT 'ended_' || state, count(*) FROM jobs_attempt WHERE state <> 'started' GROUP BY 1
    UNION ALL SELECT 'buried_' || reason, count(*) FROM jobs_trigger WHERE state = 'dead' GROUP BY 1
    UNION ALL SELECT 'cancelled', count(*) FROM jobs_trigger WHERE state = 'cancelled'
    UNION ALL SELECT 'retried', count(*) FROM jobs_attempt a JOIN jobs_trigger t ON t.id = a.trigger_id
    WHERE a.state IN ('failed', 'timed_out', 'lost') AND NOT (t.state = 'dead' AND a.number = t.attempt_count)
"""
UNFINISHED = "SELECT count(*) FROM jobs_trigger WHERE finished_at IS NULL"
#: Attempts that a worker had begun or ended since it may have last reported its counts: it does so once a second.
LAST_SECOND = """
    SELECT count(*) FROM jobs_attempt WHERE worker LIKE '{0}@%' AND coalesce(finished_at, started_at) >
        (SELECT max(coalesce(finished_at, started_at)) FROM jobs_attempt WHERE worker LIKE '{0}@%') - interval '1.5 s'
"""
IN_FLIGHT = "SELECT count(*) FROM jobs_trigger WHERE phase = 'in_flight'"
WITHIN = 120.0 + FIRINGS / 100 * (1 + SLEEP_MS)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    leases = {"CARILLON_WORKER_LEASE_SECONDS": "5", "CARILLON_DISPATCH_DEADLINE_SECONDS": "5"}
    with Stage(beats=1, workers=0, CARILLON_NOOP_ENABLED="1", **leases) as stage:
        yield stage


@pytest.fixture(scope="module")
def key(stage: Stage) -> str:
    key = stage.create_tenant()
    stage.execute("UPDATE tenants_tenant SET max_in_flight = 100000")
    return key


@pytest.fixture(scope="module")
def crew(stage: Stage) -> Iterator[Crew]:
    with Crew(stage, beats=0, workers=2) as crew:
        yield crew


class Steady:
    """Whether a figure has stood still for so long that every process has reported, and the leader added it up."""

    SECONDS = 8.0

    def __init__(self, figure: Callable[[], int]) -> None:
        self._figure, self.value, self._since = figure, -1, time.monotonic()

    def __call__(self) -> bool:
        found = self._figure()
        if found != self.value:
            self.value, self._since = found, time.monotonic()
        return time.monotonic() - self._since > self.SECONDS


def flood(stage: Stage, key: str) -> None:
    """Firings of every kind, all due now; those that wait are of a paused job, and are cancelled with it."""
    for kind, share in SHARES.items():
        body = {
            "name": f"{kind} {time.monotonic_ns()}",
            "job_type": "noop",
            "schedule": {"type": "once", "run_at": "2099-01-01T00:00:00Z"},
            "payload": {"fail": kind.startswith("fails"), "sleep_ms": SLEEP_MS},
            "overlap_policy": "allow",
            "max_concurrent": 100_000,
            "misfire_policy": "fire_all",
            "retry_policy": {
                "max_attempts": RETRIES[kind],
                "backoff": "fixed",
                "initial_delay_seconds": 0.1,
                "jitter": "none",
            },
        }
        job_id = stage.call("POST", "/jobs", key=key, body=body)["id"]
        if kind == "waits":
            stage.call("POST", f"/jobs/{job_id}/pause", key=key)
        stage.execute(FLOOD.format(number=int(FIRINGS * share), job_id=job_id))
        if kind == "waits":
            stage.call("POST", f"/jobs/{job_id}/cancel", key=key)


def await_end(stage: Stage) -> None:
    wait_until(lambda: stage.query(UNFINISHED) == [(0,)], timeout=WITHIN, what="every trigger to end")


def on_record(stage: Stage) -> Counter[str]:
    return +Counter(dict(stage.query(LEDGER)))


def counted(stage: Stage, table: str) -> Counter[str]:
    columns = ", ".join(f"coalesce(sum({kind}), 0)::bigint" for kind in COUNTED)
    [row] = stage.query(
        f"SELECT {columns} FROM {table} WHERE job_type = 'noop' AND tenant_id <> {ALL_TENANTS}"
    )
    return +Counter(dict(zip(COUNTED, row, strict=True)))


def test_are_those_of_the_ledger(stage: Stage, key: str, crew: Crew) -> None:
    flood(stage, key)
    await_end(stage)
    ledger = on_record(stage)
    assert {"started", "ended_succeeded", "ended_failed", "retried", "cancelled", "buried_exhausted"} == set(
        ledger
    )
    wait_until(
        lambda: counted(stage, "jobs_activityminute") == ledger, timeout=30, what=f"counts of {dict(ledger)}"
    )
    assert counted(stage, "jobs_activitytotal") == ledger
    print(f"{FIRINGS} firings: {dict(ledger)}, all counted")


def test_lack_no_more_than_the_last_second_of_killed_workers(
    stage: Stage, key: str, crew: Crew, rng: random.Random
) -> None:
    flood(stage, key)
    in_flight = last_second = 0
    for kill in range(KILLS):
        left = FIRINGS * (KILLS - kill) / (KILLS + 1)
        wait_until(
            lambda left=left: stage.query(UNFINISHED)[0][0] < left and stage.query(IN_FLIGHT)[0][0],
            timeout=WITHIN,
            what="triggers in flight",
        )
        in_flight += stage.query(IN_FLIGHT)[0][0]
        victim = rng.choice(crew.workers)
        crew.kill(victim)
        last_second += stage.query(LAST_SECOND.format(victim))[0][0]
    await_end(stage)
    ledger = on_record(stage)

    def lacking() -> int:
        found = counted(stage, "jobs_activitytotal")
        assert not found - ledger, "more is counted than happened"
        return max((ledger - found).values(), default=0)

    steady = Steady(lacking)
    wait_until(steady, timeout=60, what="all reports to be added up")
    assert steady.value <= last_second
    figures = f"of one count {steady.value} lack, {last_second} were of the killed workers' last second"
    print(f"{FIRINGS} firings, {KILLS} kills, {in_flight} in flight then: {figures}")
