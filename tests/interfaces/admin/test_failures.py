"""Failures grouped by what they have in common: shown, replayed one and then the rest, their jobs paused."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from jobs.actions.bulk.operations import advance
from jobs.admin.firings import failures
from jobs.models import Job, Operation, Trigger
from jobs.selection.walks import select
from tests import factories
from tests.factories import HOUR
from tests.interfaces.admin.test_walks import bound
from tests.interfaces.admin.world import World, said

pytestmark = pytest.mark.django_db
PAGE = "/admin/failures/"


@pytest.fixture
def failing() -> list[Trigger]:
    """Three equal dead letters, of two jobs that call one host."""
    tenant = factories.make_tenant()
    jobs = [factories.make_job(tenant, job_type="webhook", target="api.example") for _ in range(2)]
    found = []
    for number in range(3):
        trigger = factories.make_trigger(jobs[number % 2], "dead")
        factories.make_attempt(trigger, "failed", error_code="timeout", number=1)
        factories.make_attempt(
            trigger,
            "failed",
            number=2,
            error_code="http_503",
            http_status=503,
            response_excerpt="<b>busy</b>",
        )
        found.append(trigger)
    return found


def act_url(client: Client, title: str) -> str:
    """The address of an act of the first group."""
    [row, *_] = client.get(PAGE).context["groups"]
    return next(act["url"] for act in row["acts"] if act["title"] == title)


class TestGroups:
    def test_tell_what_dead_letters_have_in_common(
        self, world: World, failing: list[Trigger], operator: Client
    ) -> None:
        page = operator.get(PAGE)
        counts = [
            (row["group"].count, row["group"].jobs, row["group"].error_code) for row in page.context["groups"]
        ]
        assert counts == [(3, 2, "http_503"), (1, 1, "http_503")]
        shown = page.content.decode()
        assert "3 \N{MULTIPLICATION SIGN} http_503, HTTP 503" in shown
        assert "api.example" in shown
        assert "&lt;b&gt;busy" in shown
        assert "<b>busy" not in shown

    def test_leave_out_what_died_before_the_span(self, failing: list[Trigger], operator: Client) -> None:
        Trigger.objects.filter(id=failing[0].id).update(finished_at=factories.now() - 30 * HOUR)
        assert operator.get(PAGE).context["groups"][0]["group"].count == 2
        assert operator.get(f"{PAGE}?span=7d").context["groups"][0]["group"].count == 3
        assert operator.get(f"{PAGE}?span=x").context["span"] == "24h"

    def test_show_their_dead_letters_and_no_others(
        self, world: World, failing: list[Trigger], operator: Client
    ) -> None:
        job = failing[0].job
        for columns in (
            {"error_code": "http_503", "http_status": 502},
            {"error_code": "timeout", "http_status": 503},
        ):
            other = factories.make_trigger(job, "dead")
            factories.make_attempt(other, "failed", number=1, error_code="http_503", http_status=503)
            factories.make_attempt(other, "failed", number=2, **columns)
        elsewhere = factories.make_trigger(factories.make_job(job.tenant, job_type="webhook"), "dead")
        factories.make_attempt(elsewhere, "failed", error_code="http_503", http_status=503)
        row = operator.get(PAGE).context["groups"][0]
        shown = operator.get(row["list_url"]).context["cl"].result_list
        assert {trigger.id for trigger in shown} == {trigger.id for trigger in failing}

    def test_cost_a_page_as_much_as_one_group(self, failing: list[Trigger], operator: Client) -> None:
        with CaptureQueriesContext(connection) as queries:
            operator.get(PAGE)
        assert len(queries) <= 25

    def test_say_when_nothing_died(self, operator: Client) -> None:
        assert "Nothing died in the last 24h" in operator.get(PAGE).content.decode()


class TestActs:
    def test_replay_one_as_a_canary(self, failing: list[Trigger], operator: Client) -> None:
        url = act_url(operator, "Replay one")
        assert "The latest dead letter" in operator.get(url).content.decode()
        assert factories.states(failing) == ["dead"] * 3
        operator.post(url)
        assert factories.states(failing) == ["dead", "dead", "pending"]

    def test_replay_the_rest_by_an_operation_of_their_tenant_with_the_number_told(
        self, world: World, failing: list[Trigger], operator: Client
    ) -> None:
        other = factories.make_trigger(failing[0].job, "dead")
        factories.make_attempt(other, "failed", error_code="http_404", http_status=404)
        url = act_url(operator, "Replay the rest")
        assert "3 dead letters of tenant" in operator.get(url).content.decode()
        assert not Operation.objects.exclude(id=world.operation.id).exists()
        operator.post(url)
        [operation] = Operation.objects.exclude(id=world.operation.id)
        assert (operation.verb, operation.tenant_id) == ("replay", failing[0].tenant_id)
        world.operation.delete()
        assert advance(select)
        assert factories.states([*failing, other, world.dead]) == ["pending"] * 3 + ["dead"] * 2
        operation.refresh_from_db()
        assert (operation.done, operation.refused) == (3, 0)

    def test_pause_the_jobs_that_call_the_host(self, failing: list[Trigger], operator: Client) -> None:
        bystander = factories.make_job(failing[0].tenant, job_type="webhook", target="other.example")
        url = act_url(operator, "Pause their jobs")
        assert "2 active jobs of tenant" in operator.get(url).content.decode()
        for refused in ("x" * 501, "\N{RIGHT-TO-LEFT OVERRIDE}"):
            assert "reason: " in said(operator.post(url, {"reason": refused}))
        assert not Operation.objects.exists()
        operator.post(url, {"reason": " Incident 42. "})
        assert advance(select)
        bystander.refresh_from_db()
        jobs = Job.objects.filter(id__in={trigger.job_id for trigger in failing})
        assert set(jobs.values_list("status", "status_reason")) == {("paused", "Incident 42.")}
        assert bystander.status == "active"

    def test_dismiss_the_group_with_a_note_and_no_other(
        self, world: World, failing: list[Trigger], operator: Client
    ) -> None:
        other = factories.make_trigger(failing[0].job, "dead")
        factories.make_attempt(other, "failed", error_code="http_404", http_status=404)
        url = act_url(operator, "Dismiss them")
        assert "3 dead letters of tenant" in operator.get(url).content.decode()
        for refused in ("", "x" * 501, "\N{RIGHT-TO-LEFT OVERRIDE}"):
            assert "note: " in said(operator.post(url, {"note": refused}))
        assert "Dismissed 3 of " in said(operator.post(url, {"note": "Incident 42."}))
        dismissed = Trigger.objects.filter(dismissed_note="Incident 42.")
        assert {one.id for one in dismissed} == {one.id for one in failing}
        assert [row["group"].count for row in operator.get(PAGE).context["groups"]] == [1, 1]

    def test_want_the_tenant_typed_where_they_touch_many(
        self, failing: list[Trigger], operator: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(failures, "MAX_UNTYPED", 2)
        url = act_url(operator, "Replay the rest")
        assert "nothing was done" in said(operator.post(url, {"typed": "another"}))
        assert not Operation.objects.exists()
        operator.post(url, {"typed": failing[0].tenant.slug})
        assert Operation.objects.count() == 1

    @pytest.mark.parametrize("left_out", ["tenant", "job_type", "error_code", "act"])
    def test_are_not_there_for_half_an_address(
        self, left_out: str, failing: list[Trigger], operator: Client
    ) -> None:
        url = act_url(operator, "Replay the rest")
        assert operator.get(url.replace(f"{left_out}=", f"{left_out}=x")).status_code == 404
        assert operator.post(url.replace(f"{left_out}=", "nothing=")).status_code == 404

    def test_are_for_those_who_may_change(
        self, failing: list[Trigger], operator: Client, staff: Callable[..., Client]
    ) -> None:
        url = act_url(operator, "Replay one")
        viewer: Any = staff("view_trigger")
        assert viewer.get(PAGE).context["groups"][0]["acts"] == []
        assert (viewer.get(url).status_code, viewer.post(url).status_code) == (403, 403)
        assert staff("view_job").get(PAGE).status_code == 403
        assert staff("change_trigger").get(act_url(operator, "Pause their jobs")).status_code == 403

    def test_are_held_to_the_operators_tenants(
        self, world: World, failing: list[Trigger], operator: Client
    ) -> None:
        client = bound(world.tenant)
        assert [row["group"].tenant_id for row in client.get(PAGE).context["groups"]] == [world.tenant.id]
        for title in ("Replay one", "Replay the rest", "Dismiss them", "Pause their jobs"):
            url = act_url(operator, title)
            assert (client.get(url).status_code, client.post(url).status_code) == (404, 404)
        assert factories.states(failing) == ["dead"] * 3
