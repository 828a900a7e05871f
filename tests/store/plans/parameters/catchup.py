"""Parameters of the statements about missed firings."""

from uuid import UUID

from tests.store.plans.parameters.sample import HOUR, LEADERSHIP, Parameters, one

PARAMETERS: Parameters = {
    "catchup.begin": lambda s: {
        "ids": s.ids,
        "job_ids": s.ids,
        "tenant_ids": s.some(1),
        "job_versions": s.some(1),
        "origins": s.some("outage"),
        "policies": s.some("skip"),
        "reasons": s.some(""),
        "windows": s.some(HOUR),
        "max_catchups": s.some(100),
        "from_ats": s.some(s.now),
        "until_ats": s.some(s.now),
        "expecteds": s.some(None),
        "traces": s.some(None),
    },
    "catchup.absorb": lambda s: {"job_ids": s.job_ids, "grace_ends": [s.now] * len(s.job_ids)},
    "catchup.take_undecided": lambda s: {**LEADERSHIP, "after": UUID(int=0), "limit": 100},
    "catchup.waiting": lambda s: {},
    "catchup.take_decided": lambda s: {
        **LEADERSHIP,
        "tenant_id": s.tenant_id,
        "after": UUID(int=0),
        "backlog": 10,
        "limit": 100,
    },
    "catchup.recorded": lambda s: {
        "job_ids": s.job_ids,
        "from_ats": [s.now - HOUR] * len(s.job_ids),
        "until_ats": [s.now] * len(s.job_ids),
        "limit": 1000,
    },
    "catchup.skip": lambda s: {
        "ids": s.ids,
        "job_ids": s.ids,
        "tenant_ids": s.some(1),
        "job_types": s.some("noop"),
        "job_versions": s.some(1),
        "scheduled_fors": s.some(s.now),
        "reasons": s.some("misfire"),
        "priorities": s.some(2),
        "idempotency_keys": s.some("key"),
    },
    "catchup.skip_range": lambda s: {
        "ids": s.ids,
        "job_ids": s.ids,
        "tenant_ids": s.some(1),
        "job_versions": s.some(1),
        "from_ats": s.some(s.now - HOUR),
        "until_ats": s.some(s.now),
        "counts": s.some(5),
        "reasons": s.some("misfire"),
        "floors": s.some(s.now - HOUR),
    },
    "catchup.advance": lambda s: {
        "ids": s.ids,
        "cursors": s.some(s.now),
        "tails": s.some("{}"),
        "fireds": s.some(0),
        "skippeds": s.some(5),
        "dones": s.some(True),
    },
    "catchup.end_jobs": lambda s: {"job_ids": s.job_ids},
    "catchup.end_backfill": lambda s: {"id": one(s.ids), "job_id": one(s.job_ids)},
    "catchup.give_up": lambda s: {"ids": s.ids},
}
