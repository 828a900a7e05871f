"""The operators' console: who may see and do what, that writes are the actions', that lists never count."""

import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.contrib.messages import get_messages
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django_celery_results.models import TaskResult

from jobs.admin import dead_letter
from jobs.admin.job_form import JobForm
from jobs.admin.shared.lists import first_id_since
from jobs.explain import GATE_NAMES
from jobs.models import Change, Job, Lease, SkippedRange, Trigger
from jobs.store import leases
from jobs.store.insight import clocks, workers
from tenants.actions import authenticate, create_api_key, create_tenant
from tenants.models import ApiKey, Tenant
from tenants.vault.secrets import put_secret
from tenants.vault.signing import open_signing_secrets
from tests import factories

pytestmark = pytest.mark.django_db

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
    "jobs_change",
)
#: Every page of the console that is Carillon's, so that a new one is tested from the day it is added.
PAGES = {
    pattern.name: "<path:object_id>" in str(pattern.pattern)
    for model, page in admin.site._registry.items()
    if model._meta.app_label in ("jobs", "tenants", "django_celery_results")
    for pattern in page.get_urls()
    if pattern.name
}
#: Pages Django offers and nobody may use: engine rows are not added, nothing is deleted in Django's way.
NOBODYS = {f"{model}_delete" for model in MODELS} | {
    f"{model}_add"
    for model in (
        "jobs_trigger",
        "jobs_attempt",
        "jobs_lease",
        "django_celery_results_taskresult",
        "tenants_secret",
        "jobs_change",
    )
}


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
        self.secret, _ = put_secret(tenant=self.tenant, name="token", value="value of the secret")
        self.key, self.token = create_api_key(tenant=self.tenant, name="ci", scopes=["read"])
        self.change = Change.objects.get(kind="api_key")

    def url(self, page: str) -> str:
        rows = {
            "jobs_job": self.job,
            "jobs_trigger": self.dead,
            "jobs_attempt": self.attempt,
            "jobs_lease": self.lease,
            "django_celery_results_taskresult": self.result,
            "tenants_tenant": self.tenant,
            "tenants_apikey": self.key,
            "tenants_secret": self.secret,
            "jobs_change": self.change,
        }
        (row,) = (row for model, row in rows.items() if page.startswith(model)) if PAGES[page] else (None,)
        return reverse(f"admin:{page}", args=[row.pk] if row else [])


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def operator() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


@pytest.fixture
def staff() -> Callable[..., Client]:
    """``staff("view_job")`` is logged in with those permissions and no others."""

    def log_in(*codenames: str) -> Client:
        user = User.objects.create_user(f"staff-{User.objects.count()}", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        client = Client()
        client.force_login(user)
        return client

    return log_in


def said(response: HttpResponse) -> str:
    """The last message of a response."""
    return str(list(get_messages(response.wsgi_request))[-1])


def press(client: Client, page: str, row: Any) -> HttpResponse:
    """Confirm a button of ``row``'s page."""
    return client.post(reverse(f"admin:{page}", args=[row.pk]), CONFIRMED)


def inputs(**changes: str) -> dict[str, str]:
    """What a browser sends for a new cron job."""
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


class TestPages:
    @pytest.mark.parametrize("page", sorted(PAGES))
    def test_a_superuser_sees_every_page_there_is(self, page: str, world: World, operator: Client) -> None:
        assert operator.get(world.url(page)).status_code == (403 if page in NOBODYS else 200)

    @pytest.mark.parametrize("page", sorted(PAGES))
    @pytest.mark.parametrize("method", ["get", "post"])
    def test_staff_without_permission_sees_none(
        self, page: str, method: str, world: World, staff: Callable[..., Client]
    ) -> None:
        client = staff()
        assert getattr(client, method)(world.url(page), CONFIRMED).status_code == 403
        assert Job.objects.get(id=world.job.id).status == "active"

    @pytest.mark.parametrize("page", sorted(PAGES))
    def test_strangers_are_sent_to_the_login(self, page: str, world: World) -> None:
        response = Client().get(world.url(page))
        assert response.status_code == 302
        assert response.url.startswith(reverse("admin:login"))

    @pytest.mark.parametrize("page", sorted(page for page in PAGES if page.endswith("_change")))
    def test_whoever_may_view_sees_a_page_and_cannot_write(
        self, page: str, world: World, staff: Callable[..., Client]
    ) -> None:
        client = staff(f"view_{page.removesuffix('_change').rpartition('_')[2]}")
        assert client.get(world.url(page)).status_code == 200
        assert client.post(world.url(page), {}).status_code == 403

    @pytest.mark.parametrize("model", ["jobs_trigger", "jobs_attempt", "jobs_lease"])
    def test_no_engine_row_can_be_edited_even_by_a_superuser(
        self, model: str, world: World, operator: Client
    ) -> None:
        for page in ("change", "delete", "add"):
            assert operator.post(world.url(f"{model}_{page}"), {"state": "pending"}).status_code == 403

    @pytest.mark.parametrize(
        "name", ["index", "auth_user_changelist", "auth_user_add", "auth_group_changelist"]
    )
    def test_the_rest_of_the_console_works_too(self, name: str, world: World, operator: Client) -> None:
        assert operator.get(reverse(f"admin:{name}")).status_code == 200

    def test_a_row_that_is_not_there_is_no_error(self, world: World, operator: Client) -> None:
        for object_id in (uuid4(), "none"):
            page = operator.get(reverse("admin:jobs_trigger_change", args=[object_id]))
            assert page.status_code == 302
            button = reverse("admin:jobs_job_pause", args=[object_id])
            assert operator.post(button, CONFIRMED).status_code == 404


class TestDashboard:
    def test_says_who_leads_and_what_waits(self, world: World, operator: Client) -> None:
        factories.make_trigger(world.job, "queued")
        factories.make_trigger(world.job, "pending")
        text = operator.get(reverse("admin:index")).content.decode()
        assert "beat-1" in text
        assert "term 7" in text
        assert re.search(r"noop</td>\s*<td[^>]*>1</td>\s*<td[^>]*>0</td>", text)

    def test_says_how_many_workers_take_from_each_queue(self, world: World, operator: Client) -> None:
        factories.make_trigger(world.job, "queued")
        workers.announce(name="w1", queues=["jobs.noop", "jobs.webhook"], concurrency=4)
        workers.announce(name="w2", queues=["jobs.webhook"], concurrency=4)
        text = operator.get(reverse("admin:index")).content.decode()
        rows = re.findall(r"<tr><td[^>]*>([a-z]+)</td>" + r"<td[^>]*>(\d+)</td>" * 3, text)
        assert rows == [("noop", "1", "0", "1"), ("webhook", "0", "0", "2")]

    def test_says_how_far_off_clocks_are(self, world: World, operator: Client) -> None:
        for name, ahead in (("beat@a:1", 0.0), ("w1@b", -300.0)):
            drift = clocks.Drift(name=name, clock=lambda ahead=ahead: factories.now().timestamp() + ahead)
            drift.measure_if_due()
            drift.measure_if_due()
        text = operator.get(reverse("admin:index")).content.decode()
        rows = re.findall(
            r"<td[^>]*>(beat@a:1|w1@b)</td><td[^>]*>(-300|[+-]0)\.\d+ s</td><td[^>]*>([^<]*)</td>", text
        )
        assert [(name, abs(int(offset)), note) for name, offset, note in rows] == [
            ("w1@b", 300, "too far off"),
            ("beat@a:1", 0, ""),
        ]

    def test_a_lease_that_ran_out_is_nobodys(self, world: World, operator: Client) -> None:
        Lease.objects.update(expires_at=factories.now() - timedelta(seconds=1))
        assert "beat-1" not in operator.get(reverse("admin:index")).content.decode()

    def test_says_which_beats_lead_how_many_shards_and_which_stand_by(
        self, world: World, operator: Client
    ) -> None:
        shards, lease = leases.divide(6), timedelta(seconds=10)
        for holder, most in (("host:1:a", 3), ("host:2:b", 1), ("host:3:c", 0)):
            leases.share(shards, holder=holder, duration=lease)
            leases.take(shards, holder=holder, most=most, duration=lease)
        world.lease.delete()
        leases.take(shards, holder="host:4:d", most=9, duration=-lease)
        text = operator.get(reverse("admin:index")).content.decode()
        found = re.findall(r"(host:\d:\w|nobody)\s*</\w+>\s*<p>([^<]*), (?:lease until|expired)", text)
        [only] = Lease.objects.filter(name__startswith="leader/", holder="host:2:b")
        assert dict(found) == {
            "host:1:a": "3 shards of 6",
            "host:2:b": f"{only.name}, term 1",
            "host:3:c": "stands by",
            "nobody": "2 shards of 6",
        }

    def test_shows_no_lease_of_a_division_that_is_given_up(self, world: World, operator: Client) -> None:
        leases.take(leases.divide(6), holder="old", most=6, duration=timedelta())
        text = operator.get(reverse("admin:index")).content.decode()
        assert "beat-1" in text
        assert "nobody" not in text

    def test_shows_no_figures_to_whom_the_rows_are_closed(
        self, world: World, staff: Callable[..., Client]
    ) -> None:
        text = staff().get(reverse("admin:index")).content.decode()
        assert "beat-1" not in text
        assert "In flight" not in text


class TestLists:
    def queries(self, client: Client, url: str) -> list[str]:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            assert client.get(url).status_code == 200
        return [query["sql"] for query in captured]

    @pytest.mark.parametrize(
        "page",
        [
            "jobs_job",
            "jobs_trigger",
            "jobs_deadletter",
            "jobs_attempt",
            "django_celery_results_taskresult",
            "jobs_change",
        ],
    )
    @pytest.mark.parametrize("query", ["", "?q=close", "?p=2"])
    def test_a_list_neither_counts_nor_joins_and_asks_as_much_for_many_rows_as_for_few(
        self, page: str, query: str, world: World, operator: Client
    ) -> None:
        url = reverse(f"admin:{page}_changelist") + query
        self.queries(operator, url)
        few = self.queries(operator, url)
        for number in range(60):
            tenant = factories.make_tenant()
            job = factories.make_job(tenant, name=f"close-{number}")
            trigger = factories.make_trigger(job, "dead")
            factories.make_attempt(trigger, "failed")
            TaskResult.objects.create(task_id=str(uuid4()), status="SUCCESS")
        many = self.queries(operator, url)
        # Prefetching asks by id once there is a row at all, on the second page only now.
        assert len(many) <= len(few) + 3
        assert [sql for sql in many if "COUNT(" in sql] == []
        assert [sql for sql in many if "JOIN" in sql and ("jobs_" in sql or "taskresult" in sql)] == []

    def test_pages_follow_each_other_without_a_gap(self, world: World, operator: Client) -> None:
        triggers = [world.dead, *factories.make_triggers(world.job, 60)]
        url = reverse("admin:jobs_trigger_changelist")
        pages = [operator.get(f"{url}?p={number}").context["cl"] for number in (1, 2)]
        assert [trigger.id for page in pages for trigger in page.result_list] == [
            trigger.id for trigger in sorted(triggers, key=lambda trigger: trigger.id, reverse=True)
        ]
        assert [page.has_next for page in pages] == [True, False]

    @pytest.mark.parametrize("number", ["-1", "0", "x", "9999999999999999999999"])
    def test_a_senseless_page_number_is_no_error(self, number: str, world: World, operator: Client) -> None:
        assert operator.get(reverse("admin:jobs_trigger_changelist") + f"?p={number}").status_code == 200

    def test_a_sort_order_from_the_url_is_ignored(self, world: World, operator: Client) -> None:
        url = reverse("admin:jobs_job_changelist") + "?o=1"
        assert any('ORDER BY "jobs_job"."id" DESC LIMIT' in sql for sql in self.queries(operator, url))

    def test_triggers_are_found_by_their_id_and_by_their_jobs(self, world: World, operator: Client) -> None:
        factories.make_trigger()
        url = reverse("admin:jobs_trigger_changelist")
        for wanted in (world.dead.id, world.job.id):
            found = operator.get(f"{url}?q={wanted}").context["cl"].result_list
            assert [trigger.id for trigger in found] == [world.dead.id]
        for senseless in ("none", uuid4()):
            assert operator.get(f"{url}?q={senseless}").context["cl"].result_list == []
        assert operator.get(f"{url}?q=%00").status_code == 200

    def test_jobs_are_found_by_how_their_name_begins(self, world: World, operator: Client) -> None:
        factories.make_job(name="open-books")
        found = operator.get(reverse("admin:jobs_job_changelist") + "?q=close").context["cl"].result_list
        assert [job.name for job in found] == ["close-books"]

    def test_deleted_jobs_are_out_of_the_list_unless_asked_for(self, world: World, operator: Client) -> None:
        press(operator, "jobs_job_delete_for_good", world.job)
        url = reverse("admin:jobs_job_changelist")
        assert operator.get(url).context["cl"].result_list == []
        assert len(operator.get(f"{url}?deleted=1").context["cl"].result_list) == 1

    def test_created_within_bounds_the_primary_key(self, world: World) -> None:
        now = factories.now()
        assert (
            first_id_since(now - timedelta(minutes=1))
            < world.dead.id
            < first_id_since(now + timedelta(minutes=1))
        )


class TestJobForm:
    url = "/admin/jobs/job/add/"

    def test_creates_a_job_as_the_api_would(self, world: World, operator: Client) -> None:
        response = operator.post(self.url, inputs(tenant=str(world.tenant.id)))
        assert response.status_code == 302
        job = Job.objects.get(name="nightly")
        assert (job.tenant, job.cron_expression, job.timezone) == (world.tenant, "0 2 * * *", "Europe/Berlin")
        assert job.next_fire_at is not None
        assert job.version == 1

    @pytest.mark.parametrize(
        ("changes", "field"),
        [
            ({"schedule_cron": "61 * * * *"}, "schedule_cron"),
            ({"schedule_timezone": "localtime"}, "schedule_timezone"),
            ({"schedule_type": "interval", "schedule_every_seconds": "0.5"}, "schedule_every_seconds"),
            ({"schedule_type": "once", "schedule_run_at": "tomorrow"}, "schedule_run_at"),
            ({"schedule_type": "once", "schedule_run_at": "2001-01-01T00:00:00Z"}, "schedule_run_at"),
            ({"schedule_ends_at": "9999-12-31T23:59:59-12:00"}, "schedule_ends_at"),
            ({"payload": "{"}, "payload"),
            ({"payload": "[]"}, "payload"),
            ({"payload": '{"a": 1, "a": 2}'}, "payload"),
            ({"payload": '{"a": NaN}'}, "payload"),
            ({"payload": "[" * 100_000}, "payload"),
            ({"payload": '{"a": "\\u0000"}'}, "payload"),
            ({"job_type": "webhook", "payload": '{"url": 1}'}, "payload"),
            ({"job_type": "none.such"}, "job_type"),
            ({"retry_policy": '{"max_attempts": 0}'}, "retry_policy"),
            ({"max_concurrent": "0"}, "max_concurrent"),
            ({"timeout_seconds": "1e400"}, "timeout_seconds"),
            ({"name": "a\x00b"}, "name"),
            ({"name": ""}, "name"),
            ({"tenant": "999999"}, "tenant"),
        ],
    )
    def test_bad_input_lands_on_its_field_and_nothing_is_stored(
        self, changes: dict[str, str], field: str, world: World, operator: Client
    ) -> None:
        response = operator.post(self.url, inputs(tenant=str(world.tenant.id)) | changes)
        assert response.status_code == 200
        assert list(response.context["adminform"].form.errors) == [field]
        assert not Job.objects.filter(name="nightly").exists()

    def test_a_name_that_is_taken_is_told_at_the_name(self, world: World, operator: Client) -> None:
        response = operator.post(self.url, inputs(tenant=str(world.tenant.id), name="close-books"))
        assert "close-books" in response.context["adminform"].form.errors["name"][0]

    def test_a_full_quota_is_told(self, world: World, operator: Client) -> None:
        Tenant.objects.update(max_jobs=1)
        response = operator.post(self.url, inputs(tenant=str(world.tenant.id)))
        assert "max_jobs" in response.context["adminform"].form.non_field_errors()[0]

    def change(self, client: Client, job: Job, **changes: str) -> HttpResponse:
        """Open the page, change some inputs as a browser would, and save."""
        url = reverse("admin:jobs_job_change", args=[job.id])
        form = client.get(url).context["adminform"].form
        sent = {name: form[name].value() for name in form.fields}
        return client.post(url, {name: value for name, value in sent.items() if value is not None} | changes)

    def test_saving_without_a_change_makes_no_version(self, world: World, operator: Client) -> None:
        job = factories.make_job(
            world.tenant,
            payload={"sleep_ms": 5},
            retry_policy={"max_attempts": 3},
            starts_at=factories.now(),
        )
        self.change(operator, job)  # the stored policy gets its canonical form
        job.refresh_from_db()
        before = job.version
        assert self.change(operator, job).status_code == 302
        job.refresh_from_db()
        assert job.version == before
        assert job.payload == {"sleep_ms": 5}

    def test_an_edit_changes_what_was_edited_and_counts_a_version(
        self, world: World, operator: Client
    ) -> None:
        assert (
            self.change(operator, world.job, schedule_type="cron", schedule_cron="5 4 * * *").status_code
            == 302
        )
        job = Job.objects.get(id=world.job.id)
        assert (job.schedule_type, job.cron_expression, job.interval) == ("cron", "5 4 * * *", None)
        assert job.version == 2
        assert job.name == "close-books"

    def test_an_edit_leaves_alone_what_has_no_input(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job = factories.make_job(world.tenant, max_concurrent=3, jitter=timedelta(seconds=9))
        for name in ("max_concurrent", "schedule_jitter_seconds"):
            monkeypatch.delitem(JobForm.base_fields, name)
        form = JobForm(instance=job)
        sent = {name: form[name].value() for name in form.fields}
        sent = {name: value for name, value in sent.items() if value is not None} | {"priority": "low"}
        assert JobForm(sent, instance=job).is_valid()
        job.refresh_from_db()
        assert (job.max_concurrent, job.jitter, job.priority) == (3, timedelta(seconds=9), 3)

    def test_an_edit_that_was_overtaken_is_refused(self, world: World, operator: Client) -> None:
        response = self.change(operator, world.job, version="99", name="other")
        assert "version" in response.context["adminform"].form.non_field_errors()[0]

    def test_what_has_ended_cannot_be_edited(self, world: World, operator: Client) -> None:
        press(operator, "jobs_job_cancel", world.job)
        url = reverse("admin:jobs_job_change", args=[world.job.id])
        assert operator.get(url).status_code == 200
        assert operator.post(url, inputs()).status_code == 403


class TestJobButtons:
    def test_pause_resume_and_cancel_change_the_status(self, world: World, operator: Client) -> None:
        for page, status in (("pause", "paused"), ("resume", "active"), ("cancel", "cancelled")):
            response = press(operator, f"jobs_job_{page}", world.job)
            assert response.status_code == 302
            assert response.url == reverse("admin:jobs_job_change", args=[world.job.id])
            assert Job.objects.get(id=world.job.id).status == status

    def test_run_now_makes_a_trigger(self, world: World, operator: Client) -> None:
        press(operator, "jobs_job_run_now", world.job)
        assert Trigger.objects.filter(job=world.job, origin="run_now", state="pending").count() == 1

    def test_a_button_that_comes_too_late_says_so(self, world: World, operator: Client) -> None:
        press(operator, "jobs_job_cancel", world.job)
        assert "cancelled" in said(press(operator, "jobs_job_run_now", world.job))
        assert not Trigger.objects.filter(origin="run_now").exists()

    @pytest.mark.parametrize("page", ["pause", "cancel", "run_now", "delete_for_good"])
    def test_following_the_link_only_asks(self, page: str, world: World, operator: Client) -> None:
        response = operator.get(reverse(f"admin:jobs_job_{page}", args=[world.job.id]))
        assert b"<form" in response.content
        assert Job.objects.filter(status="active", deleted_at=None).exists()
        assert not Trigger.objects.filter(origin="run_now").exists()

    def test_confirming_without_a_csrf_token_is_refused(self, world: World) -> None:
        client = Client(enforce_csrf_checks=True)
        client.force_login(User.objects.create_superuser("root"))
        assert press(client, "jobs_job_cancel", world.job).status_code == 403
        assert Job.objects.get(id=world.job.id).status == "active"

    def test_viewers_are_offered_none_and_refused_all(
        self, world: World, staff: Callable[..., Client]
    ) -> None:
        client = staff("view_job")
        page = client.get(reverse("admin:jobs_job_change", args=[world.job.id]))
        assert page.context["actions_detail"] == []
        assert press(client, "jobs_job_pause", world.job).status_code == 403

    def test_whoever_may_change_may_operate_but_not_delete(
        self, world: World, staff: Callable[..., Client]
    ) -> None:
        client = staff("change_job")
        assert press(client, "jobs_job_pause", world.job).status_code == 302
        assert press(client, "jobs_job_delete_for_good", world.job).status_code == 403
        assert Job.objects.get(id=world.job.id).status == "paused"

    def test_the_page_offers_what_the_status_allows(self, world: World, operator: Client) -> None:
        press(operator, "jobs_job_pause", world.job)
        page = operator.get(reverse("admin:jobs_job_change", args=[world.job.id]))
        assert [action["title"] for action in page.context["actions_detail"]] == [
            "Resume",
            "Cancel",
            "Delete",
        ]

    def test_the_page_shows_the_next_firings_in_the_zone(self, world: World, operator: Client) -> None:
        operator.post(TestJobForm.url, inputs(tenant=str(world.tenant.id), schedule_timezone="Asia/Kolkata"))
        job = Job.objects.get(name="nightly")
        text = operator.get(reverse("admin:jobs_job_change", args=[job.id])).content.decode()
        assert text.count("02:00:00.000 IST") == 10
        assert text.count("20:30:00.000 UTC") == 10

    def test_the_page_shows_ranges_of_skipped_firings_among_the_triggers(
        self, world: World, operator: Client
    ) -> None:
        SkippedRange.objects.create(
            job=world.job,
            tenant_id=world.job.tenant_id,
            job_version=1,
            from_at=factories.now() - timedelta(days=1),
            until_at=factories.now(),
            count=1440,
            reason="paused",
            created_at=factories.now(),
        )
        text = operator.get(reverse("admin:jobs_job_change", args=[world.job.id])).content.decode()
        assert "1,440 firings since" in text


class TestTriggerPage:
    def test_leads_to_its_job_its_attempts_flower_and_the_result(
        self, world: World, operator: Client
    ) -> None:
        text = operator.get(reverse("admin:jobs_trigger_change", args=[world.dead.id])).content.decode()
        celery_task_id = world.attempt.celery_task_id
        result_url = reverse("admin:django_celery_results_taskresult_change", args=[celery_task_id])
        assert reverse("admin:jobs_job_change", args=[world.job.id]) in text
        assert f"/task/{celery_task_id}" in text
        assert result_url in text
        assert "http_503" in text
        assert world.result.task_id in operator.get(result_url).content.decode()

    def test_says_why_it_waits_gate_by_gate(self, world: World, operator: Client) -> None:
        job = factories.make_job(world.tenant, overlap_policy="queue")
        other, _ = factories.make_running(job)
        trigger = factories.make_trigger(job)
        text = operator.get(reverse("admin:jobs_trigger_change", args=[trigger.id])).content.decode()
        assert "Why does it wait?" in text
        assert "1 other trigger of its job unfinished" in text
        assert reverse("admin:jobs_trigger_change", args=[other.id]) in text
        assert text.count("<tr") >= len(GATE_NAMES)
        page = operator.get(reverse("admin:jobs_job_change", args=[job.id])).content.decode()
        assert "1 other trigger of its job unfinished" in page

    def test_says_how_it_ended(self, world: World, operator: Client) -> None:
        text = operator.get(reverse("admin:jobs_trigger_change", args=[world.dead.id])).content.decode()
        assert "How did it end?" in text
        assert "its retry budget is spent (exhausted)" in text

    def test_escapes_what_came_from_outside(self, world: World, operator: Client) -> None:
        text = operator.get(reverse("admin:jobs_trigger_change", args=[world.dead.id])).content.decode()
        assert "<b>busy</b>" not in text
        assert "&lt;b&gt;busy" in text

    def test_replays_and_cancels_one(self, world: World, operator: Client) -> None:
        press(operator, "jobs_trigger_replay", world.dead)
        assert factories.state_of(world.dead) == ("pending", "")
        press(operator, "jobs_trigger_cancel", world.dead)
        assert factories.state_of(world.dead) == ("cancelled", "requested")


class TestDeadLetters:
    url = "/admin/jobs/trigger/dead-letters/"

    @pytest.fixture
    def others(self, world: World) -> dict[str, Trigger]:
        return {
            "poison": factories.make_trigger(world.job, "dead", reason="poison"),
            "foreign": factories.make_trigger(None, "dead", reason="poison"),
            "running": factories.make_trigger(world.job, "running"),
            "skipped": factories.make_trigger(world.job, "skipped"),
        }

    def states(self, *triggers: Trigger) -> list[str]:
        return factories.states(triggers)

    def test_lists_the_dead_alone_with_their_last_error(
        self, world: World, others: dict[str, Trigger], operator: Client
    ) -> None:
        page = operator.get(self.url)
        assert {trigger.id for trigger in page.context["cl"].result_list} == {
            world.dead.id,
            others["poison"].id,
            others["foreign"].id,
        }
        assert "http_503" in page.content.decode()

    def test_replays_the_selected(self, world: World, others: dict[str, Trigger], operator: Client) -> None:
        selected = [str(world.dead.id), str(others["skipped"].id)]
        operator.post(self.url, {"action": "replay_selected", "_selected_action": selected, "index": "0"})
        assert self.states(world.dead, *others.values()) == ["pending", "dead", "dead", "running", "skipped"]

    @pytest.mark.parametrize(
        ("query", "states"),
        [
            ("", ["pending", "pending", "pending"]),
            ("?reason=poison", ["dead", "pending", "pending"]),
            ("?q={job}", ["pending", "pending", "dead"]),
            ("?reason=poison&tenant__id__exact={tenant}", ["dead", "pending", "dead"]),
            ("?job_type=webhook", ["dead", "dead", "dead"]),
            ("?q=nonsense", ["dead", "dead", "dead"]),
        ],
    )
    def test_replays_all_that_match_and_nothing_else(
        self, query: str, states: list[str], world: World, others: dict[str, Trigger], operator: Client
    ) -> None:
        query = query.format(job=world.job.id, tenant=world.tenant.id)
        link = operator.get(self.url + query).context["actions_list"][0]["path"]
        assert operator.get(link).status_code == 200
        assert self.states(world.dead, others["poison"], others["foreign"]) == ["dead"] * 3
        operator.post(link, CONFIRMED)
        assert self.states(world.dead, others["poison"], others["foreign"]) == states
        assert self.states(others["running"], others["skipped"]) == ["running", "skipped"]

    def test_takes_so_many_at_a_click_the_oldest_first(
        self, world: World, operator: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(dead_letter, "MOST_AT_ONCE", 2)
        triggers = sorted([world.dead, *factories.make_triggers(world.job, 2, "dead")], key=lambda t: t.id)
        assert "More match" in said(operator.post(f"{self.url}replay/", CONFIRMED))
        assert self.states(*triggers) == ["pending", "pending", "dead"]
        assert "More match" not in said(operator.post(f"{self.url}replay/", CONFIRMED))
        assert self.states(*triggers) == ["pending", "pending", "pending"]

    def test_those_of_a_cancelled_job_stay_and_it_is_told(self, world: World, operator: Client) -> None:
        press(operator, "jobs_job_cancel", world.job)
        assert "cancelled or deleted" in said(operator.post(f"{self.url}replay/", CONFIRMED))
        assert self.states(world.dead) == ["dead"]

    def test_viewers_cannot_replay(self, world: World, staff: Callable[..., Client]) -> None:
        client = staff("view_trigger")
        assert client.get(self.url).context["actions_list"] == []
        assert client.post(f"{self.url}replay/", CONFIRMED).status_code == 403
        client.post(
            self.url, {"action": "replay_selected", "_selected_action": [str(world.dead.id)], "index": "0"}
        )
        assert self.states(world.dead) == ["dead"]


class TestAccess:
    def test_a_tenants_secret_is_shown_at_its_creation_alone(self, operator: Client) -> None:
        sent = {
            "slug": "acme", "name": "Acme", "status": "active", "weight": "100", "max_in_flight": "10",
            "max_jobs": "10", "max_payload_bytes": "1000", "max_backfill": "10",
        }  # fmt: skip
        created = operator.post("/admin/tenants/tenant/add/", sent, follow=True)
        tenant = Tenant.objects.get(slug="acme")
        secret = open_signing_secrets(tenant.id, tenant.webhook_secret)
        assert secret in created.content.decode().replace("&#x3D;", "=")
        for page in ("/admin/tenants/tenant/", f"/admin/tenants/tenant/{tenant.id}/change/"):
            assert "whsec_" not in operator.get(page).content.decode()

    def test_a_rotated_signing_secret_is_shown_once_and_a_secret_never(
        self, world: World, operator: Client
    ) -> None:
        pressed = press(operator, "tenants_tenant_rotate_signing_secret", world.tenant)
        world.tenant.refresh_from_db()
        secret = open_signing_secrets(world.tenant.id, world.tenant.webhook_secret)
        assert secret in said(pressed)
        for page in ("tenants_secret_changelist", "tenants_secret_change", "tenants_tenant_history"):
            text = operator.get(world.url(page)).content.decode()
            assert world.secret.sealed not in text
            assert "value of the secret" not in text
            assert secret not in operator.get(world.url(page)).content.decode()

    def test_a_tenants_limits_can_be_edited_and_its_slug_cannot(self, operator: Client) -> None:
        tenant = create_tenant(slug="acme")
        url = f"/admin/tenants/tenant/{tenant.id}/change/"
        sent = {
            "slug": "other", "name": "Acme", "status": "frozen", "weight": "7", "max_in_flight": "10",
            "max_jobs": "10", "max_payload_bytes": "1000", "max_backfill": "10",
        }  # fmt: skip
        assert operator.post(url, sent).status_code == 302
        after = Tenant.objects.get(id=tenant.id)
        assert (after.slug, after.status, after.weight) == ("acme", "frozen", 7)
        assert after.webhook_secret == tenant.webhook_secret
        assert "weight" in operator.post(url, sent | {"weight": "0"}).context["adminform"].form.errors

    def test_a_key_is_shown_once_and_works_until_it_is_revoked(self, world: World, operator: Client) -> None:
        sent = {"tenant": str(world.tenant.id), "name": "deploy", "scopes": ["read", "write"]}
        created = operator.post("/admin/tenants/apikey/add/", sent, follow=True).content.decode()
        token = re.search(r"ck_[a-z0-9]{12}_[A-Za-z0-9_-]{43}", created)[0]
        key = ApiKey.objects.get(name="deploy")
        assert authenticate(token) == key
        page = operator.get(f"/admin/tenants/apikey/{key.id}/change/").content.decode()
        assert token not in page
        assert key.secret_hash not in page
        press(operator, "tenants_apikey_revoke", key)
        assert authenticate(token) is None

    def test_a_key_without_a_scope_is_refused_at_the_field(self, world: World, operator: Client) -> None:
        sent = {"tenant": str(world.tenant.id), "name": "deploy"}
        response = operator.post("/admin/tenants/apikey/add/", sent)
        assert list(response.context["adminform"].form.errors) == ["scopes"]
        assert json.dumps(list(ApiKey.objects.values_list("name", flat=True))) == '["ci"]'
