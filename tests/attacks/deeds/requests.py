"""Requests: over the API by the tenant, by another one and by a worker, and in the console by operators."""

from unittest import mock

from django.apps import apps
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse

from jobs.models import Attempt, Trigger
from tests.attacks.deeds.refusing import refusing
from tests.attacks.deeds.world import PAYLOAD, World
from tests.factories import make_trigger
from tests.interfaces.api.caller import noop_job
from tests.pull.conftest import TYPE, declare, pull_job


def break_the_database_under_the_api(world: World) -> None:
    """The database's error holds the row that it refuses: "Failing row contains (…)", and the statement beside it."""
    credential = world.canaries[PAYLOAD]
    body = noop_job(
        name="refused", job_type="webhook", payload={"url": "http://a.example/", "body": credential}
    )
    with refusing("jobs_job", "name <> 'refused'"):
        assert world.ask(world.caller, "POST", "/jobs", body).status_code == 500


def fail_to_log_in(world: World) -> None:
    password = world.canaries["an operator's password"]
    browser = Client(raise_request_exception=False)
    assert browser.post("/admin/login/", {"username": "ops", "password": password + "x"}).status_code == 200
    connection.close()
    with mock.patch.dict(connection.settings_dict, {"HOST": "/nowhere", "PORT": "1"}):
        answer = browser.post("/admin/login/", {"username": "ops", "password": password})
    connection.close()
    assert answer.status_code == 500
    world.error_answers.append(answer.content.decode())


def pull(world: World) -> None:
    declare(world.tenant)
    job = pull_job(world.tenant, payload={"password": world.canaries[PAYLOAD]})
    trigger = make_trigger(job, "queued")
    body = {"worker": "w1", "job_types": [TYPE], "capacity": 1}
    assert world.ask(world.worker, "POST", "/worker/claim", body).json()["triggers"][0]["trigger_id"] == str(
        trigger.id
    )
    assert world.ask(world.worker, "GET", "/jobs").status_code == 403


def ask_for_everything(world: World) -> None:
    secret = world.canaries["a secret in a URL"]
    paths = [
        *("/jobs", "/triggers", "/dead-letters", "/operations", "/tenant", "/tenant/notify", "/secrets"),
        *("/secrets/url", "/signing-secret", "/job-types", "/events", "/audit"),
    ]
    for job in world.jobs:
        paths += [
            f"/jobs/{job.id}{rest}" for rest in ("", "/triggers", "/attempts", "/executions", "/explain")
        ]
    for trigger in Trigger.objects.filter(tenant=world.tenant):
        paths += [f"/triggers/{trigger.id}{rest}" for rest in ("", "/attempts", "/explain")]
    for attempt in Attempt.objects.filter(tenant_id=world.tenant.id):
        paths.append(f"/attempts/{attempt.id}")
    for path in paths:
        world.ask(world.caller, "GET", path)
        world.ask(world.outsider, "GET", path)
    key = str(world.caller.token)
    for refused in (f"Bearer {key}x", f"Bearer {key} {key}", key, f"Basic {key}"):
        assert world.ask(world.caller, "GET", "/jobs", Authorization=refused).status_code == 401
    for body in (
        {"value": secret},
        {"value": secret + "\n", "hosts": ["*"]},
        {"value": [secret], "hosts": ["*"]},
    ):
        assert world.ask(world.caller, "PUT", "/secrets/new", body).status_code == 400
    assert world.ask(world.caller, "POST", "/jobs", b'{"payload": "' + secret.encode()).status_code == 400


def look_into_the_console(world: World) -> None:
    operator = Client()
    operator.force_login(User.objects.get(username="ops"))
    pages = ["/admin/", *(reverse(f"admin:{page}_changelist") for page in LISTS)]
    for page in SHOWN:
        rows = apps.get_model(*page.split("/")).objects.values_list("pk", flat=True)
        pages += [f"/admin/{page}/{pk}/change/" for pk in rows[:3]]
    for page in pages:
        answer = operator.get(page, follow=True)
        assert answer.status_code == 200, page
        world.pages.append(answer.content.decode())


SHOWN = ("jobs/job", "jobs/trigger", "jobs/attempt", "django_celery_results/taskresult")
LISTS = (
    *("jobs_job", "jobs_trigger", "jobs_deadletter", "jobs_attempt", "jobs_change", "jobs_operation"),
    *("django_celery_results_taskresult", "tenants_tenant", "tenants_apikey", "tenants_secret"),
)
