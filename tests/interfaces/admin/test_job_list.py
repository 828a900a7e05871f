"""The list of jobs: dots for the ends of the last firings, labels, statuses and next firings."""

from uuid import UUID

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests import factories
from tests.factories import HOUR, MINUTE
from tests.interfaces.admin.test_walks import bound, ids
from tests.interfaces.admin.world import World

pytestmark = pytest.mark.django_db
JOBS = "/admin/jobs/job/"


class TestJobs:
    def test_show_the_last_firings_of_each_in_one_statement(self, world: World, operator: Client) -> None:
        now = factories.now()
        for number, state in enumerate(("succeeded", "skipped", *["succeeded"] * 14, "running")):
            factories.make_trigger(world.job, state, scheduled_for=now - (40 - number) * MINUTE)
        factories.make_trigger(world.job, scheduled_for=now + HOUR)
        with CaptureQueriesContext(connection) as queries:
            page = operator.get(JOBS)
        [job] = page.context["cl"].result_list
        states = [trigger.state for trigger in job.latest]
        assert states == [*["succeeded"] * 10, "running", "dead"]
        assert page.content.decode().count('class="firing firing-') == 12
        assert len([query for query in queries if "latest" in query["sql"]]) == 1
        assert len(queries) <= 25

    def test_are_found_by_label_in_all_tenants(self, world: World, operator: Client) -> None:
        first, second = (factories.make_job(labels={"env": "prod", "team": team}) for team in ("a", "b"))
        assert ids(operator, f"{JOBS}?label=env%3Dprod") == [second.id, first.id]
        assert ids(operator, f"{JOBS}?label=env%3Dprod,team%3Da") == [first.id]
        assert ids(operator, f"{JOBS}?label=env%3Dprod&tenant__id__exact={second.tenant_id}") == [second.id]
        assert ids(operator, f"{JOBS}?label=env%3Dtest") == []

    @pytest.mark.parametrize("status", ["paused", "completed", "cancelled", "active"])
    def test_are_found_by_status(self, status: str, operator: Client) -> None:
        wanted, _ = (
            factories.make_job(status=status),
            factories.make_job(status="paused" if status == "active" else "active"),
        )
        factories.make_job(status=status, deleted_at=factories.now())
        assert ids(operator, f"{JOBS}?status__exact={status}") == [wanted.id]

    def test_come_in_the_order_of_their_next_firing_where_one_asks(self, operator: Client) -> None:
        now = factories.now()
        jobs = [factories.make_job(next_fire_at=now + hours * HOUR) for hours in (3, 1, 2)]
        factories.make_job(next_fire_at=now, status="paused")
        assert ids(operator, f"{JOBS}?tab=next") == [jobs[1].id, jobs[2].id, jobs[0].id]

    @pytest.mark.parametrize(
        "query", ["", "?tab=next", "?label=env%3Dprod", "?status__exact=active", "?q=same"]
    )
    def test_are_held_to_the_operators_tenants(self, query: str) -> None:
        now = factories.now()
        mine, also, _ = (
            factories.make_job(name=f"same-{number}", labels={"env": "prod"}, next_fire_at=now + HOUR)
            for number in range(3)
        )
        found: list[UUID] = ids(bound(mine.tenant, also.tenant), JOBS + query)
        assert set(found) == {mine.id, also.id}
        assert ids(bound(also.tenant), JOBS + query) == [also.id]
