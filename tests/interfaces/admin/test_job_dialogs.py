"""The dialogs of the buttons of a job's page: refused as by the API, and written only once confirmed."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from jobs.actions.jobs import update_job
from jobs.models import CatchUp, Change, Job, Trigger
from tenants.models import OperatorBounds
from tests import factories
from tests.interfaces.admin.world import CONFIRMED, World, press, signed_in

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture
def job(world: World) -> Job:
    """A job of every ten minutes, three hours old, in Kolkata. Its first firings have no trigger."""
    return factories.make_job(
        world.tenant,
        interval=timedelta(minutes=10),
        timezone="Asia/Kolkata",
        created_at=factories.now() - 3 * HOUR,
        payload={"sleep_ms": 1},
    )


def local(moment: Any) -> str:
    """An instant as the browser's picker sends it, in Kolkata."""
    return (moment + timedelta(hours=5, minutes=30)).strftime("%Y-%m-%dT%H:%M:%S")


def stretch() -> dict[str, str]:
    at = factories.now()
    return {"start": local(at - 2 * HOUR), "end": local(at - HOUR)}


def hidden(response: HttpResponse) -> str:
    found = re.search(r'name="counted" value="([^"]*)"', response.content.decode())
    assert found is not None
    return found[1].replace("&#x2B;", "+").replace("&#43;", "+")


class TestRunNow:
    def test_asks_with_the_jobs_payload(self, job: Job, operator: Client) -> None:
        text = operator.get(reverse("admin:jobs_job_run_now", args=[job.id])).content.decode()
        assert "sleep_ms" in text

    def test_runs_with_another_payload_for_this_firing_alone(self, job: Job, operator: Client) -> None:
        press(operator, "jobs_job_run_now", job, payload='{"sleep_ms": 7}')
        assert Trigger.objects.get(job=job).payload == {"sleep_ms": 7}
        job.refresh_from_db()
        assert job.payload == {"sleep_ms": 1}

    def test_ignores_overlap_where_asked(self, job: Job, operator: Client) -> None:
        press(operator, "jobs_job_run_now", job, ignore_overlap="on")
        assert Trigger.objects.get(job=job).origin == "run_beside"
        page = operator.get(reverse("admin:jobs_trigger_change", args=[Trigger.objects.get(job=job).id]))
        assert "run now, beside others" in page.content.decode()

    @pytest.mark.parametrize("payload", ["", '{"sleep_ms": 1}', '{ "sleep_ms":1 }'])
    def test_the_jobs_own_is_not_copied(self, payload: str, job: Job, operator: Client) -> None:
        press(operator, "jobs_job_run_now", job, payload=payload)
        assert Trigger.objects.get(job=job).payload is None

    @pytest.mark.parametrize(
        "payload", ["{", "[]", "7", '{"sleep_ms": "x"}', '{"of": 1}', '{"a": 1, "a": 2}', '{"a": NaN}']
    )
    def test_what_the_type_refuses_is_refused_and_stays_typed_in(
        self, payload: str, job: Job, operator: Client
    ) -> None:
        response = press(operator, "jobs_job_run_now", job, payload=payload)
        assert response.status_code == 200
        assert response.context["form"].errors["payload"]
        assert not Trigger.objects.filter(job=job).exists()


class TestBackfill:
    def test_counts_first_and_runs_what_was_counted(self, job: Job, operator: Client) -> None:
        asked = stretch()
        counted = press(operator, "jobs_job_backfill", job, **asked)
        assert "6 firings, 0 exist." in counted.content.decode()
        assert not CatchUp.objects.exists()
        response = press(operator, "jobs_job_backfill", job, **asked, counted=hidden(counted))
        assert response.status_code == 302
        assert CatchUp.objects.get().expected == 6
        page = operator.get(reverse("admin:jobs_job_change", args=[job.id])).content.decode()
        assert "0 of 6 made" in page
        assert "under way" in page

    def test_a_changed_stretch_is_counted_anew(self, job: Job, operator: Client) -> None:
        counted = press(operator, "jobs_job_backfill", job, **stretch())
        longer = stretch() | {"end": local(factories.now() - HOUR / 2)}
        response = press(operator, "jobs_job_backfill", job, **longer, counted=hidden(counted))
        assert "9 firings" in response.content.decode()
        assert not CatchUp.objects.exists()

    @pytest.mark.parametrize(
        ("changes", "field"),
        [
            ({"start": "yesterday"}, "start"),
            ({"end": ""}, "end"),
            ({"start": "1999-01-01T00:00:00"}, "start"),
            ({"end": "2099-01-01T00:00:00"}, "end"),
            ({"start": "٢٠٢٠-01-01T00:00:00"}, "start"),
        ],
    )
    def test_a_stretch_that_makes_no_sense_is_refused(
        self, changes: dict[str, str], field: str, job: Job, operator: Client
    ) -> None:
        response = press(operator, "jobs_job_backfill", job, **stretch() | changes)
        assert response.context["form"].errors[field]
        assert not CatchUp.objects.exists()

    def test_is_cancelled_on_the_jobs_page(self, job: Job, operator: Client) -> None:
        asked = stretch()
        seen = hidden(press(operator, "jobs_job_backfill", job, **asked))
        press(operator, "jobs_job_backfill", job, **asked, counted=seen)
        backfill = CatchUp.objects.get()
        press(operator, "jobs_job_cancel_backfill", job, backfill=str(backfill.id))
        backfill.refresh_from_db()
        assert backfill.finished_at is not None
        fragment = operator.get(reverse("admin:jobs_job_backfills", args=[job.id])).content.decode()
        assert "ended early" in fragment
        assert "hx-get" not in fragment


class TestPause:
    def test_keeps_reason_and_end_and_the_page_tells_who(self, job: Job, operator: Client) -> None:
        until = factories.now().replace(microsecond=0) + HOUR
        press(operator, "jobs_job_pause", job, reason="The partner moves.", until=local(until))
        job.refresh_from_db()
        assert (job.status, job.status_reason, job.paused_until) == ("paused", "The partner moves.", until)
        text = operator.get(reverse("admin:jobs_job_change", args=[job.id])).content.decode()
        shown = text[text.index('id="pause"') :]
        assert "operator root" in shown
        assert "The partner moves." in shown
        assert "+05:30" in shown
        press(operator, "jobs_job_resume", job)
        job.refresh_from_db()
        assert (job.status, job.paused_until) == ("active", None)

    def test_an_end_in_the_past_is_told_and_changes_nothing(self, job: Job, operator: Client) -> None:
        press(operator, "jobs_job_pause", job, until="2020-01-01T00:00:00")
        job.refresh_from_db()
        assert job.status == "active"


class TestClone:
    def test_fills_the_form_of_a_new_job_and_writes_nothing(self, job: Job, operator: Client) -> None:
        before = Job.objects.count()
        link = f"{reverse('admin:jobs_job_add')}?clone_of={job.id}"
        assert link in operator.get(reverse("admin:jobs_job_change", args=[job.id])).content.decode()
        page = operator.get(link)
        form = page.context["adminform"].form
        assert json.loads(form["payload"].value()) == {"sleep_ms": 1}
        assert form["schedule_every_seconds"].value() == 600
        assert form["name"].value() == ""
        assert Job.objects.count() == before

    def test_of_a_job_that_is_not_there_is_not_found(self, world: World, operator: Client) -> None:
        for wanted in ("none", "018f0000-0000-7000-8000-000000000000"):
            assert operator.get(reverse("admin:jobs_job_add") + f"?clone_of={wanted}").status_code == 404


def test_dialogs_are_refused_to_those_who_may_not_write(job: Job, world: World) -> None:
    viewer = signed_in("view_job")
    for page in ("run_now", "backfill", "pause", "cancel_backfill"):
        assert press(viewer, f"jobs_job_{page}", job).status_code == 403
    assert not Trigger.objects.filter(job=job).exists()
    assert not Change.objects.filter(object_id=str(job.id), action="run").exists()


def test_dialogs_reach_no_job_of_other_tenants(job: Job, world: World) -> None:
    client = signed_in("view_job", "change_job", "add_job")
    user_id = client.session["_auth_user_id"]
    bounds = OperatorBounds.objects.create(operator_id=user_id)
    bounds.tenants.set([factories.make_tenant()])
    for page in ("run_now", "backfill", "pause", "cancel_backfill", "restore", "versions", "backfills"):
        url = reverse(f"admin:jobs_job_{page}", args=[job.id])
        assert client.get(url).status_code == 404
        assert client.post(url, {**CONFIRMED, "payload": "{}"}).status_code == 404
    job.refresh_from_db()
    assert job.status == "active"
    assert not Trigger.objects.filter(job=job).exists()


class TestVersions:
    def edited(self, job: Job) -> Job:
        for changes in ({"priority": "high"}, {"schedule": {"type": "cron", "cron": "0 2 * * *"}}):
            job = update_job(tenant=job.tenant, job_id=job.id, changes=changes)
        return job

    def test_are_shown_as_differences(self, job: Job, operator: Client) -> None:
        self.edited(job)
        text = operator.get(reverse("admin:jobs_job_versions", args=[job.id])).content.decode()
        assert "Version 3, the present one" in text
        assert "- medium" in text
        assert "+ high" in text
        assert "Restore version 1" in text

    def test_one_is_restored_as_a_version_of_its_own(self, job: Job, operator: Client) -> None:
        self.edited(job)
        press(operator, "jobs_job_restore", job, number="1", present="3")
        job.refresh_from_db()
        assert (job.version, job.priority, job.schedule_type) == (4, 2, "interval")
        assert job.payload == {"sleep_ms": 1}

    def test_an_edit_in_between_is_not_overwritten(self, job: Job, operator: Client) -> None:
        self.edited(job)
        press(operator, "jobs_job_restore", job, number="1", present="2")
        job.refresh_from_db()
        assert (job.version, job.schedule_type) == (3, "cron")

    def test_nothing_is_restored_by_who_may_only_look(self, job: Job, world: World) -> None:
        self.edited(job)
        viewer = signed_in("view_job")
        text = viewer.get(reverse("admin:jobs_job_versions", args=[job.id])).content.decode()
        assert "Restore" not in text
        assert press(viewer, "jobs_job_restore", job, number="1", present="3").status_code == 403

    def test_are_closed_to_who_may_not_look_at_jobs(self, job: Job, world: World) -> None:
        for page in ("versions", "backfills"):
            url = reverse(f"admin:jobs_job_{page}", args=[job.id])
            assert signed_in("view_trigger").get(url).status_code == 403


def test_payloads_are_shown_in_no_dialog_to_those_who_may_not_see_them(job: Job, world: World) -> None:
    Job.objects.filter(id=job.id).update(
        payload={"fail": "hush"}, notify={"on": ["dead"], "url": "https://ops.example/hush"}
    )
    client = signed_in("view_job", "change_job", "add_job")
    dialog = client.get(reverse("admin:jobs_job_run_now", args=[job.id])).content.decode()
    form = client.get(reverse("admin:jobs_job_add") + f"?clone_of={job.id}").content.decode()
    assert "hush" not in dialog + form
    seeing = signed_in("view_job", "change_job", "add_job", "view_payload")
    assert "hush" in seeing.get(reverse("admin:jobs_job_run_now", args=[job.id])).content.decode()
    assert "hush" in seeing.get(reverse("admin:jobs_job_add") + f"?clone_of={job.id}").content.decode()
