"""Parameters of the statements about attempts: claimed, renewed, finished, and recovered where no worker finished."""

from datetime import timedelta
from typing import Any

from jobs.models.fields import new_id
from tests.store.plans.parameters.sample import HOUR, LEADERSHIP, Parameters, Sample, one

LEASE = {"holder": "one", "duration": timedelta(seconds=10)}


def recoveries(sample: Sample) -> dict[str, Any]:
    return {
        "ids": sample.ids,
        "fences": sample.some(1),
        "states": sample.some("retrying"),
        "reasons": sample.some(""),
        "delays": sample.some(HOUR),
        "charged": sample.some(True),
    }


PARAMETERS: Parameters = {
    "leases.take": lambda s: {**LEASE, "idle": timedelta(seconds=5)},
    "leases.renew": lambda s: {**LEASE, **LEADERSHIP},
    "leases.release": lambda s: {**LEADERSHIP, "holder": "one"},
    "execution.claim": lambda s: {
        "ids": s.ids,
        "fences": s.some(1),
        "job_types": ["noop"],
        "attempt_ids": [new_id() for _ in s.ids],
        "worker": "w1",
        "celery_task_id": "c1",
        "lease": HOUR,
        "crowded": ["crowd"],
        "waiting": [],
    },
    "execution.adopt": lambda s: {
        "ids": s.ids,
        "fences": s.some(1),
        "attempt_ids": [new_id() for _ in s.ids],
        "lease": HOUR,
    },
    "execution.hand_back": lambda s: {
        "ids": s.ids,
        "fences": s.some(1),
        "crowded": ["crowd"],
        "waiting": [],
        "wait": HOUR,
        "job_types": ["noop"],
    },
    "execution.renew": lambda s: {"ids": s.ids, "fences": s.some(1), "lease": HOUR},
    "execution.note_stopping": lambda s: {"ids": s.ids, "fences": s.some(1)},
    "execution.note_progress": lambda s: {"id": one(s.ids), "fence": 1, "progress": "{}", "checkpoint": None},
    "execution.succeed": lambda s: {
        "id": one(s.ids),
        "fence": 1,
        "attempt_id": one(s.ids),
        "attempt_started_at": s.now,
        "result": None,
        "http_status": 200,
        "response_excerpt": "",
        "output": None,
    },
    "execution.finish": lambda s: {
        "ids": s.ids,
        "fences": s.some(1),
        "attempt_ids": s.ids,
        "attempt_started_ats": s.some(s.now),
        "first_started_at": s.now - HOUR,
        "last_started_at": s.now,
        "states": s.some("succeeded"),
        "delays": s.some(HOUR),
        "results": s.some(None),
        "attempt_states": s.some("succeeded"),
        "http_statuses": s.some(200),
        "outputs": s.some("said"),
        **{
            name: s.some("")
            for name in (
                "reasons",
                "error_codes",
                "error_classes",
                "error_messages",
                "tracebacks",
                "response_excerpts",
            )
        },
    },
    "execution.pause_gone": lambda s: {"trigger_ids": s.ids},
    "execution.store_result": lambda s: {
        "task_id": "a",
        "task_name": "jobs.noop",
        "worker": "w1",
        "status": "SUCCESS",
        "result": "{}",
        "traceback": None,
        "task_args": None,
    },
    "pull.offer": lambda s: {
        "tenant_id": s.tenant_id,
        "job_types": ["noop", "webhook"],
        "limit": 100,
    },
    "pull.lock": lambda s: {"ids": s.ids, "tenant_id": s.tenant_id},
    "pull.held": lambda s: {
        "ids": s.ids,
        "fences": s.some(1),
        "tenant_id": s.tenant_id,
    },
    "pull.keep_output": lambda s: {
        "attempt_ids": s.ids,
        "attempt_started_ats": s.some(s.now),
        "first_started_at": s.now - HOUR,
        "last_started_at": s.now,
        "outputs": s.some("said"),
    },
    "pull.types_among": lambda s: {"tenant_id": s.tenant_id, "names": ["orders", "billing"]},
    "pull.keep_type": lambda s: {"job_type": "noop@1"},
    "effects.record": lambda s: {"trigger_id": one(s.ids), "key": "charge", "fence": 1},
    "effects.count_duplicate": lambda s: {"trigger_id": one(s.ids), "key": "charge"},
    "effects.duplicates": lambda s: {"trigger_id": one(s.ids)},
    "reap.expired_leases": lambda s: {"limit": 500},
    "reap.in_hand": lambda s: {"ids": s.ids, "fences": s.some(1)},
    "reap.absolve": lambda s: {"ids": s.ids, "fences": s.some(1)},
    "reap.reap_running": lambda s: {**LEADERSHIP, **recoveries(s)},
    "reap.give_up": lambda s: {
        **recoveries(s),
        "suspects": s.some(True),
        "attempt_states": s.some("lost"),
        "error_codes": s.some("timeout"),
        "error_messages": s.some("stuck"),
        "outputs": s.some(None),
    },
    "reap.reap_queued": lambda s: {**LEADERSHIP, "deadline": timedelta(seconds=30), "limit": 500},
}
