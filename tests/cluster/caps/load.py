"""A load that wants more than every cap gives: six tenants, and for each job some twenty firings that wait.

Each kind of cap has a job type of its own, so that one that is shut does not keep another from filling up. Jobs come
through the API and fire every second by schedule; what they lack to keep their cap filled is inserted as runs by hand.
"""

import json
from contextlib import AbstractContextManager
from typing import Any

from tests.cluster.caps.handlers import NARROW_MAX_IN_FLIGHT
from tests.cluster.caps.sampler import Subject, repeating
from tests.cluster.stage import Stage

WINDOW = 16
PER_SECOND, BURST = 6, 3
ENVIRONMENT = {
    "CARILLON_LEADER_ELECTION": "0",
    "CARILLON_HANDLER_MODULES": "tests.cluster.caps.handlers",
    "CARILLON_QUEUE_WINDOW_LOWEST": "4",
    "CARILLON_QUEUE_WINDOW_FIRST": "8",
    "CARILLON_QUEUE_WINDOW_HIGHEST": str(WINDOW),
    # Few a second on a small machine; the window is to grow to its bound all the same.
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
    "mixed": {"max_in_flight": FREE},
    "paced": {"max_in_flight": FREE, "rate_per_second": PER_SECOND, "rate_burst": BURST},
}
ALLOW = {"overlap_policy": "allow", "max_concurrent": FREE}
#: tenant -> job -> its definition
JOBS: dict[str, dict[str, dict[str, Any]]] = {
    "tight": {f"work-{n}": {"job_type": "caps.tenants", **ALLOW} for n in range(3)},
    "roomy": {
        f"work-{priority}": {"job_type": "caps.tenants", "priority": priority, **ALLOW}
        for priority in ("critical", "high", "low")
    },
    **{
        tenant: {
            f"{kind}-{n}": {"job_type": f"caps.{kind}", **ALLOW}
            for kind in ("narrow", "wide")
            for n in (1, 2)
        }
        for tenant in ("eager", "hasty")
    },
    "mixed": {
        "allow-2": {"overlap_policy": "allow", "max_concurrent": 2},
        "allow-3": {"overlap_policy": "allow", "max_concurrent": 3},
        **{policy: {"overlap_policy": policy} for policy in ("skip", "queue", "collapse", "replace")},
        **{
            f"db-{n}": {"overlap_policy": "allow", "max_concurrent": 2, "concurrency_key": "db"}
            for n in (1, 2, 3)
        },
        **{f"file-{n}": {"overlap_policy": "queue", "concurrency_key": "file"} for n in (1, 2)},
    },
    "paced": {"work": {"job_type": "caps.paced", **ALLOW}},
}
_LIMITS = {name: job.get("max_concurrent", 1) for name, job in JOBS["mixed"].items()}
_KEYED = [name for name, job in JOBS["mixed"].items() if "concurrency_key" in job]
#: What is in flight is to reach each of these, and to exceed none.
CAPS: dict[Subject, int] = {
    ("tenant", "tight"): 3,
    ("tenant", "roomy"): 8,
    ("type", "caps.narrow"): NARROW_MAX_IN_FLIGHT,
    ("queue", "caps.wide"): WINDOW,
    ("key", "mixed/db"): 2,
    ("key", "mixed/file"): 1,
    **{("job", f"mixed/{name}"): limit for name, limit in _LIMITS.items() if name not in _KEYED},
}
#: Caps that others keep from being reached.
OTHER_CAPS: dict[Subject, int] = {
    **{("job", f"mixed/{name}"): _LIMITS[name] for name in _KEYED},
    **{("queue", f"caps.{name}"): WINDOW for name in ("tenants", "jobs", "narrow", "paced")},
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
#: So many firings of each job wait after it.
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
        WHERE t.job_id = job.id AND t.state IN ('pending', 'retrying') AND t.due_at <= clock_timestamp()) load,
        generate_series(1, %s - waiting) AS n, LATERAL (
        SELECT statement_timestamp() + n * interval '1 microsecond' AS at) moment
    ON CONFLICT DO NOTHING"""


def create(stage: Stage) -> None:
    """The tenants and their jobs."""
    code = f"TENANTS = {TENANTS!r}\n{CREATE_TENANTS}"
    keys = json.loads(stage.manage("shell", "-v", "0", "-c", code).splitlines()[-1])
    for tenant, jobs in JOBS.items():
        for name, definition in jobs.items():
            body = {
                "name": name,
                "job_type": "caps.jobs",
                "schedule": {"type": "interval", "every_seconds": 1},
                "payload": {},
                **definition,
            }
            stage.call("POST", "/jobs", key=keys[tenant], body=body)


def fed(database_url: str) -> AbstractContextManager[None]:
    """Keep every job supplied with due firings until the block ends."""
    return repeating(
        lambda cursor: cursor.execute(FEED, [WAITING]), database_url=database_url, every_seconds=0.25
    )
