"""The sidebar: the pages that an operator needs, in the order of an incident. Links only to pages the user may see."""

from typing import Any

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.urls import reverse

from jobs.admin.shared.cells import flower_url

#: title, icon, URL name, permission
_FIRINGS = (
    ("Jobs", "event_repeat", "admin:jobs_job_changelist", "jobs.view_job"),
    ("Triggers", "bolt", "admin:jobs_trigger_changelist", "jobs.view_trigger"),
    ("Workflows", "account_tree", "admin:jobs_workflow_changelist", "jobs.view_workflow"),
    ("Workflow runs", "schema", "admin:jobs_workflowrun_changelist", "jobs.view_workflowrun"),
    ("Next 24 hours", "calendar_clock", "console_upcoming", "jobs.view_job"),
    ("Failures", "heart_broken", "failures", "jobs.view_trigger"),
    ("Dead letters", "skull", "admin:jobs_deadletter_changelist", "jobs.view_trigger"),
    ("Attempts", "replay", "admin:jobs_attempt_changelist", "jobs.view_attempt"),
    ("Operations", "checklist", "admin:jobs_operation_changelist", "jobs.view_operation"),
)
#: Beside the overview.
_AT_A_GLANCE = (("Charts", "monitoring", "console_charts", "jobs.view_trigger"),)
_ACCESS = (
    ("Tenants", "apartment", "admin:tenants_tenant_changelist", "tenants.view_tenant"),
    ("API keys", "key", "admin:tenants_apikey_changelist", "tenants.view_apikey"),
    ("Secrets", "lock", "admin:tenants_secret_changelist", "tenants.view_secret"),
    ("Operators", "person", "admin:auth_user_changelist", "auth.view_user"),
    ("Sessions", "login", "admin:tenants_operatorsession_changelist", "tenants.view_operatorsession"),
    ("Groups", "group", "admin:auth_group_changelist", "auth.view_group"),
    ("Audit trail", "history", "admin:jobs_change_changelist", "jobs.view_change"),
)
_ENGINE = (
    ("Dispatch", "pan_tool", "admin:jobs_installation_changelist", "jobs.view_installation"),
    ("Job types", "category", "admin:jobs_queue_changelist", "jobs.view_queue"),
    ("Workers", "memory", "workers", "jobs.view_queue"),
    ("Installation", "settings", "installation_state", "jobs.view_installation"),
    ("Targets", "dns", "admin:jobs_targetrule_changelist", "jobs.view_targetrule"),
    ("Circuit breakers", "power_off", "admin:jobs_breaker_changelist", "jobs.view_breaker"),
    ("Leases", "flag", "admin:jobs_lease_changelist", "jobs.view_lease"),
    (
        "Celery results",
        "inventory",
        "admin:django_celery_results_taskresult_changelist",
        "django_celery_results.view_taskresult",
    ),
)


_ENVIRONMENTS = {
    "production": "danger",
    "prod": "danger",
    "live": "danger",
    "staging": "warning",
    "stage": "warning",
}


def environment(request: HttpRequest) -> list[str] | None:
    """Unfold's ``ENVIRONMENT``: the name of this installation in the settings, and the colour of that name."""
    name = settings.PLATFORM.environment
    return [name, _ENVIRONMENTS.get(name.lower(), "info")] if name else None


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """Unfold's ``SIDEBAR["navigation"]``."""
    engine = [
        *_links(request, _ENGINE),
        {"title": "Flower", "icon": "local_florist", "link": flower_url()},
        {"title": "Playbooks", "icon": "menu_book", "link": reverse("playbooks")},
        {"title": "API documentation", "icon": "api", "link": reverse("docs")},
    ]
    return [
        {
            "items": [
                {"title": "Overview", "icon": "dashboard", "link": reverse("admin:index")},
                *_links(request, _AT_A_GLANCE),
            ]
        },
        {"title": "Firings", "separator": True, "items": _links(request, _FIRINGS)},
        {"title": "Access", "separator": True, "items": _links(request, _ACCESS)},
        {"title": "Engine", "separator": True, "items": engine},
    ]


def _links(request: HttpRequest, entries: tuple[tuple[str, ...], ...]) -> list[dict[str, Any]]:
    user = getattr(request, "user", None) or AnonymousUser()
    return [
        {"title": title, "icon": icon, "link": reverse(name), "active": reverse(name) == request.path}
        for title, icon, name, permission in entries
        if user.has_perm(permission) or user.has_perm(permission.replace(".view_", ".change_"))
    ]
