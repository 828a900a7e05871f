"""Sessions of operators: seen, ended by others, and over after a while without a click."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from jobs.models import Change
from scheduler_project.web import sessions
from tenants.models import OperatorSession
from tests.interfaces.admin.world import CONFIRMED, signed_in

pytestmark = pytest.mark.django_db
OVERVIEW = "/admin/"


@pytest.fixture
def ops() -> Client:
    client = Client(REMOTE_ADDR="198.51.100.7")
    client.force_login(User.objects.create_superuser("ops"))
    return client


def is_in(client: Client, **headers: str) -> bool:
    return client.get(OVERVIEW, headers=headers).status_code == 200


def actions() -> list[tuple[str, str, str]]:
    rows = Change.objects.filter(kind="user", name="ops").exclude(action="created").order_by("id")
    return [(row.action, row.actor_kind, row.actor) for row in rows]


class TestSessions:
    def test_are_listed_with_their_operator_address_and_times(self, ops: Client) -> None:
        page = ops.get(reverse("admin:tenants_operatorsession_changelist")).content.decode()
        assert "ops" in page
        assert OperatorSession.objects.get().began_at.strftime("%Y-%m-%d %H:%M:%S") in page

    def test_end_by_another_operators_click_and_say_so(self, ops: Client) -> None:
        session = OperatorSession.objects.get()
        clerk = signed_in("view_operatorsession")
        end = reverse("admin:tenants_operatorsession_end", args=[session.pk])
        assert clerk.post(end, CONFIRMED).status_code == 403
        administrator = signed_in("view_operatorsession", "delete_operatorsession")
        administrator.post(end, CONFIRMED)
        assert not is_in(ops)
        assert "your session was ended" in ops.get(reverse("admin:login")).content.decode()
        by = User.objects.get(pk=administrator.session["_auth_user_id"]).username
        assert actions() == [("signed_in", "operator", "ops"), ("signed_out", "operator", by)]

    def test_end_after_a_while_without_a_click(self, ops: Client, clock: Callable[[timedelta], None]) -> None:
        clock(timedelta(minutes=59))
        assert is_in(ops)
        clock(timedelta(minutes=118))
        assert is_in(ops)  # it was seen in between
        clock(timedelta(minutes=179))
        assert not is_in(ops)
        assert actions()[-1] == ("signed_out", "engine", "engine")

    @pytest.mark.parametrize("headers", [{"HX-Request": "true"}, {"Sec-Fetch-Mode": "cors"}])
    def test_are_not_kept_alive_by_pages_that_refresh_themselves(
        self, headers: dict[str, str], ops: Client, clock: Callable[[timedelta], None]
    ) -> None:
        clock(timedelta(minutes=40))
        assert is_in(ops, **headers)
        clock(timedelta(minutes=80))
        assert not is_in(ops)

    def test_that_are_over_lead_a_part_of_a_page_to_the_login(self, ops: Client) -> None:
        OperatorSession.objects.all().delete()
        answer = ops.get(
            OVERVIEW,
            headers={"HX-Request": "true", "HX-Current-URL": "http://testserver/admin/jobs/job/?q=x"},
        )
        assert answer["HX-Redirect"] == "/admin/login/?next=%2Fadmin%2Fjobs%2Fjob%2F"

    def test_end_after_their_hours_however_busy(
        self, ops: Client, clock: Callable[[timedelta], None]
    ) -> None:
        for minutes in range(50, 480, 50):
            clock(timedelta(minutes=minutes))
            assert is_in(ops)
        clock(timedelta(hours=8))
        assert not is_in(ops)

    def test_need_no_click_where_the_settings_say_so(
        self, ops: Client, settings: Any, clock: Callable[[timedelta], None]
    ) -> None:
        settings.PLATFORM = settings.PLATFORM.model_copy(update={"session_idle_minutes": 0})
        clock(timedelta(hours=7))
        assert is_in(ops)

    def test_of_long_ago_are_dropped_at_the_next_sign_in(
        self, ops: Client, clock: Callable[[timedelta], None]
    ) -> None:
        clock(timedelta(hours=9))
        signed_in()
        assert OperatorSession.objects.count() == 1
        assert actions()[-1] == ("signed_out", "engine", "engine")

    def test_are_noted_as_seen_once_a_minute(self, ops: Client, clock: Callable[[timedelta], None]) -> None:
        before = OperatorSession.objects.get().seen_at
        clock(sessions.SEEN_EVERY / 2)
        assert is_in(ops)
        assert OperatorSession.objects.get().seen_at == before


class TestTheEnvironment:
    def test_is_named_on_every_page_in_red_where_it_is_production(self, ops: Client, settings: Any) -> None:
        assert "production" not in ops.get(OVERVIEW).content.decode()
        settings.PLATFORM = settings.PLATFORM.model_copy(update={"environment": "production"})
        for page in (OVERVIEW, reverse("admin:jobs_job_changelist")):
            assert "production" in ops.get(page).content.decode()


class TestRefusals:
    def test_say_what_to_do_next(self, ops: Client) -> None:
        missing = ops.get("/admin/no/such/page/")
        assert missing.status_code == 404
        assert "Go to the overview" in missing.content.decode()
        denied = signed_in().get(reverse("admin:jobs_job_changelist"))
        assert denied.status_code == 403
        assert "/admin/jobs/job/" in denied.content.decode()
        assert "Ask an access administrator" in denied.content.decode()

    def test_are_plain_for_others(self, ops: Client) -> None:
        assert ops.get("/api/v1/nothing").json()["status"] == 404
        stranger = Client().get("/nothing")
        assert stranger.status_code == 404
        assert "overview" not in stranger.content.decode()
