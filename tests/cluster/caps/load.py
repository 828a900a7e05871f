"""A load that wants more than every cap gives: seven tenants, and for each job some twenty firings that wait.

Tenants and keys spread over job types, and types over tenants, so that no lock of dispatch does another one's work.
Jobs come through the API and fire every second by schedule; missing firings are inserted as runs by hand.
"""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from tests.cluster.caps import NARROW_MAX_IN_FLIGHT
from tests.cluster.caps.sampler import Subject, repeating
from tests.cluster.stage import Stage

WINDOW = 16
PER_SECOND, BURST = 6, 3
ENVIRONMENT = {
    "CARILLON_LEADER_ELECTION": "0",
    "CARILLON_HANDLER_MODULES": "tests.cluster.caps.handlers",
    "CARILLON_QUEUE_WINDOW_MIN": "4",
    "CARILLON_QUEUE_WINDOW_INITIAL": "8",
    "CARILLON_QUEUE_WINDOW_MAX": str(WINDOW),
    # A small machine does few a second; the window must grow to its bound all the same.
    "CARILLON_QUEUE_WAIT_MS": "5000",
    "CARILLON_WORKER_LEASE_SECONDS": "3",
    "CARILLON_DISPATCH_DEADLINE_SECONDS": "10",
}
FREE = 1000
TENANTS = {
    "tight": {"max_in_flight": 3},
    "roomy": {"max_in_flight": 8},
    "eager": {"max_in_flight": FREE},
    "hasty": {"max_in_flight": FREE, "weight": 300},
    "keen": {"max_in_flight": FREE},
    "mixed": {"max_in_flight": FREE},
    "paced": {"max_in_flight": FREE, "rate_per_second": PER_SECOND, "rate_burst": BURST},
}
ALLOW = {"overlap_policy": "allow", "max_concurrent": FREE}


def _jobs() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Tenant, name and the part of its definition that is the job's own."""
    for tenant in ("tight", "roomy", "paced"):
        for kind, priority in (("a", "critical"), ("b", "high"), ("c", "low")):
            yield tenant, priority, {"job_type": f"caps.{kind}", "priority": priority, **ALLOW}
    for tenant in ("eager", "hasty", "keen"):
        for kind in ("narrow", "wide"):
            yield tenant, kind, {"job_type": f"caps.{kind}", **ALLOW}
    for most, kind in ((2, "a"), (3, "b")):
        yield "mixed", f"allow-{most}", {"job_type": f"caps.{kind}", **ALLOW, "max_concurrent": most}
    for policy in ("skip", "queue", "collapse", "replace"):
        yield "mixed", policy, {"job_type": "caps.c", "overlap_policy": policy}
    for kind in "abc":
        keyed = {"concurrency_key": "db", "max_concurrent": 2}
        yield "mixed", f"db-{kind}", {"job_type": f"caps.{kind}", **ALLOW, **keyed}
    for kind in "ab":
        keyed = {"concurrency_key": "file"}
        yield "mixed", f"file-{kind}", {"job_type": f"caps.{kind}", "overlap_policy": "queue", **keyed}


JOBS = list(_jobs())
_LIMITS = {
    ("job", f"{tenant}/{name}"): job.get("max_concurrent", 1)
    for tenant, name, job in JOBS
    if tenant == "mixed"
}
_KEYED = {("job", f"{tenant}/{name}") for tenant, name, job in JOBS if "concurrency_key" in job}
#: The triggers in flight must reach each of these caps, and exceed none.
CAPS: dict[Subject, int] = {
    ("tenant", "tight"): 3,
    ("tenant", "roomy"): 8,
    ("type", "caps.narrow"): NARROW_MAX_IN_FLIGHT,
    ("queue", "caps.wide"): WINDOW,
    ("key", "mixed/db"): 2,
    ("key", "mixed/file"): 1,
    **{job: limit for job, limit in _LIMITS.items() if job not in _KEYED},
}
#: Caps that other caps keep from being reached.
OTHER_CAPS: dict[Subject, int] = {
    **{job: limit for job, limit in _LIMITS.items() if job in _KEYED},
    **{("queue", f"caps.{name}"): WINDOW for name in ("a", "b", "c", "narrow")},
}

CREATE_TENANTS = """
import json
from tenants.actions import create_api_key, create_tenant
keys = {}
for slug, quotas in TENANTS.items():
    tenant = create_tenant(slug=slug, **quotas)
    keys[slug] = create_api_key(tenant=tenant, name="test", scopes=["read", "write"])[1]
print(json.dumps(keys))
"""
#: After ``FEED`` so many firings of each job wait.
WAITING = 20
FEED = """
    INSERT INTO jobs_trigger (
        id, job_id, tenant_id, job_type, job_version, origin, scheduled_for, due_at, state, reason, held, priority,
        idempotency_key, fence, attempt_count, budget_start, crash_count, replay_count, worker, cancel_requested,
        created_at)
    SELECT gen_random_uuid(), job.id, job.tenant_id, job.job_type, job.version, 'run_now',
           at, at, 'pending', '', false, job.priority, 'load:' || gen_random_uuid(), 0, 0, 0, 0, 0, '', false, at
    FROM jobs_job job, LATERAL (
        SELECT count(*)::int AS waiting FROM jobs_trigger t
        WHERE t.job_id = job.id AND t.phase IN ('pending', 'retrying') AND t.due_at <= clock_timestamp()) load,
        generate_series(1, %s - waiting) AS n, LATERAL (
        SELECT statement_timestamp() + n * interval '1 microsecond' AS at) moment
    ON CONFLICT DO NOTHING"""


def create(stage: Stage) -> None:
    """Create the tenants and their jobs."""
    code = f"TENANTS = {TENANTS!r}\n{CREATE_TENANTS}"
    keys = json.loads(stage.manage("shell", "-v", "0", "-c", code).splitlines()[-1])
    schedule = {"type": "interval", "every_seconds": 1}
    for tenant, name, job in JOBS:
        stage.call("POST", "/jobs", key=keys[tenant], body={"name": name, "schedule": schedule, **job})


def fed(database_url: str) -> AbstractContextManager[None]:
    """Keep every job supplied with due firings until the block ends."""
    return repeating(
        lambda cursor: cursor.execute(FEED, [WAITING]), database_url=database_url, every_seconds=0.25
    )


#: It acts like a slow dispatcher: others leave out the rows that it holds, and find them free a moment later.
JOSTLE = """
    WITH queues AS MATERIALIZED (SELECT 1 FROM jobs_queue WHERE random() < 0.5 FOR NO KEY UPDATE SKIP LOCKED),
        tenants AS MATERIALIZED (SELECT 1 FROM tenants_tenant WHERE random() < 0.5 FOR NO KEY UPDATE SKIP LOCKED)
    SELECT (SELECT count(*) FROM queues), (SELECT count(*) FROM tenants), pg_sleep(0.02)"""


def jostled(database_url: str) -> AbstractContextManager[None]:
    """Split the queues and tenants at random among the dispatchers, which otherwise mostly find all of them free."""
    return repeating(lambda cursor: cursor.execute(JOSTLE), database_url=database_url, every_seconds=0.05)
