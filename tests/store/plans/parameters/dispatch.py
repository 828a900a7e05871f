"""Parameters of the statements by which dispatch chooses, or leaves triggers waiting that may not start."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from tests.store.plans.parameters.sample import HOUR, LEADERSHIP, Parameters, Sample


def lanes(sample: Sample) -> dict[str, Any]:
    return {
        "tenant_ids": sample.tenant_ids,
        "job_types": ["noop"] * len(sample.tenant_ids),
        "priorities": [2] * len(sample.tenant_ids),
        "floors": [sample.now - HOUR] * len(sample.tenant_ids),
    }


PARAMETERS: Parameters = {
    "dispatch.news": lambda s: {"since": s.now - timedelta(seconds=2)},
    "dispatch.sweep": lambda s: {"tenant_id": -1, "job_type": "", "priority": 0, "limit": 200},
    "dispatch.bound": lambda s: {"milliseconds": 500},
    "dispatch.tenants": lambda s: {"ids": s.tenant_ids},
    "dispatch.lock_tenants": lambda s: {**LEADERSHIP, "ids": s.tenant_ids},
    "dispatch.in_flight_since": lambda s: {"since": s.now - timedelta(seconds=15)},
    "dispatch.in_flight_between": lambda s: {"since": s.now - timedelta(seconds=20), "until": s.now},
    "dispatch.in_flight_of": lambda s: {"ids": s.ids, "until": s.now},
    "dispatch.in_flight_of_tenants": lambda s: {"tenant_ids": s.tenant_ids},
    "dispatch.candidates": lambda s: {**lanes(s), "counts": [100] * len(s.tenant_ids)},
    "dispatch.facts": lambda s: {
        "job_ids": s.job_ids,
        "due_ats": [s.now - HOUR] * len(s.job_ids),
        "jitters": [timedelta()] * len(s.job_ids),
        "counts": [True] * len(s.job_ids),
    },
    "dispatch.skip_missed": lambda s: {
        "job_ids": s.job_ids,
        "keep_froms": [s.now - HOUR] * len(s.job_ids),
        "policies": ["skip", "fire_once"],
        "too_old": ["misfire", "misfire"],
        "passed_over": ["misfire", "coalesced"],
        "limit": 1000,
    },
    "dispatch.floors": lambda s: lanes(s),
    "dispatch.waiting": lambda s: {**lanes(s), "limit": 20},
    "dispatch.move": lambda s: {"ids": s.ids},
    "dispatch.freeze": lambda s: {
        "tenant_ids": s.tenant_ids,
        "job_types": ["noop"] * len(s.tenant_ids),
        "priorities": [2] * len(s.tenant_ids),
        "limit": 1000,
    },
    "dispatch.dispatch": lambda s: {"ids": s.ids},
    "dispatch.skip": lambda s: {"ids": s.ids, "reasons": s.some("misfire")},
    "dispatch.cancel": lambda s: {"ids": s.ids, "reasons": s.some("superseded")},
    "parking.hold": lambda s: {"ids": s.ids},
    "parking.behind": lambda s: {"after": UUID(int=0), "limit": 100},
    "parking.show": lambda s: {"job_ids": s.job_ids, "rooms": s.some(1)},
    "parking.park": lambda s: {"ids": s.ids},
    "parking.collapse": lambda s: {"job_ids": s.job_ids[:5], "scheduled_fors": [s.now] * 5},
    "parking.replace_runs": lambda s: {"job_ids": s.job_ids[:5]},
    "parking.replace": lambda s: {"ids": s.ids[:5], "job_ids": s.job_ids[:5]},
    "parking.park_until": lambda s: {"ids": s.ids, "waits": s.some(HOUR)},
    "parking.unpark": lambda s: {"limit": 1000},
    "queues.lock": lambda s: {"job_types": ["noop", "webhook"], "every": HOUR},
    "queues.open": lambda s: {"job_types": ["noop", "webhook"], "window": 5},
    "queues.measure": lambda s: {
        "job_types": ["noop", "webhook"],
        "queued": [7, 0],
        "minimum": 16,
        "maximum": 1000,
        "wait_seconds": 1.0,
        "stale": HOUR,
    },
    "queues.note_dispatched": lambda s: {"job_types": ["noop", "webhook"], "counts": [5, 1]},
    "messages.put": lambda s: {"job_types": ["noop"], "items": ["[]"]},
    "messages.take": lambda s: {"job_types": ["noop", "webhook"]},
    "messages.forget": lambda s: {"age": HOUR, "limit": 1000},
    "levers.know_installation": lambda s: {},
    "levers.stop": lambda s: {"by": "olga", "reason": "why"},
    "levers.start": lambda s: {},
    "levers.pause_type": lambda s: {"job_type": "noop", "by": "olga", "reason": "why"},
    "levers.resume_type": lambda s: {"job_type": "noop"},
    "levers.cap_type": lambda s: {"job_type": "noop", "max_in_flight": 4},
    "levers.types": lambda s: {"job_types": ["noop", "webhook"], "others": True},
}
