"""Parameters of the statements about the targets of jobs: rules for targets, and circuit breakers."""

from uuid import UUID

from tests.store.plans.parameters.sample import HOUR, Parameters

PARAMETERS: Parameters = {
    "targets.rules": lambda s: {},
    "targets.lock_rules": lambda s: {},
    "targets.put": lambda s: {
        "pattern": "api.example.com",
        "regex": "^x$",
        "rate_per_second": 5.0,
        "max_in_flight": None,
        "paused": False,
        "by": "",
        "reason": "",
    },
    "targets.remove": lambda s: {"pattern": "api.example.com"},
    "targets.note_change": lambda s: {"pattern": "api.example.com"},
    "targets.changes": lambda s: {},
    "targets.forget_changes": lambda s: {"version": 1},
    "targets.park_for": lambda s: {
        "ids": s.ids,
        "targets": s.some("api.example.com"),
        "waits": s.some(HOUR),
    },
    "targets.waiting": lambda s: {"target": "", "tenant_id": 0, "limit": 100},
    "targets.show": lambda s: {
        "targets": ["api.example.com"] * len(s.tenant_ids),
        "tenant_ids": s.tenant_ids,
        "rooms": [10] * len(s.tenant_ids),
    },
    "targets.lock_targets": lambda s: {"targets": ["api.example.com"]},
    "targets.in_flight": lambda s: {"targets": ["api.example.com"]},
    "targets.rated": lambda s: {"after": s.now, "after_id": UUID(int=0), "limit": 100},
    "targets.hurry": lambda s: {"ids": s.ids},
    "breakers.find": lambda s: {"tenant_ids": s.tenant_ids, "targets": ["x.example"] * len(s.tenant_ids)},
    "breakers.patience": lambda s: {},
    "breakers.bound": lambda s: {"patience": "50ms"},
    "breakers.open": lambda s: {
        "tenant_ids": s.tenant_ids[:1],
        "targets": ["x.example"] * len(s.tenant_ids[:1]),
        "most": 1000,
    },
    "breakers.lock": lambda s: {"tenant_ids": s.tenant_ids, "targets": ["x.example"] * len(s.tenant_ids)},
    "breakers.write": lambda s: {
        "ids": [1],
        "states": ["closed"],
        "failures": [1],
        "successes": [1],
        "window_ends_ats": [s.now],
        "openings": [0],
        "probe_ats": [None],
    },
    "breakers.probe": lambda s: {
        "ids": [1],
        "states": ["open"],
        "probe_ids": [None],
        "trigger_ids": [UUID(int=1)],
        "untils": [s.now],
    },
    "breakers.purge": lambda s: {"idle": HOUR, "limit": 1000},
}
