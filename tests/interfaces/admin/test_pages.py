"""The operators' console: who may see which page, and the first one."""

import re
from collections.abc import Callable
from datetime import timedelta
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse

from jobs.models import Job, Lease
from jobs.store.insight import clocks, workers
from tests import factories
from tests.interfaces.admin.world import CONFIRMED, NOBODYS, PAGES, World

pytestmark = pytest.mark.django_db


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

    def test_names_workers_that_share_a_name(self, world: World, operator: Client) -> None:
        url = reverse("admin:index")
        workers.announce(name="celery@host", queues=["jobs.noop"], concurrency=4, process="7-a")
        assert "share a name" not in operator.get(url).content.decode()
        twin = workers.own_name("celery@host", "8-b")
        workers.announce(name=twin, queues=["jobs.noop"], concurrency=4, process="8-b")
        page = operator.get(url).content.decode()
        assert "share a name" in page
        assert "celery@host" in page

    def test_says_how_far_off_clocks_are(self, world: World, operator: Client) -> None:
        for name, ahead in (("beat@a:1", 0.0), ("w1@b", -300.0)):
            drift = clocks.Drift(name=name, clock=lambda ahead=ahead: factories.now().timestamp() + ahead)
            drift.measure_if_due()
            drift.measure_if_due()
        text = operator.get(reverse("admin:index")).content.decode()
        rows = re.findall(
            r"<td[^>]*>(beat@a:1|w1@b)</td><td[^>]*>([+-]\d+\.\d+) s</td><td[^>]*>([^<]*)</td>", text
        )
        # On a busy machine seconds may lie between asking for the time and using it.
        assert [(name, round(float(offset), -2), note) for name, offset, note in rows] == [
            ("w1@b", -300, "too far off"),
            ("beat@a:1", 0, ""),
        ]

    def test_a_lease_that_ran_out_is_nobodys(self, world: World, operator: Client) -> None:
        Lease.objects.update(expires_at=factories.now() - timedelta(seconds=1))
        text = operator.get(reverse("admin:index")).content.decode()
        assert "beat-1" not in text
        assert re.search(r"nobody\s*</\w+>\s*<p>term 7, expired", text)

    def test_shows_no_figures_to_whom_the_rows_are_closed(
        self, world: World, staff: Callable[..., Client]
    ) -> None:
        text = staff().get(reverse("admin:index")).content.decode()
        assert "beat-1" not in text
        assert "In flight" not in text
