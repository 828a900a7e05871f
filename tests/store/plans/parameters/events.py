"""Parameters of the statements that tell of changes: the feed of events, notices and the audit trail."""

from typing import Any

from tests.store.plans.parameters.sample import HOUR, Parameters, Sample, one


def window(sample: Sample) -> dict[str, Any]:
    return {
        "after_xid": "7",
        "after_id": 1,
        "before_xid": "1000000",
        "since": str(sample.now - 24 * HOUR),
        "until": "infinity",
    }


PARAMETERS: Parameters = {
    "events.note": lambda s: {"ids": s.ids},
    "events.note_ranges": lambda s: {
        "job_ids": s.job_ids,
        "tenant_ids": [1] * len(s.job_ids),
        "from_ats": [s.now - HOUR] * len(s.job_ids),
        "until_ats": [s.now] * len(s.job_ids),
        "counts": [5] * len(s.job_ids),
        "reasons": ["misfire"] * len(s.job_ids),
    },
    "events.page": lambda s: {
        "tenant_id": s.tenant_id,
        **window(s),
        "limit": 100,
    },
    "events.first": window,
    "events.horizon": lambda s: {},
    "events.mark": lambda s: {},
    "events.forget_marks": lambda s: {"retention": HOUR},
    "events.window": lambda s: {"after_xid": "7", "span": 384 * HOUR, "room": 24 * HOUR},
    "notices.open": lambda s: {},
    "notices.take": lambda s: {},
    "notices.read": lambda s: {**window(s), "limit": 100, "kinds": ["trigger.dead"]},
    "notices.keep": lambda s: {"xid": "7", "event_id": 1},
    "notices.send": lambda s: {
        "ids": s.ids,
        "job_ids": s.ids,
        "idempotency_keys": s.some("notice:7-1"),
        "payloads": s.some("{}"),
    },
    "notices.dying": lambda s: {"ids": s.job_ids, "counts": [5] * len(s.job_ids)},
    "notices.pause_dying": lambda s: {"ids": s.job_ids},
    "trail.page": lambda s: {
        "tenant_id": s.tenant_id,
        "after_xid": "7",
        "after_id": 1,
        "limit": 100,
    },
    "trail.page_of_object": lambda s: {
        "tenant_id": 1,
        "object_id": str(one(s.ids)),
        "after_xid": "7",
        "after_id": 1,
        "limit": 100,
    },
    "trail.note": lambda s: {
        "tenant_id": 1,
        "kind": "trigger",
        "object_id": str(one(s.ids)),
        "name": "x",
        "action": "replayed",
        "actor": None,
        "changes": "{}",
    },
    "trail.note_jobs": lambda s: {"ids": s.job_ids, "actor": None, "changes": ["{}"] * len(s.job_ids)},
    "trail.purge": lambda s: {"retention": HOUR, "limit": 1000},
    "chain.begin": lambda s: {"key_id": "k", "seal": "s"},
    "chain.head": lambda s: {},
    "chain.next_range": lambda s: {"limit": 1000},
    "chain.digest": lambda s: {"after_xid": "7", "upto_xid": "9"},
    "chain.sign": lambda s: {
        **dict.fromkeys(("number", "changes"), 1),
        **dict.fromkeys(("after_xid", "upto_xid"), "7"),
        **dict.fromkeys(("digest", "previous", "key_id", "seal", "head_seal"), "s"),
        **dict.fromkeys(("last_at", "made_at"), s.now),
    },
    "chain.begin_anew": lambda s: {"number": 1, "key_id": "k", "seal": "s"},
    "chain.checkpoints": lambda s: {"after": 0, "limit": 500},
    "chain.beside": lambda s: {"first_xid": "7", "last_xid": "9", "retention": HOUR, "grace": HOUR},
}
