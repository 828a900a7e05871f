"""Signals and approvals, for which tasks of a run wait (ADR 32). An answer takes effect at its commit."""

from typing import Any
from uuid import UUID

from jobs.actions.workflows.runs import find_run, note, runs_of
from jobs.core.errors import Conflict, NotFound
from jobs.core.json_rules import check_json
from jobs.handlers.outcome import MAX_RESULT_BYTES
from jobs.models import Change, WorkflowRun
from jobs.store import db
from jobs.store import workflows as store
from jobs.store.trail import present_name
from jobs.wakeups import wake_beats
from tenants.models import Tenant


def signal(*, tenant: Tenant, run_id: UUID | str, name: str, payload: object = None) -> WorkflowRun:
    """End the waits for this signal, with ``payload`` for their result.

    Raises ``InvalidInput`` (``payload``), ``Conflict`` where nothing waits for it (yet, or any more), ``NotFound``.
    """
    check_payload(payload)
    return _answer(
        tenant,
        run_id,
        kind="signal",
        name=name,
        result=payload,
        refusal=f"Nothing in this run waits for the signal {name} now.",
    )


def check_payload(payload: object) -> None:
    """Refuse a payload that no signal could bring. Raises ``InvalidInput`` (``payload``)."""
    check_json(payload, field="payload", max_bytes=MAX_RESULT_BYTES)


def decide(
    *, tenant: Tenant, run_id: UUID | str, task: str, approved: bool, comment: str = ""
) -> WorkflowRun:
    """Approve the request of a task, so that the task succeeds; or refuse it, so that the task is cancelled.

    Raises ``Conflict`` if the task does not ask (yet, or any more), ``NotFound``.
    """
    run = find_run(tenant=tenant, run_id=run_id)
    if not run.version.tasks.filter(key=task).exists():
        raise NotFound("This run has no such task.")
    return _answer(
        tenant,
        run_id,
        kind="approval",
        name=task,
        result={"approved": approved, "by": present_name(), "comment": comment},
        refused=not approved,
        refusal=f"Task {task} does not wait for an approval now.",
    )


def _answer(
    tenant: Tenant, run_id: UUID | str, *, kind: str, name: str, refusal: str, **said: Any
) -> WorkflowRun:
    found = find_run(tenant=tenant, run_id=run_id)
    with db.atomic():
        if not store.answer(run_id=found.id, tenant_id=tenant.id, kind=kind, name=name, **said):
            raise Conflict(refusal)
        outcome = "refused" if said.get("refused") else "given"
        note(
            found.workflow,
            Change.Action.UPDATED,
            {"run": [str(found.id)] * 2, f"{kind} {name}": [None, outcome]},
        )
        wake_beats()
    return runs_of(tenant).get(id=found.id)
