"""Every route of the API: the body that its owner sends, the status that follows, and how its path is filled in."""

from typing import Any

from django.urls import URLPattern

from tenants.actions import TENANT_SCOPES
from tenants.models import Tenant
from tests.interfaces.api.caller import V1, Caller, noop_job

MISSING = "018f0000-0000-7000-8000-000000000000"
#: A job type that every tenant of these tests declares for itself.
PULL_TYPE = "access.type"
#: From method and route to the body that succeeds for the owner and the status it then gets. ``{job}`` and
#: ``{trigger}`` are the owner's; the trigger is pending unless a state is named.
ROUTES: dict[tuple[str, str], tuple[Any, int]] = {
    ("GET", "jobs"): (None, 200),
    ("POST", "jobs"): (noop_job(name="another"), 201),
    ("POST", "jobs/bulk"): ({"jobs": [noop_job(name="bulk")]}, 200),
    ("GET", "jobs/by-name/<path:name>"): (None, 200),
    ("PUT", "jobs/by-name/<path:name>"): (noop_job(name=None), 200),
    ("GET", "jobs/<uuid:job_id>"): (None, 200),
    ("PATCH", "jobs/<uuid:job_id>"): ({"priority": "high"}, 200),
    ("DELETE", "jobs/<uuid:job_id>"): (None, 204),
    ("POST", "jobs/<uuid:job_id>/pause"): (None, 200),
    ("POST", "jobs/<uuid:job_id>/resume"): (None, 200),
    ("POST", "jobs/<uuid:job_id>/cancel"): (None, 200),
    ("POST", "jobs/<uuid:job_id>/run"): (None, 201),
    ("POST", "jobs/<uuid:job_id>/backfill"): (
        {"start": "2025-03-01T00:00:00Z", "end": "2025-03-02T00:00:00Z", "dry_run": True},
        200,
    ),
    ("GET", "jobs/<uuid:job_id>/backfills"): (None, 200),
    ("POST", "jobs/<uuid:job_id>/backfills/<uuid:backfill_id>/cancel"): (None, 200),
    ("PATCH", "jobs/<uuid:job_id>/status"): ({"status": "paused"}, 200),
    ("GET", "jobs/<uuid:job_id>/triggers"): (None, 200),
    ("GET", "jobs/<uuid:job_id>/attempts"): (None, 200),
    ("GET", "jobs/<uuid:job_id>/executions"): (None, 200),
    ("GET", "jobs/<uuid:job_id>/preview"): (None, 200),
    ("GET", "jobs/<uuid:job_id>/explain"): (None, 200),
    ("GET", "jobs/<uuid:job_id>/stats"): (None, 200),
    ("POST", "schedules/preview"): ({"schedule": {"type": "cron", "cron": "@daily"}}, 200),
    ("GET", "triggers"): (None, 200),
    ("GET", "triggers/<uuid:trigger_id>"): (None, 200),
    ("GET", "triggers/<uuid:trigger_id>/attempts"): (None, 200),
    ("GET", "triggers/<uuid:trigger_id>/explain"): (None, 200),
    ("POST", "triggers/<uuid:trigger_id>/cancel"): (None, 200),
    ("POST", "triggers/<uuid:trigger_id>/replay"): (None, 200),
    ("GET", "stats"): (None, 200),
    ("GET", "attempts"): (None, 200),
    ("GET", "attempts/<uuid:attempt_id>"): (None, 200),
    ("GET", "dead-letters"): (None, 200),
    ("POST", "dead-letters/replay"): ({"filter": {}}, 200),
    ("POST", "dead-letters/dismiss"): ({"filter": {}, "note": "Mended since."}, 200),
    ("GET", "operations"): (None, 200),
    ("POST", "operations"): ({"verb": "pause", "filter": {}}, 202),
    ("GET", "operations/<uuid:operation_id>"): (None, 200),
    ("POST", "operations/<uuid:operation_id>/pause"): (None, 200),
    ("POST", "operations/<uuid:operation_id>/resume"): (None, 200),
    ("POST", "operations/<uuid:operation_id>/cancel"): (None, 200),
    ("GET", "workflows"): (None, 200),
    ("POST", "workflows"): ({"name": "etl", "tasks": {"load": {"job_type": "noop"}}}, 201),
    ("GET", "workflows/<uuid:workflow_id>"): (None, 200),
    ("PUT", "workflows/<uuid:workflow_id>"): ({"name": "etl", "tasks": {"load": {"job_type": "noop"}}}, 200),
    ("DELETE", "workflows/<uuid:workflow_id>"): (None, 204),
    ("POST", "workflows/<uuid:workflow_id>/runs"): (None, 201),
    ("POST", "workflows/<uuid:workflow_id>/backfills"): (
        {"start": "2025-03-01T00:00:00Z", "end": "2025-03-02T00:00:00Z", "dry_run": True},
        200,
    ),
    ("GET", "workflows/<uuid:workflow_id>/backfills"): (None, 200),
    ("POST", "workflows/<uuid:workflow_id>/backfills/<uuid:backfill_id>/cancel"): (None, 200),
    ("POST", "workflows/<uuid:workflow_id>/pause"): (None, 200),
    ("POST", "workflows/<uuid:workflow_id>/resume"): (None, 200),
    ("GET", "workflows/<uuid:workflow_id>/versions"): (None, 200),
    ("GET", "workflows/<uuid:workflow_id>/versions/<int:number>"): (None, 200),
    ("GET", "workflows/<uuid:workflow_id>/versions/<int:number>/compare/<int:other>"): (None, 200),
    ("POST", "workflows/<uuid:workflow_id>/versions/<int:number>/restore"): (None, 200),
    ("GET", "workflow-runs"): (None, 200),
    ("GET", "workflow-runs/<uuid:run_id>"): (None, 200),
    ("GET", "workflow-runs/<uuid:run_id>/explain"): (None, 200),
    ("POST", "workflow-runs/<uuid:run_id>/pause"): (None, 200),
    ("POST", "workflow-runs/<uuid:run_id>/resume"): (None, 200),
    ("POST", "workflow-runs/<uuid:run_id>/cancel"): (None, 200),
    ("POST", "workflow-runs/<uuid:run_id>/retry"): (None, 200),
    ("POST", "workflow-runs/<uuid:run_id>/signals/<slug:name>"): (None, 409),
    ("POST", "workflow-runs/<uuid:run_id>/tasks/<slug:task>/approve"): (None, 409),
    ("POST", "workflow-runs/<uuid:run_id>/tasks/<slug:task>/refuse"): (None, 409),
    ("GET", "workflow-runs/<uuid:run_id>/tasks/<slug:task>/items"): (None, 200),
    ("GET", "tenant"): (None, 200),
    ("PUT", "tenant/notify"): ({"on": ["dead"], "url": "https://ops.example/hook"}, 200),
    ("DELETE", "tenant/notify"): (None, 204),
    ("GET", "job-types"): (None, 200),
    ("GET", "job-types/<str:name>"): (None, 200),
    ("PUT", "job-types/<str:name>"): ({"timeout_seconds": 5}, 200),
    ("DELETE", "job-types/<str:name>"): (None, 204),
    ("GET", "events"): (None, 200),
    ("GET", "audit"): (None, 200),
    ("POST", "worker/claim"): ({"worker": "w1", "job_types": [PULL_TYPE]}, 200),
    ("POST", "worker/heartbeat"): ({"triggers": [{"trigger_id": MISSING, "fence": 1}]}, 200),
    ("POST", "worker/complete"): ({"trigger_id": MISSING, "fence": 1, "outcome": "succeeded"}, 404),
    ("GET", "installation"): (None, 200),
    ("PATCH", "installation"): ({"dispatch": "stopped", "reason": "Incident 42."}, 200),
    ("GET", "installation/job-types"): (None, 200),
    ("GET", "installation/job-types/<str:name>"): (None, 200),
    ("PATCH", "installation/job-types/<str:name>"): ({"max_in_flight": 4}, 200),
    ("GET", "installation/targets"): (None, 200),
    ("PUT", "installation/targets/<str:pattern>"): ({"max_in_flight": 4}, 200),
    ("PATCH", "installation/targets/<str:pattern>"): ({"max_in_flight": 4}, 200),
    ("DELETE", "installation/targets/<str:pattern>"): (None, 204),
    ("GET", "installation/tenants"): (None, 200),
    ("POST", "installation/tenants"): ({"slug": "another"}, 201),
    ("GET", "installation/tenants/<str:slug>"): (None, 200),
    ("PATCH", "installation/tenants/<str:slug>"): ({"weight": 7}, 200),
    ("GET", "installation/tenants/<str:slug>/keys"): (None, 200),
    ("POST", "installation/tenants/<str:slug>/keys"): ({"name": "new", "scopes": ["read"]}, 201),
    ("GET", "installation/tenants/<str:slug>/keys/<str:prefix>"): (None, 200),
    ("DELETE", "installation/tenants/<str:slug>/keys/<str:prefix>"): (None, 204),
    ("GET", "secrets"): (None, 200),
    ("GET", "secrets/<str:name>"): (None, 200),
    ("PUT", "secrets/<str:name>"): ({"value": "replaced value", "hosts": ["*"]}, 200),
    ("DELETE", "secrets/<str:name>"): (None, 204),
    ("GET", "signing-secret"): (None, 200),
    ("PUT", "signing-secret"): ({"secret": "whsec_" + "QUJD" * 8}, 200),
}
#: The scope of paths that begin with the key, if it does not follow from the method.
SCOPES = {"worker": "worker", "audit": "admin", "installation": "operator"}
#: Routes whose objects are a tenant's; the others are for keys of the installation.
OF_TENANTS = [route for route in ROUTES if not route[1].startswith("installation")]
OF_ONE_OBJECT = [
    route
    for route in OF_TENANTS
    if "<uuid:" in route[1] or (route[0] in ("GET", "DELETE") and "<" in route[1])
]


def methods(pattern: URLPattern) -> list[str]:
    view: Any = pattern.callback
    return [
        name.upper() for name in ("get", "post", "put", "patch", "delete") if hasattr(view.view_class, name)
    ]


def with_ids(
    route: str,
    *,
    job: object,
    trigger: object,
    name: str,
    operation: object = MISSING,
    attempt: object = MISSING,
    backfill: object = MISSING,
    workflow: object = MISSING,
    run: object = MISSING,
    slug: str = "missing",
    prefix: str = "missing",
) -> str:
    own_type = "noop" if route.startswith("installation") else PULL_TYPE
    filled = {
        "<uuid:job_id>": job,
        "<uuid:trigger_id>": trigger,
        "<uuid:operation_id>": operation,
        "<uuid:attempt_id>": attempt,
        "<uuid:backfill_id>": backfill,
        "<uuid:workflow_id>": workflow,
        "<uuid:run_id>": run,
        "<int:number>": 1,
        "<slug:name>": "paid",
        "<slug:task>": "extract",
        "<int:other>": 1,
        "<str:slug>": slug,
        "<str:prefix>": prefix,
        "<path:name>": name,
        "<str:name>": own_type if name != MISSING else "missing",
        "<str:pattern>": "api.example.com" if name != MISSING else "missing.example.com",
    }
    for place, value in filled.items():
        route = route.replace(place, str(value))
    return f"{V1}/{route}"


def served(owner: Caller, route: str) -> Caller:
    """A caller that the route serves: the owner, or a key of the installation."""
    return Caller.of_installation() if route.startswith("installation") else owner


def with_scope(tenant: Tenant, scope: str) -> Caller:
    """A caller with this scope alone. The key is the tenant's if a tenant's key may have the scope."""
    return Caller(tenant, scopes=(scope,)) if scope in TENANT_SCOPES else Caller.of_installation()
