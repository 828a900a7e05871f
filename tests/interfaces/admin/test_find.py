"""The palette: its results, who gets them, and the indexes it uses."""

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from jobs.actions.jobs import run_job_now
from jobs.models.fields import instant_of, new_id
from jobs.store.jobs import key_of
from tenants.models import OperatorBounds
from tests import factories
from tests.interfaces.admin.world import World

pytestmark = pytest.mark.django_db
URL = "/admin/search/"
ASKED = {"HTTP_HX_REQUEST": "true"}


def found(client: Client, text: object) -> dict[str, list[str]]:
    """The links of the results, by group."""
    response = client.get(URL, {"s": str(text), "extended": "1"}, **ASKED)
    assert response.status_code == 200
    return {group.title: [hit.link for _, hit in hits] for group, hits in response.context["groups"]}


def bound(client: Client, *tenants: object) -> None:
    """Bind the user of ``client``, who may view everything else, to these tenants."""
    user = User.objects.get(id=client.session["_auth_user_id"])
    OperatorBounds.objects.create(operator=user).tenants.set(tenants)


def plan(sql: str) -> list[str]:
    """How a statement is run. The tables are too small to be worth their indexes, so sequential scans are off."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"EXPLAIN {sql}")
        return [row[0] for row in cursor.fetchall()]


class TestFinding:
    def test_takes_a_whole_id_and_its_first_eight_digits(self, world: World, operator: Client) -> None:
        for row, group in (
            (world.job, "Jobs"),
            (world.dead, "Triggers"),
            (world.operation, "Operations"),
            (world.workflow, "Workflows"),
            (world.run, "Workflow runs"),
        ):
            for text in (row.id, str(row.id)[:8], row.id.hex[:12], str(row.id).upper()):
                assert any(str(row.id) in link for link in found(operator, text)[group])

    def test_finds_an_attempt_in_the_partition_of_its_time(self, world: World, operator: Client) -> None:
        (link,) = found(operator, world.attempt.id)["Attempts"]
        assert str(world.attempt.id) in link

    def test_takes_the_idempotency_key_of_a_firing_and_of_a_run_now(
        self, world: World, operator: Client
    ) -> None:
        ran = run_job_now(tenant=world.tenant, job_id=world.job.id)
        fired = factories.make_trigger(world.job, "succeeded")
        keys = {key_of(world.job.id, fired.scheduled_for): fired, ran.idempotency_key: ran}
        for key, trigger in keys.items():
            (link,) = found(operator, key)["Triggers"]
            assert str(trigger.id) in link

    def test_takes_how_a_name_begins_as_it_is_written_and_the_tenant_before_it(
        self, world: World, operator: Client
    ) -> None:
        other = factories.make_tenant()
        factories.make_job(other, name="close-shops")
        factories.make_job(other, name="Close-doors")
        assert len(found(operator, "close-")["Jobs"]) == 2
        assert len(found(operator, "Close")["Jobs"]) == 1
        assert found(operator, f"{other.slug}/close")["Jobs"] == found(operator, "close-s")["Jobs"]
        assert "Jobs" not in found(operator, f"{other.slug}/close-books")

    def test_takes_how_a_workflows_name_begins_and_the_tenant_before_it(
        self, world: World, operator: Client
    ) -> None:
        workflow_id = world.workflow.id
        (link,) = found(operator, "et")["Workflows"]
        assert str(workflow_id) in link
        assert found(operator, f"{world.tenant.slug}/etl")["Workflows"] == [link]
        assert "Workflows" not in found(operator, f"{factories.make_tenant().slug}/etl")

    def test_finds_tenants_and_pages(self, world: World, operator: Client) -> None:
        assert len(found(operator, world.tenant.slug[:4])["Tenants"]) == 1
        assert found(operator, "dead le")["Pages"] == ["/admin/jobs/trigger/dead-letters/"]

    def test_shows_ten_of_each_kind_and_says_that_there_are_more(
        self, world: World, operator: Client
    ) -> None:
        for number in range(12):
            factories.make_job(world.tenant, name=f"crowd-{number:02}")
        response = operator.get(URL, {"s": "crowd"}, **ASKED)
        assert len(found(operator, "crowd")["Jobs"]) == 10
        assert "More match" in response.content.decode()

    @pytest.mark.parametrize(
        "text",
        ["%", "'", "/", "a/", "x" * 5000, "job::", f"job:{UUID(int=1)}:run:x", "ffffffff", "00000000", "\\"],
    )
    def test_answers_nonsense_with_nothing(self, text: str, world: World, operator: Client) -> None:
        assert set(found(operator, text)) <= {"Tenants", "Pages"}

    def test_answers_nothing_with_nothing(self, operator: Client) -> None:
        assert operator.get(URL, {"s": " "}, **ASKED).content == b""

    def test_is_a_page_too(self, world: World, operator: Client) -> None:
        page = operator.get(URL, {"s": "close-books"}).content.decode()
        assert "<main" in page
        assert f"{world.tenant.slug}/close-books" in page

    def test_escapes_what_it_shows(self, world: World, operator: Client) -> None:
        factories.make_job(world.tenant, name="<b>bold</b>")
        assert "<b>bold" not in operator.get(URL, {"s": "<b>"}).content.decode()


class TestWhoFinds:
    def test_what_the_rows_are_closed_for_is_not_found(
        self, world: World, staff: Callable[..., Client]
    ) -> None:
        texts = (
            world.job.id,
            world.dead.id,
            world.attempt.id,
            world.operation.id,
            world.workflow.id,
            world.run.id,
            "close",
            "etl",
            world.tenant.slug,
        )
        nobody, viewer = staff(), staff("view_job")
        assert [found(nobody, text) for text in texts] == [{}] * len(texts)
        assert set(found(viewer, world.job.id)) == {"Jobs"}
        assert found(viewer, world.dead.id).keys() <= {"Jobs"}

    def test_an_operator_who_is_bound_finds_nothing_of_other_tenants(
        self, world: World, staff: Callable[..., Client]
    ) -> None:
        client = staff(
            "view_job", "view_trigger", "view_attempt", "view_operation", "view_tenant",
            "view_workflow", "view_workflowrun",
        )  # fmt: skip
        mine = factories.make_job(name="close-shops")
        bound(client, mine.tenant)
        texts = (
            world.job.id,
            world.dead.id,
            key_of(world.job.id, world.dead.scheduled_for),
            world.attempt.id,
            world.operation.id,
            world.workflow.id,
            world.run.id,
            "etl",
            "close-b",
            f"{world.tenant.slug}/",
        )
        everything = {text: found(client, text) for text in texts}
        assert {text: links for text, links in everything.items() if "Pages" not in links and links} == {}
        assert found(client, "close")["Jobs"] == [f"/admin/jobs/job/{mine.id}/change/"]
        assert len(found(client, mine.tenant.slug)["Tenants"]) == 1

    def test_strangers_are_sent_to_the_login(self) -> None:
        assert Client().get(URL, {"s": "close"}, **ASKED).status_code == 302


class TestCost:
    @pytest.mark.parametrize("what", ["id", "digits", "key", "run", "name", "pair"])
    def test_each_search_is_a_read_of_an_index(self, what: str, world: World, operator: Client) -> None:
        texts = {
            "id": str(world.dead.id),
            "digits": str(world.dead.id)[:8],
            "key": key_of(world.job.id, world.dead.scheduled_for),
            "run": f"job:{world.job.id}:run:{new_id()}",
            "name": "close",
            "pair": f"{world.tenant.slug}/close",
        }
        with CaptureQueriesContext(connection) as captured:
            found(operator, texts[what])
        assert len(captured) <= 25
        for sql in (query["sql"] for query in captured if query["sql"].startswith(("SELECT", "--"))):
            assert [line for line in plan(sql) if "Seq Scan on jobs_" in line] == [], sql

    def test_a_uuid_tells_when_it_was_made(self) -> None:
        assert abs(instant_of(new_id()) - factories.now()) < timedelta(minutes=5)
        assert instant_of(UUID(int=0)).year == 2000
        assert instant_of(UUID(int=2**128 - 1)).year == 2100
