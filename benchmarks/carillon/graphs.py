"""Workflows as the API would write them, and runs of them as the ledger tells of them."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any
from uuid import UUID

from benchmarks.carillon.registry import TENANT
from benchmarks.stage import Stage

_LEFT = "SELECT count(*) FROM jobs_workflowrun WHERE state = 'running' AND id = ANY(%(ids)s)"
_ENDED = "SELECT count(*) FROM jobs_taskrun WHERE run_id = %(id)s AND state = 'succeeded'"
_SECONDS = """
    SELECT extract(epoch FROM max(finished_at) - min(created_at))::float
    FROM jobs_workflowrun WHERE id = ANY(%(ids)s)
"""
_UNLIKE = """
    SELECT count(*) FROM jobs_taskrun r LEFT JOIN jobs_trigger t ON t.id = r.id
    WHERE r.run_id = ANY(%(ids)s)
      AND (r.state <> 'succeeded' OR t.state IS DISTINCT FROM 'succeeded' AND r.item_count IS NULL)
"""
#: For each step of a chain except the first, in ms: from the end of the task before until the step was ready, until it
#: was queued, until it started, and until its own end was on record.
_STEPS = """
    SELECT 1000 * extract(epoch FROM ready_at - lag(ended_at) OVER steps)::float,
           1000 * extract(epoch FROM queued_at - ready_at)::float,
           1000 * extract(epoch FROM started_at - queued_at)::float,
           1000 * extract(epoch FROM ended_at - started_at)::float
    FROM (SELECT r.task, r.ready_at, t.queued_at, t.started_at, t.finished_at AS ended_at
          FROM jobs_taskrun r JOIN jobs_trigger t ON t.id = r.id WHERE r.run_id = %(id)s) s
    WINDOW steps AS (ORDER BY task)
    ORDER BY task OFFSET 1
"""


def fan(width: int, **payload: Any) -> dict[str, Any]:
    """One task, then ``width`` beside each other, then one: all no-ops, those in the middle with this payload."""
    parts = [f"part{n}" for n in range(width)]
    part = {"job_type": "noop", "payload": payload}
    return {
        "name": f"fan-{width}",
        "tasks": {
            "split": {"job_type": "noop"},
            **dict.fromkeys(parts, part),
            "gather": {"job_type": "noop"},
        },
        "edges": [
            *({"before": "split", "after": key} for key in parts),
            *({"before": key, "after": "gather"} for key in parts),
        ],
    }


def mapped() -> dict[str, Any]:
    """A no-op for each item of the run's input, beside each other, then one."""
    return {
        "name": "mapped",
        "tasks": {
            "part": {"job_type": "noop", "map": {"over": {"$from": "workflow.input.items"}}},
            "gather": {"job_type": "noop"},
        },
        "edges": [{"before": "part", "after": "gather"}],
    }


def chain(length: int) -> dict[str, Any]:
    """No-ops, one after the other."""
    keys = [f"step{n}" for n in range(length)]
    return {
        "name": f"chain-{length}",
        "tasks": {key: {"job_type": "noop"} for key in keys},
        "edges": [{"before": one, "after": other} for one, other in pairwise(keys)],
    }


def make_workflow(definition: dict[str, Any], *, tenant: str = TENANT) -> UUID:
    """Create a workflow of the tenant; returns its id."""
    from jobs.actions.workflows.definitions import create_workflow
    from tenants.models import Tenant

    made: UUID = create_workflow(tenant=Tenant.objects.get(slug=tenant), definition=definition).id
    return made


def begin(workflow_id: UUID, count: int = 1, *, tenant: str = TENANT, run_input: Any = None) -> list[UUID]:
    """Begin ``count`` runs; returns their ids."""
    from jobs.actions.workflows.runs import run_workflow
    from tenants.models import Tenant

    owner = Tenant.objects.get(slug=tenant)
    return [run_workflow(tenant=owner, workflow_id=workflow_id, run_input=run_input).id for _ in range(count)]


def ended(stage: Stage, runs: Sequence[UUID]) -> bool:
    """Whether all of the runs have ended."""
    return not stage.value(_LEFT, ids=list(runs))


def tasks_ended(stage: Stage, run: UUID) -> int:
    """How many tasks of a run have succeeded."""
    return int(stage.value(_ENDED, id=run))


def unlike(stage: Stage, runs: Sequence[UUID]) -> int:
    """How many tasks have not succeeded, by their task run or by their trigger; a map itself has no trigger."""
    return int(stage.value(_UNLIKE, ids=list(runs)))


def seconds(stage: Stage, runs: Sequence[UUID]) -> float:
    """From the beginning of the first run to the end of the last one."""
    return float(stage.value(_SECONDS, ids=list(runs)))


def steps(stage: Stage, run: UUID) -> list[tuple[float, float, float, float]]:
    """For each step of a chain but the first, in ms: until ready, queued, started, and until its end was on record."""
    return [tuple(map(float, row)) for row in stage.db.execute(_STEPS, {"id": run})]  # type: ignore[misc]
