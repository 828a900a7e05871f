"""Parameters of the statements by which an installation counts and reports: activity, metrics, samples and workers."""

from uuid import UUID

from tests.store.plans.parameters.sample import HOUR, Parameters

PARAMETERS: Parameters = {
    "activity.report": lambda s: {
        "size": 2,
        "counts": '[{"tenant_id": 1, "job_type": "noop", "started": 1}]',
        "own": '[{"name": "step_failures", "labels": ["reap"], "counts": {"times": 1}}]',
    },
    "activity.fold": lambda s: {"reports": 200, "size": 2_000, "declared_types": "declared@tenants"},
    # Some hours away from the edges of the counts of fill() and of a day's partition: there one hour may be everything.
    "activity.roll_up": lambda s: {"hour": s.now.replace(minute=0, second=0, microsecond=0) - 6 * HOUR},
    "activity.next_hour": lambda s: {"grace": HOUR},
    "activity.retried_most": lambda s: {
        "tenant_ids": s.tenant_ids,
        "job_type": "",
        "since": s.now - 2160 * HOUR,
        "until": s.now,
        "by_minute": False,
        "limit": 10,
    },
    "activity.of_tenants": lambda s: {
        "tenant_ids": s.tenant_ids[:1] or [1],
        "job_type": "",
        "since": s.now - 2160 * HOUR,
        "until": s.now,
        "by_minute": False,
        "bucket_seconds": 86_400,
        "limit": 190,
    },
    "activity.purge_minute": lambda s: {"before": s.now - 48 * HOUR},
    "activity.purge_hour": lambda s: {"before": s.now - 2400 * HOUR},
    "activity.busiest": lambda s: {"minutes": 5, "limit": 40},
    "activity.name_tenants": lambda s: {"tenant_ids": s.tenant_ids},
    "activity.unname_tenants": lambda s: {"tenant_ids": s.tenant_ids},
    "metrics.in_flight": lambda s: {},
    "metrics.due": lambda s: {"lanes": 100, "limit": 1_000},
    "metrics.parked": lambda s: {"limit": 2_000},
    "metrics.totals": lambda s: {},
    "metrics.own": lambda s: {},
    "metrics.ahead": lambda s: {"limit": 1_000, "runs": 10_000, "tasks": 20_000},
    "metrics.messages": lambda s: {"limit": 10_000},
    "metrics.past_retention": lambda s: {"before_id": UUID(int=1 << 100), "retention": HOUR, "limit": 2_000},
    "metrics.partitions_ahead": lambda s: {"tables": ["jobs_attempt"]},
    "metrics.connections": lambda s: {},
    "metrics.levers": lambda s: {"limit": 100},
    "metrics.queues": lambda s: {},
    "metrics.leases": lambda s: {"limit": 1000},
    "samples.keep": lambda s: {
        "steps": [30, 600],
        "rows": '[{"job_type": "", "due": 1, "parked": 0, "queued": 0, "running": 1, "slots": 4, "lag_seconds": 0.5}]',
    },
    "samples.series": lambda s: {
        "step": 30,
        "job_type": "noop",
        "since": s.now - HOUR,
        "until": s.now,
        "bucket_seconds": 60,
    },
    "samples.purge": lambda s: {"steps": [30, 600], "kept": [HOUR, 2 * HOUR]},
    "clocks.compare": lambda s: {
        "name": "w1",
        "offset": 0.1,
        "within": 0.01,
        "rate_limit_bypassed": 0,
        "version": "1.0",
    },
    "clocks.present": lambda s: {"silence": HOUR, "limit": 1000},
    "workers.announce": lambda s: {
        "name": "w1",
        "queues": ["jobs.noop"],
        "concurrency": 4,
        "busy": 1,
        "process": "7-a",
        "silence": HOUR,
    },
    "workers.leave": lambda s: {"name": "w1", "process": "7-a"},
    "workers.present": lambda s: {"silence": HOUR, "limit": 1000},
    "workers.queues_taken": lambda s: {"silence": HOUR, "queues": ["jobs.noop"]},
}
