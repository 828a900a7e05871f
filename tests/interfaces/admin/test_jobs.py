"""A job's page: its form writes the same as the API, and its buttons act as the actions allow."""

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from jobs.actions.pull.types import declare_type
from jobs.admin.job.form import JobForm
from jobs.models import Job, SkippedRange, Trigger
from tenants.models import Tenant
from tests import factories
from tests.interfaces.admin.world import World, inputs, press, said

pytestmark = pytest.mark.django_db


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


class TestTheTenantsOwn:
    """Choices that the form cannot list before a tenant is chosen: the tenant's job types and secrets."""

    url = TestJobForm.url

    def post(self, client: Client, world: World, **changes: str) -> HttpResponse:
        return client.post(self.url, inputs(tenant=str(world.tenant.id), **changes))

    def test_a_job_of_a_pull_type_is_created_and_edited_by_its_name(
        self, world: World, operator: Client
    ) -> None:
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        declare_type(tenant=world.tenant, name="invoice.render", declaration={"payload_schema": schema})
        refused = self.post(operator, world, job_type="invoice.render", payload="{}")
        assert list(refused.context["adminform"].form.errors) == ["payload"]
        assert self.post(operator, world, job_type="invoice.render", payload='{"n": 1}').status_code == 302
        job = Job.objects.get(name="nightly")
        assert job.job_type == f"invoice.render@{world.tenant.id}"
        page = operator.get(reverse("admin:jobs_job_change", args=[job.id]))
        assert page.context["adminform"].form["job_type"].value() == "invoice.render"
        assert '<option value="invoice.render">' in page.content.decode()

    def test_a_job_of_another_tenants_type_is_refused(self, world: World, operator: Client) -> None:
        other = factories.make_tenant()
        declare_type(tenant=other, name="invoice.render", declaration={})
        for name in ("invoice.render", f"invoice.render@{other.id}"):
            refused = self.post(operator, world, job_type=name)
            assert list(refused.context["adminform"].form.errors) == ["job_type"]

    def test_a_notice_with_a_secret_that_is_not_there_is_refused(
        self, world: World, operator: Client
    ) -> None:
        notify = '{"on": ["dead"], "url": "https://ops.example/{{secret:%s}}"}'
        refused = self.post(operator, world, notify=notify % "none", pause_after_failures="3")
        errors = refused.context["adminform"].form.errors
        assert list(errors) == ["notify"]
        assert "There is no secret none" in errors["notify"][0]
        accepted = self.post(operator, world, notify=notify % "token", pause_after_failures="3")
        assert accepted.status_code == 302
        job = Job.objects.get(name="nightly")
        assert (job.notify["on"], job.pause_after_failures) == (["dead"], 3)

    def test_labels_and_the_key_are_kept_and_can_be_taken_away(self, world: World, operator: Client) -> None:
        own = {"labels": '{"team": "billing"}', "concurrency_key": "books"}
        assert self.post(operator, world, **own).status_code == 302
        job = Job.objects.get(name="nightly")
        assert (job.labels, job.concurrency_key) == ({"team": "billing"}, "books")
        url = reverse("admin:jobs_job_change", args=[job.id])
        sent = inputs(version="1", labels="{}", concurrency_key="")
        assert operator.post(url, sent).status_code == 302
        job.refresh_from_db()
        assert (job.labels, job.concurrency_key) == ({}, "")


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
            "Backfill",
            "Resume",
            "Cancel",
            "Delete",
        ]

    def test_the_page_shows_the_next_firings_in_the_zone(self, world: World, operator: Client) -> None:
        operator.post(TestJobForm.url, inputs(tenant=str(world.tenant.id), schedule_timezone="Asia/Kolkata"))
        job = Job.objects.get(name="nightly")
        text = operator.get(reverse("admin:jobs_job_change", args=[job.id])).content.decode()
        assert text.count("02:00:00.000 +05:30") == 10
        assert len(re.findall(r">[^<]* 20:30:00.000 UTC<", text)) == 10

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
