"""Lists for a stream: tabs by phase, filters that look at a bounded number of rows, and how a page explains both."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.test import Client

from jobs.admin.shared import walks
from jobs.models import Attempt, Trigger
from tenants.models import OperatorBounds, Tenant
from tests import factories
from tests.factories import HOUR, MINUTE, SECOND
from tests.interfaces.admin.world import World, signed_in

pytestmark = pytest.mark.django_db
TRIGGERS = "/admin/jobs/trigger/"
DEAD = "/admin/jobs/trigger/dead-letters/"
ATTEMPTS = "/admin/jobs/attempt/"
#: Filters that triggers and dead letters have.
COMMON = (
    "tenant__id__exact={tenant}",
    "job_type=webhook",
    "label=env%3Dprod",
    "reason=poison",
    "error_code=worker_lost",
)


def ids(client: Client, url: str) -> list[UUID]:
    response = client.get(url)
    assert response.status_code == 200, url
    return [row.id for row in response.context["cl"].result_list]


def text(client: Client, url: str) -> str:
    return client.get(url).content.decode()


def without_tasks() -> None:
    """Delete the triggers of the world's run."""
    Trigger.objects.filter(workflow_run_id__isnull=False).delete()


@pytest.fixture
def stream(world: World) -> dict[str, Trigger]:
    """A trigger in each phase, all of one job."""
    job, now = world.job, factories.now()
    without_tasks()
    return {
        "ended": world.dead,
        "running": factories.make_trigger(job, "running", worker="w7", started_at=now - 5 * MINUTE),
        "queued": factories.make_trigger(job, "queued"),
        "late": factories.make_trigger(job, scheduled_for=now - 48 * MINUTE),
        "retrying": factories.make_trigger(job, "retrying", due_at=now + MINUTE),
        "upcoming": factories.make_trigger(job, scheduled_for=now + 45 * MINUTE + 30 * SECOND),
        "held": factories.make_trigger(job, held=True),
    }


def bound(*tenants: Tenant) -> Client:
    """An operator who is bound to those tenants."""
    client = signed_in("view_trigger", "view_job", "view_attempt", "change_trigger", "change_job")
    bounds = OperatorBounds.objects.create(operator=User.objects.latest("id"))
    bounds.tenants.set(tenants)
    return client


class TestTabs:
    @pytest.mark.parametrize("tab", ["ended", "running", "queued", "late", "retrying", "upcoming", "held"])
    def test_hold_each_trigger_where_one_looks_for_it(
        self, tab: str, stream: dict[str, Trigger], operator: Client
    ) -> None:
        found = ids(operator, f"{TRIGGERS}?tab={tab}")
        assert stream[tab].id in found
        others = {"retrying", "upcoming"} if tab in ("retrying", "upcoming") else {tab}
        assert set(found) <= {stream[name].id for name in others}

    def test_begin_with_what_has_ended_however_much_lies_ahead(self, world: World, operator: Client) -> None:
        factories.make_triggers(world.job, 60, scheduled_for=factories.now() + HOUR)
        assert ids(operator, TRIGGERS) == [world.dead.id]

    def test_give_way_to_what_is_searched_for(self, stream: dict[str, Trigger], operator: Client) -> None:
        assert ids(operator, f"{TRIGGERS}?q={stream['upcoming'].id}") == [stream["upcoming"].id]

    def test_are_found_by_the_state_of_an_older_link(
        self, stream: dict[str, Trigger], operator: Client
    ) -> None:
        assert ids(operator, f"{TRIGGERS}?state__exact=running") == [stream["running"].id]
        assert ids(operator, f"{TRIGGERS}?state__exact=dead") == [stream["ended"].id]

    def test_show_the_worker_and_for_how_long_it_runs(
        self, stream: dict[str, Trigger], operator: Client
    ) -> None:
        page = text(operator, f"{TRIGGERS}?tab=running")
        assert "w7" in page
        assert "5 min" in page

    def test_show_how_late_and_when(self, stream: dict[str, Trigger], operator: Client) -> None:
        assert "48 min" in text(operator, f"{TRIGGERS}?tab=late")
        assert "in 45 min" in text(operator, f"{TRIGGERS}?tab=upcoming")

    def test_put_the_first_due_of_all_lanes_first(self, world: World, operator: Client) -> None:
        now = factories.now()
        without_tasks()
        late = [
            factories.make_trigger(
                factories.make_job(priority=number % 4), scheduled_for=now - (9 - number) * MINUTE
            )
            for number in range(6)
        ]
        assert ids(operator, f"{TRIGGERS}?tab=late") == [trigger.id for trigger in late]
        only = late[3]
        assert ids(operator, f"{TRIGGERS}?tab=late&tenant__id__exact={only.tenant_id}") == [only.id]
        assert ids(operator, f"{TRIGGERS}?tab=late&job_type=webhook") == []

    @pytest.mark.parametrize(
        ("tab", "says"),
        [
            ("running", "No trigger runs at the moment"),
            ("late", "No trigger is late"),
            ("held", "No trigger is held"),
        ],
    )
    def test_say_what_they_are_empty_of(self, tab: str, says: str, operator: Client) -> None:
        page = text(operator, f"{TRIGGERS}?tab={tab}")
        assert says in page
        assert "Create" not in page.partition('id="empty-list"')[2].partition("</div>")[0]


class TestFilters:
    @pytest.fixture
    def marked(self, world: World) -> Trigger:
        """A dead trigger of another tenant, type, label, reason and error."""
        job = factories.make_job(labels={"env": "prod"}, job_type="webhook")
        trigger = factories.make_trigger(
            job, "dead", reason="poison", origin="backfill", started_at=factories.now()
        )
        factories.make_attempt(trigger, "lost", error_code="worker_lost", http_status=418)
        return trigger

    @pytest.mark.parametrize(
        ("page", "query"),
        [
            (page, query)
            for page, queries in {
                TRIGGERS: ("state__exact=dead&reason=poison", "origin__exact=backfill", *COMMON),
                DEAD: COMMON,
                ATTEMPTS: (
                    "tenant={slug}",
                    "tenant={slug}&state__exact=lost",
                    "job_type=webhook",
                    "state__exact=lost",
                    "error_code=worker_lost",
                    "http_status=418",
                ),
            }.items()
            for query in queries
        ],
    )
    def test_find_the_one_that_matches(
        self, page: str, query: str, world: World, marked: Trigger, operator: Client
    ) -> None:
        url = f"{page}?{query.format(tenant=marked.tenant_id, slug=marked.tenant.slug)}"
        rows = operator.get(url).context["cl"].result_list
        assert [getattr(row, "trigger_id", row.id) for row in rows] == [marked.id]

    def test_are_shown_as_chips_that_can_be_taken_away(self, world: World, operator: Client) -> None:
        url = f"{TRIGGERS}?tenant__id__exact={world.tenant.id}&reason=exhausted&tab=ended"
        chips = operator.get(url).context["cl"].chips
        assert [chip["text"] for chip in chips] == [f"tenant: {world.tenant.slug}", "reason: exhausted"]
        assert chips[0]["url"] == "?reason=exhausted&tab=ended"
        assert operator.get(TRIGGERS + chips[0]["url"]).status_code == 200

    @pytest.mark.parametrize(
        "query", ["label=x", "since=yesterday", "since=0001-01-01", "until=2030-13-01", "label=a%3Db,c"]
    )
    def test_that_make_no_sense_are_told_and_match_nothing(
        self, query: str, world: World, operator: Client
    ) -> None:
        assert ids(operator, f"{TRIGGERS}?{query}") == []

    @pytest.mark.parametrize("query", ["beyond=x", "beyond=2030", "tab=x", "tenant__id__exact=%27"])
    def test_survive_what_is_no_address_of_ours(self, query: str, world: World, operator: Client) -> None:
        assert operator.get(f"{TRIGGERS}?{query}", follow=True).status_code == 200

    def test_bound_the_time(self, world: World, operator: Client) -> None:
        day = factories.now().date()
        tomorrow = day + timedelta(days=1)
        assert ids(operator, f"{TRIGGERS}?since={day}&until={tomorrow}") == [world.dead.id]
        assert ids(operator, f"{TRIGGERS}?since={tomorrow}") == []
        assert ids(operator, f"{DEAD}?since={day}&until={tomorrow}") == [world.dead.id]
        assert ids(operator, f"{DEAD}?until={day}") == []


class TestSearching:
    @pytest.fixture(autouse=True)
    def short(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(walks, "MAX_SEARCHED", 10)

    def test_ends_after_so_many_rows_and_goes_on_from_there(self, world: World, operator: Client) -> None:
        factories.make_triggers(world.job, 25, "succeeded")
        url = f"{TRIGGERS}?reason=exhausted&tenant__id__exact={world.tenant.id}"
        pages = 0
        while not (found := operator.get(url).context["cl"]).result_list:
            assert "10" in found.searched
            url, pages = TRIGGERS + found.search_on, pages + 1
        assert [row.id for row in found.result_list] == [world.dead.id]
        assert pages == 2
        assert found.search_on == ""

    def test_says_nothing_where_all_was_searched(self, world: World, operator: Client) -> None:
        found = operator.get(f"{TRIGGERS}?reason=poison").context["cl"]
        assert (found.searched, found.search_on) == ("", "")


class TestDeadLetters:
    def test_come_in_the_order_of_their_deaths(self, world: World, operator: Client) -> None:
        now = factories.now()
        older, newer = (
            factories.make_trigger(world.job, "dead", finished_at=now - hours * HOUR) for hours in (3, 2)
        )
        assert ids(operator, DEAD) == [world.dead.id, newer.id, older.id]
        assert ids(operator, f"{DEAD}?died=1h") == [world.dead.id]
        page = text(operator, DEAD)
        assert "2 h ago" in page
        assert "Dead letters" in page.partition("<main")[0] or "Dead letters" in page


class TestAttempts:
    def test_name_their_job_and_tenant(self, world: World, operator: Client) -> None:
        page = text(operator, ATTEMPTS)
        assert "close-books" in page
        assert world.tenant.slug in page


class TestReach:
    @pytest.fixture
    def two(self) -> list[Trigger]:
        triggers = [factories.make_trigger(None, "dead") for _ in range(3)]
        for trigger in triggers:
            factories.make_attempt(trigger, "failed", error_code="timeout")
        return triggers

    @pytest.mark.parametrize("page", [TRIGGERS, DEAD, ATTEMPTS])
    @pytest.mark.parametrize("how_many", [1, 2])
    def test_holds_every_list_to_the_operators_tenants(
        self, page: str, how_many: int, two: list[Trigger]
    ) -> None:
        mine = two[:how_many]
        client = bound(*(trigger.tenant for trigger in mine))
        foreign = two[-1]
        for query in ("", f"?tenant__id__exact={foreign.tenant_id}", f"?tenant={foreign.tenant.slug}"):
            response = client.get(page + query)
            if response.status_code == 400 or response.status_code == 302:
                continue
            rows: list[Any] = response.context["cl"].result_list
            seen = {row.trigger_id if isinstance(row, Attempt) else row.id for row in rows}
            assert seen == (set() if query else {trigger.id for trigger in mine})

    @pytest.mark.parametrize("tab", ["late", "upcoming", "running", "held", "retrying", "queued"])
    def test_holds_every_tab(self, tab: str, stream: dict[str, Trigger]) -> None:
        assert ids(bound(stream["late"].tenant), f"{TRIGGERS}?tab={tab}") != []
        assert ids(bound(factories.make_tenant()), f"{TRIGGERS}?tab={tab}") == []
        assert ids(bound(), f"{TRIGGERS}?tab={tab}") == []
