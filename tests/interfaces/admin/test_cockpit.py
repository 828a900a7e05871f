"""A job's page shows at a glance how its firings went, what is wrong with it and what stands in its way."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobs.admin.job.cockpit import MAX_ANSWER, MAX_FIRINGS, figures
from jobs.models import Job, SkippedRange, Trigger
from tenants.models import Tenant
from tests import factories
from tests.interfaces.admin.world import World

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


def page_of(client: Client, job: Job) -> str:
    response = client.get(reverse("admin:jobs_job_change", args=[job.id]))
    assert response.status_code == 200
    return response.content.decode()


def fired(job: Job, minutes_ago: int, state: str = "succeeded", **columns: object) -> Trigger:
    at = factories.now() - minutes_ago * MINUTE
    return factories.make_trigger(job, state, scheduled_for=at, due_at=at, **columns)


class TestStrip:
    def test_shows_the_latest_firings_each_with_its_shape_and_a_link(
        self, tenant: Tenant, operator: Client
    ) -> None:
        job = factories.make_job(tenant)
        for number, state in enumerate(("dead", "succeeded", "skipped", "cancelled", "running", "retrying")):
            fired(job, 10 - number, state)
        marks = re.findall(r'<a class="firing firing-(\w+)"[^>]*href="([^"]+)"', page_of(operator, job))
        assert [state for state, _ in marks] == [
            "dead",
            "succeeded",
            "skipped",
            "cancelled",
            "running",
            "retrying",
        ]
        assert operator.get(marks[0][1]).status_code == 200

    def test_ends_at_ninety_however_many_there_are(self, tenant: Tenant, operator: Client) -> None:
        job = factories.make_job(tenant)
        at = factories.now() - timedelta(days=1)
        factories.make_triggers(job, MAX_FIRINGS + 30, "succeeded", scheduled_for=at)
        assert page_of(operator, job).count('class="firing ') == MAX_FIRINGS

    def test_shows_a_range_of_skipped_firings_as_one_mark(self, world: World, operator: Client) -> None:
        now = factories.now()
        SkippedRange.objects.create(
            job=world.job,
            tenant_id=world.job.tenant_id,
            job_version=1,
            from_at=now - timedelta(days=1),
            until_at=now - MINUTE,
            count=1440,
            reason="paused",
            created_at=now,
        )
        assert 'title="1,440 firings skipped (paused)' in page_of(operator, world.job)

    def test_names_no_firing_that_lies_ahead(self, tenant: Tenant, operator: Client) -> None:
        job = factories.make_job(tenant)
        fired(job, -1, "pending")
        assert 'class="firing ' not in page_of(operator, job)


class TestFigures:
    def test_are_of_those_that_ran_to_an_end_at_the_first_try(self) -> None:
        at = factories.now()

        def ran(state: str, seconds: int, attempts: int = 1) -> Trigger:
            return Trigger(
                state=state,
                attempt_count=attempts,
                started_at=at,
                finished_at=at + timedelta(seconds=seconds),
            )

        found = figures(
            [
                *(ran("succeeded", seconds) for seconds in range(1, 20)),
                ran("dead", 50),
                ran("succeeded", 500, attempts=3),
                Trigger(state="skipped"),
                Trigger(state="running", started_at=at, attempt_count=1),
            ]
        )
        assert found == {"count": 23, "success_rate": "95.2%", "p50": "10 s", "p95": "19 s", "measured": 20}

    def test_of_nothing_are_empty(self) -> None:
        assert figures([])["success_rate"] == ""


class TestFailure:
    def test_of_the_last_firing_is_shown_with_its_answer(self, tenant: Tenant, operator: Client) -> None:
        job = factories.make_job(tenant)
        fired(job, 5)
        dead = fired(job, 3, "dead", attempt_count=2)
        for number, status in ((1, 500), (2, 503)):
            factories.make_attempt(
                dead,
                "failed",
                number=number,
                error_code=f"http_{status}",
                error_message="<i>busy</i>",
                http_status=status,
                response_excerpt="<b>no\u202eom</b>" + "x" * 3000,
                finished_at=factories.now(),
            )
        fired(job, 1, "skipped")
        text = page_of(operator, job)
        shown = text[text.index('id="failure"') : text.index('id="glance"')]
        assert "<b>503</b>" in shown
        assert "http_503" in shown
        assert "http_500" not in shown
        assert "&lt;i&gt;busy&lt;/i&gt;" in shown
        assert "&lt;b&gt;no\\u202eom&lt;/b&gt;" in shown
        assert shown.count("x" * (MAX_ANSWER - 20)) == 1
        assert "x" * MAX_ANSWER not in shown

    def test_is_gone_once_one_succeeds(self, tenant: Tenant, operator: Client) -> None:
        job = factories.make_job(tenant)
        factories.make_attempt(fired(job, 3, "dead", attempt_count=1), "failed", error_code="boom")
        assert 'id="failure"' in page_of(operator, job)
        fired(job, 1, attempt_count=1)
        assert 'id="failure"' not in page_of(operator, job)


class TestBlockers:
    def test_a_retrying_firing_that_makes_overlap_skip_the_next_is_linked(
        self, tenant: Tenant, operator: Client
    ) -> None:
        job = factories.make_job(tenant, overlap_policy="skip")
        culprit = fired(job, 30, "retrying", attempt_count=3)
        for minutes in range(3):
            fired(job, 10 - minutes, "skipped", reason="overlap")
        text = page_of(operator, job)
        shown = text[text.index('id="blockers"') :]
        assert reverse("admin:jobs_trigger_change", args=[culprit.id]) in shown
        assert "3 firings after it were skipped" in shown

    def test_none_is_named_when_nothing_is_skipped_for_it(self, tenant: Tenant, operator: Client) -> None:
        job = factories.make_job(tenant, overlap_policy="skip")
        fired(job, 5, "skipped", reason="overlap")
        fired(job, 3, "retrying", attempt_count=3)
        assert "were skipped" not in page_of(operator, job)

    def test_the_page_of_a_skipped_firing_links_what_was_under_way(
        self, tenant: Tenant, operator: Client
    ) -> None:
        job, now = factories.make_job(tenant, overlap_policy="skip"), factories.now()
        fired(job, 40, started_at=now - 40 * MINUTE, finished_at=now - 39 * MINUTE)
        culprit = fired(job, 30, "retrying", attempt_count=1, started_at=now - 30 * MINUTE)
        skipped = fired(job, 10, "skipped", reason="overlap", finished_at=now - 9 * MINUTE)
        fired(job, 5, started_at=now - 5 * MINUTE, finished_at=now)
        text = operator.get(reverse("admin:jobs_trigger_change", args=[skipped.id])).content.decode()
        shown = text[text.index('id="overlapped-by"') : text.index('id="attempts"')]
        assert re.findall(r"/admin/jobs/trigger/([^/]+)/change/", shown) == [str(culprit.id)]


class TestPage:
    def test_asks_little_of_a_job_with_many_firings(self, tenant: Tenant, operator: Client) -> None:
        job = factories.make_job(tenant)
        factories.make_triggers(
            job, 300, "skipped", reason="overlap", scheduled_for=factories.now() - timedelta(days=1)
        )
        dead = fired(job, 1, "dead", attempt_count=1)
        factories.make_attempt(dead, "failed", error_code="boom")
        with CaptureQueriesContext(connection) as captured:
            page_of(operator, job)
        assert len(captured) <= 25

    def test_names_are_written_as_they_are(self, world: World, operator: Client) -> None:
        text = page_of(operator, world.job)
        assert "Close-books" not in text
        assert "close-books" in text

    def test_the_next_firing_of_a_viewer_is_the_first_of_those_shown(
        self, tenant: Tenant, staff: object
    ) -> None:
        job = factories.make_job(tenant, interval=MINUTE, next_fire_at=factories.now() + timedelta(hours=1))
        text = page_of(staff("view_job"), job)  # type: ignore[operator]
        first = re.search(r'id="next-firings".*?datetime="([^"]+)"', text, re.DOTALL)
        assert first is not None
        assert f"next_fire_at&quot;: &quot;{first[1]}&quot;" in text


class TestTriggerPage:
    def test_shows_the_payload_the_firing_was_given(self, tenant: Tenant, operator: Client) -> None:
        job = factories.make_job(tenant, payload={"of": "the job"})
        own = fired(job, 2, payload={"of": "its own"})
        url = reverse("admin:jobs_trigger_change", args=[own.id])
        text = operator.get(url).content.decode()
        assert "its own" in text
        assert "the job&quot;" not in text


@pytest.mark.parametrize(
    ("page", "confirms"), [("jobs_job_cancel", "End this job"), ("jobs_trigger_cancel", "Cancel the firing")]
)
def test_a_dialogs_two_buttons_say_different_things(
    page: str, confirms: str, world: World, operator: Client
) -> None:
    row = world.job if "job_c" in page else factories.make_trigger(world.job)
    text = operator.get(reverse(f"admin:{page}", args=[row.pk])).content.decode()
    assert confirms in text
    assert "Keep it" in text
    assert not re.search(r">\s*Cancel\s*<", text)


def test_a_jobs_page_ends_with_its_charts(world: World, operator: Client) -> None:
    text = page_of(operator, world.job)
    assert f"{reverse('console_charts_figures')}?job={world.job.id}" in text
    assert operator.get(f"{reverse('console_charts_figures')}?job={world.job.id}").status_code == 200
