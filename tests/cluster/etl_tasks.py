"""Handlers of ``tests.cluster.etl``, which keep the lists of ``tests.cluster.recording``.

For workers alone: a test that imports this registers their types in its own process.
"""

from jobs.handlers import Context, Permanent, job_type
from tests.cluster import etl
from tests.cluster.recording import record


def carry_out(ctx: Context, payload: dict) -> None:
    task, asked = payload["task"], payload["asked"]
    record(ctx, {"fails_first": task in asked["fail_first"]})
    if task == asked["fails"]:
        raise Permanent("deliberate")


for task in etl.HANDLED:
    job_type(etl.type_of(task), batch_size=50)(carry_out)
