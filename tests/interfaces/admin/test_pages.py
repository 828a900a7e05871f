"""The operators' console: who may see which page. The first one: ``test_overview``."""

from collections.abc import Callable
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse

from jobs.models import Job
from tests.interfaces.admin.world import CONFIRMED, NOBODYS, PAGES, World

pytestmark = pytest.mark.django_db


def answers(client: Client, world: World, method: str = "get", **sent: str) -> dict[str, int]:
    """The status of each page."""
    return {page: getattr(client, method)(world.url(page), sent).status_code for page in sorted(PAGES)}


class TestPages:
    def test_a_superuser_sees_every_page_there_is(self, world: World, operator: Client) -> None:
        # A row's history is a page of the audit trail.
        seen = {page: 302 if page.endswith("_history") else 200 for page in PAGES}
        assert answers(operator, world) == seen | dict.fromkeys(NOBODYS & PAGES.keys(), 403)

    @pytest.mark.parametrize("method", ["get", "post"])
    def test_staff_without_permission_sees_none(
        self, method: str, world: World, staff: Callable[..., Client]
    ) -> None:
        assert answers(staff(), world, method, **CONFIRMED) == dict.fromkeys(PAGES, 403)
        assert Job.objects.get(id=world.job.id).status == "active"

    def test_strangers_are_sent_to_the_login(self, world: World) -> None:
        for page in PAGES:
            response = Client().get(world.url(page))
            assert response.status_code == 302, page
            assert response.url.startswith(reverse("admin:login")), page

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
