"""Parameters of the statements that keep an installation in order: old rows, partitions, answers, the replica."""

from uuid import UUID

from tests.store.plans.parameters.sample import HOUR, Parameters, one

PARAMETERS: Parameters = {
    "answers.take_key": lambda s: {"lock": 1},
    "answers.find": lambda s: {"tenant_id": 1, "key": "k1", "kept_for": HOUR},
    "answers.kept_bytes": lambda s: {"tenant_id": 1},
    "answers.keep": lambda s: {
        "tenant_id": 1,
        "key": "k1",
        "fingerprint": b"x",
        "status": 201,
        "headers": "{}",
        "body": b"{}",
    },
    "answers.purge": lambda s: {"kept_for": HOUR, "limit": 1000},
    "partitions.partitions": lambda s: {"table": "jobs_attempt"},
    "partitions.may_partition": lambda s: {"table": "jobs_attempt"},
    "purge.triggers": lambda s: {"before_id": UUID(int=1 << 100), "retention": HOUR, "limit": 1000},
    "purge.results": lambda s: {"retention": HOUR, "limit": 1000},
    "purge.sessions": lambda s: {"limit": 1000},
    "purge.catchups": lambda s: {"before_id": UUID(int=1 << 100), "retention": HOUR, "limit": 1000},
    "purge.ranges": lambda s: {"before_id": UUID(int=1 << 100), "retention": HOUR, "limit": 1000},
    "purge.effects": lambda s: {"before_id": UUID(int=1 << 100), "limit": 1000},
    "purge.versions": lambda s: {
        "after_job_id": one(s.job_ids),
        "after_valid_from": s.now,
        "after_id": UUID(int=0),
        "retention": HOUR,
        "limit": 1000,
    },
    "replica.mark": lambda s: {},
    "replica.standing": lambda s: {},
}
