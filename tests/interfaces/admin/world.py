"""One row of everything the console shows, its pages, and the inputs that a browser sends."""

import re
from datetime import timedelta
from functools import cached_property
from typing import Any
from uuid import uuid4

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Permission, User
from django.contrib.messages import get_messages
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from django_celery_results.models import TaskResult

from jobs.actions.bulk.operations import begin_operation
from jobs.core.levers.targets import regex_of
from jobs.models import Breaker, Change, Installation, Lease, Queue, TargetRule, Workflow, WorkflowRun
from jobs.store.trail import Actor, acting_as
from tenants.actions import create_api_key
from tenants.models import OperatorSession, Tenant
from tenants.vault.secrets import put_secret
from tests import factories
from tests.workflows.playing import begin, make_workflow

CONFIRMED = {"_form_submitted": "on"}
MODELS = (
    "jobs_job",
    "jobs_trigger",
    "jobs_deadletter",
    "jobs_attempt",
    "jobs_lease",
    "django_celery_results_taskresult",
    "tenants_tenant",
    "tenants_apikey",
    "tenants_secret",
    "tenants_operatorsession",
    "jobs_change",
    "jobs_installation",
    "jobs_queue",
    "jobs_targetrule",
    "jobs_breaker",
    "jobs_operation",
    "jobs_workflow",
    "jobs_workflowrun",
)
#: Every page of the console that is Carillon's, so that a new one is tested from the day it is added.
PAGES = {
    pattern.name: "<path:object_id>" in str(pattern.pattern)
    for model, page in admin.site._registry.items()
    if model._meta.app_label in ("jobs", "tenants", "django_celery_results")
    for pattern in page.get_urls()
    if pattern.name
}
#: Pages that Django offers and no operator may use: engine rows are not added, nothing is deleted in Django's way.
NOBODYS = {f"{model}_delete" for model in MODELS} | {
    f"{model}_add"
    for model in (
        "jobs_trigger",
        "jobs_attempt",
        "jobs_lease",
        "django_celery_results_taskresult",
        "tenants_secret",
        "tenants_operatorsession",
        "jobs_change",
        "jobs_installation",
        "jobs_queue",
        "jobs_targetrule",
        "jobs_breaker",
        "jobs_operation",
        "jobs_workflow",
        "jobs_workflowrun",
    )
}


def open_breaker(tenant: Tenant, target: str) -> Breaker:
    at = factories.now()
    return Breaker.objects.create(
        tenant=tenant,
        target=target,
        state="open",
        failures=10,
        successes=0,
        window_ends_at=at,
        openings=1,
        probe_at=at + factories.HOUR,
        changed_at=at,
    )


class World:
    """One row of everything the console shows."""

    def __init__(self) -> None:
        self.tenant = factories.make_tenant()
        self.job = factories.make_job(self.tenant, name="close-books")
        self.dead = factories.make_trigger(self.job, "dead")
        self.attempt = factories.make_attempt(
            self.dead,
            "failed",
            celery_task_id=str(uuid4()),
            error_code="http_503",
            error_message="<b>busy</b>",
        )
        self.lease = Lease.objects.create(
            name="leader", holder="beat-1", term=7, expires_at=factories.now() + timedelta(hours=1)
        )
        self.result = TaskResult.objects.create(task_id=self.attempt.celery_task_id, status="SUCCESS")
        self.secret, _ = put_secret(
            tenant=self.tenant, name="token", value="value of the secret", hosts=["*"]
        )
        self.key, self.token = create_api_key(tenant=self.tenant, name="ci", scopes=["read"])
        self.session = OperatorSession.objects.create(
            operator=User.objects.create_user("visitor", is_staff=True),
            began_at=factories.now(),
            seen_at=factories.now(),
            address="198.51.100.7",
        )
        self.change = Change.objects.get(kind="api_key")
        self.installation, _ = Installation.objects.get_or_create(id=1)
        with acting_as(Actor("api_key", "ck_1 ci")):
            self.operation = begin_operation(tenant=self.tenant, verb="pause", wanted={"priority": "low"})
        # A name that is quoted in addresses of the admin.
        self.queue = Queue.objects.create(job_type="celery_task", window=16, measured_at=factories.now())
        self.target = TargetRule.objects.create(
            name="api.example.com", regex=regex_of("api.example.com"), rate_per_second=5
        )

        self.breaker = open_breaker(self.tenant, "api.example.com")

    @cached_property
    def workflow(self) -> Workflow:
        return make_workflow(self.tenant, ("extract", "load"), name="etl")

    @cached_property
    def run(self) -> WorkflowRun:
        """Begins when it is first asked for: its first task is due at once, and other tests count due triggers."""
        return begin(self.workflow)

    def url(self, page: str) -> str:
        rows = {
            "jobs_job": "job",
            "jobs_trigger": "dead",
            "jobs_attempt": "attempt",
            "jobs_lease": "lease",
            "django_celery_results_taskresult": "result",
            "tenants_tenant": "tenant",
            "tenants_apikey": "key",
            "tenants_secret": "secret",
            "tenants_operatorsession": "session",
            "jobs_change": "change",
            "jobs_installation": "installation",
            "jobs_queue": "queue",
            "jobs_targetrule": "target",
            "jobs_breaker": "breaker",
            "jobs_operation": "operation",
            "jobs_workflowrun": "run",
            "jobs_workflow": "workflow",
        }
        name = next(name for model, name in rows.items() if page.startswith(model)) if PAGES[page] else ""
        return reverse(f"admin:{page}", args=[quote(getattr(self, name).pk)] if name else [])


def signed_in(*codenames: str) -> Client:
    """A browser of a new member of staff with those permissions and no others."""
    user = User.objects.create_user(f"staff-{User.objects.count()}", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    client = Client()
    client.force_login(user)
    return client


def said(response: HttpResponse) -> str:
    """The last message of a response."""
    return str(list(get_messages(response.wsgi_request))[-1])


def press(client: Client, page: str, row: Any, **typed: str) -> HttpResponse:
    """Confirm a button of ``row``'s page, with the inputs that its dialog asks for."""
    return client.post(reverse(f"admin:{page}", args=[quote(row.pk)]), {**CONFIRMED, **typed})


def inputs(**changes: str) -> dict[str, str]:
    """The inputs that a browser sends for a new cron job."""
    return {
        "name": "nightly",
        "job_type": "noop",
        "payload": "{}",
        "schedule_type": "cron",
        "schedule_cron": "0 2 * * *",
        "schedule_timezone": "Europe/Berlin",
        "schedule_every_seconds": "",
        "retry_policy": "{}",
    } | changes


def confirm_shares(client: Client, url: str) -> HttpResponse:
    """Confirm a page's question about many rows, with the number it shows for each tenant."""
    page = client.get(url).content.decode()
    return client.post(url, dict(re.findall(r'name="(confirmed_\d+)" value="(\d+)"', page)), follow=True)
