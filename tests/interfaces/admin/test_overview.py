"""The console's first page: it says how the system is, shows each operator what they may see, and costs little."""

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobs.admin.overview.page import aftermath
from jobs.explain.wellbeing import wellbeing
from jobs.models import Lease, Queue, Trigger
from jobs.store.insight import clocks, overview, workers
from jobs.store.insight.overview import Lanes
from tenants.models import OperatorBounds, OperatorSession, Tenant
from tests import factories
from tests.activity_records import record
from tests.factories import HOUR, SECOND
from tests.interfaces.admin.world import World, open_breaker

pytestmark = pytest.mark.django_db
#: The page says "2 h" for a minute, however busy the machine is.
LONG = 2 * HOUR


@pytest.fixture(autouse=True)
def nothing_before() -> None:
    aftermath.forget()


@pytest.fixture
def world(world: World) -> World:
    """A world where all is well."""
    world.breaker.delete()
    return world


def shown(client: Client, *, page: str = "admin:index") -> str:
    wellbeing.forget()
    answer = client.get(reverse(page))
    assert answer.status_code == 200
    return answer.content.decode()


def sentence(client: Client) -> str:
    found = re.search(r'id="sentence">(.*?)</h2>', shown(client), re.DOTALL)
    assert found is not None
    return re.sub("<[^>]+>", "", found[1])


def rows(text: str, table: str) -> list[list[str]]:
    """Cells of each row of the table's body."""
    body = text.partition(f'id="{table}"')[2].partition("<tbody>")[2].partition("</tbody>")[0]
    cells = [re.findall("<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in body.split("<tr")[1:]]
    return [[re.sub("<[^>]+>", "", cell).strip() for cell in row] for row in cells]


def trouble(tenant: Tenant, **counts: int) -> None:
    """Count trouble in this minute."""
    record({(tenant.id, "noop"): dict(counts)})


def bound_to(tenant: Tenant, *codenames: str) -> Client:
    user = User.objects.create_user("bound", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    OperatorBounds.objects.create(operator=user).tenants.set([tenant])
    client = Client()
    client.force_login(user)
    return client


class TestTheSentence:
    def test_is_green_where_all_is_well(self, world: World, operator: Client) -> None:
        workers.announce(name="w1", queues=["jobs.noop"], concurrency=4, busy=1)
        assert sentence(operator) == "All is well: beat-1 leads, 1 worker serves 1 queue, nothing is late."

    def test_names_the_queue_that_nobody_serves(self, world: World, operator: Client) -> None:
        workers.announce(name="w1", queues=["jobs.webhook"], concurrency=4)
        factories.make_trigger(world.job, "queued", queued_at=factories.now() - LONG)
        assert sentence(operator) == "Not well: no worker serves noop: 1 queued, the oldest for 2 h."

    def test_names_the_worker_that_starts_nothing(
        self, world: World, operator: Client, clock: Callable[[timedelta], None]
    ) -> None:
        workers.announce(name="w1", queues=["jobs.noop"], concurrency=4)
        factories.make_trigger(world.job, "queued", queued_at=factories.now() - LONG)
        factories.make_trigger(world.job, "running", worker="w1")
        assert sentence(operator) == (
            "Not well: w1 starts nothing of noop though 3 of 4 slots are free: 1 queued, the oldest for 2 h."
        )
        for _ in range(3):
            factories.make_trigger(world.job, "running", worker="w1")
        assert sentence(operator).startswith("Needs a look: all 4 slots of noop are taken")
        Trigger.objects.filter(state="queued").delete()
        assert sentence(operator).startswith("All is well")
        clock(20 * SECOND)
        assert sentence(operator).startswith("Needs a look: w1 has not been heard of for 2")

    def test_names_the_broker(self, world: World, operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(wellbeing, "broker", lambda: False)
        assert sentence(operator).startswith("Not well: the broker does not answer")

    def test_names_the_tenant_that_waits_for_its_own_limit(self, world: World, operator: Client) -> None:
        workers.announce(name="w1", queues=["jobs.noop"], concurrency=4)
        tenant = factories.make_tenant(slug="globex", max_in_flight=2)
        job = factories.make_job(tenant)
        for _ in range(2):
            factories.make_trigger(job, "running", worker="w1")
        for _ in range(3):
            factories.make_trigger(job, due_at=factories.now() - LONG)
        Queue.objects.create(job_type="noop", window=16, measured_at=factories.now())
        assert sentence(operator) == (
            "Needs a look: tenant globex waits for its own limit, its cap of 2 in flight is full: 3 due, the oldest "
            "for 2 h."
        )
        tenant.max_in_flight = 10
        tenant.save()
        assert sentence(operator) == (
            "Not well: dispatch does not turn: noop has been due for 2 h with room for it."
        )

    def test_names_the_tenant_that_floods_though_a_look_finds_its_slots_free(
        self, world: World, operator: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        workers.announce(name="w1", queues=["jobs.noop"], concurrency=4)
        Queue.objects.create(job_type="noop", window=16, measured_at=factories.now())
        tenant = factories.make_tenant(slug="globex", max_in_flight=2)
        factories.make_triggers(factories.make_job(tenant), 20, due_at=factories.now() - LONG)
        monkeypatch.setattr("jobs.explain.wellbeing.KEPT_SECONDS", 0.0)
        assert sentence(operator).startswith("Not well: dispatch does not turn: noop")
        # The next look finds that dispatch goes on.
        record({(tenant.id, "noop"): {"dispatched": 7}})
        page = operator.get(reverse("admin:index")).content.decode()
        assert "tenant <code>globex</code> waits for its own limit" in page
        assert "dispatch does not turn" not in page.partition('id="over"')[0]

    def test_names_the_target_that_fails(self, world: World, operator: Client) -> None:
        workers.announce(name="w1", queues=["jobs.noop"], concurrency=4)
        open_breaker(world.tenant, "api.example.com")
        slug = world.tenant.slug
        assert sentence(operator) == (
            f"Needs a look: calls of api.example.com by tenant {slug} fail, so its circuit breaker is open."
        )

    def test_names_no_target_of_tenants_out_of_reach(self, world: World) -> None:
        workers.announce(name="w1", queues=["jobs.noop"], concurrency=4)
        open_breaker(factories.make_tenant(), "other.example.com")
        client = bound_to(world.tenant, "view_trigger", "view_lease", "view_breaker")
        assert sentence(client).startswith("All is well")
        open_breaker(world.tenant, "api.example.com")
        page = shown(client)
        assert "calls of <code>api.example.com</code>" in page
        assert "other.example.com" not in page
        assert "and so is" not in page
        assert reverse("admin:jobs_breaker_changelist") in page

    def test_tells_of_what_was_missed_and_lost_in_the_hour(
        self, world: World, operator: Client, clock: Callable[[timedelta], None]
    ) -> None:
        workers.announce(name="w1", queues=["jobs.noop"], concurrency=4)
        trouble(world.tenant, skipped_misfire=5, skipped_coalesced=1, skipped_overlap=9, ended_lost=2)
        page = shown(operator)
        assert "6 firings were skipped in the last hour" in page
        assert "2 attempts were lost in the last hour" in page
        Lease.objects.update(expires_at=factories.now() + timedelta(days=1))
        clock(timedelta(minutes=61))
        OperatorSession.objects.update(seen_at=factories.now())
        assert "skipped in the last hour" not in shown(operator)

    def test_says_what_is_over(
        self, world: World, operator: Client, clock: Callable[[timedelta], None]
    ) -> None:
        workers.announce(name="w1", queues=["jobs.webhook"], concurrency=4)
        factories.make_trigger(world.job, "queued", queued_at=factories.now() - LONG)
        assert 'id="over"' not in shown(operator)
        workers.announce(name="w1", queues=["jobs.noop"], concurrency=4)
        Trigger.objects.filter(state="queued").delete()
        page = shown(operator)
        assert 'data-level="green"' in page
        assert "no worker serves <code>noop</code>: 1 queued" in page.partition('id="over"')[2]
        Lease.objects.update(expires_at=factories.now() + timedelta(days=1))
        clock(timedelta(minutes=11))
        workers.announce(name="w1", queues=["jobs.noop"], concurrency=4)
        assert 'id="over"' not in shown(operator)

    def test_says_what_is_over_while_something_lighter_goes_on(self, world: World, operator: Client) -> None:
        workers.announce(name="w1", queues=["jobs.noop"], concurrency=4)
        trouble(world.tenant, skipped_misfire=5)
        Lease.objects.update(expires_at=factories.now() - LONG)
        assert 'id="over"' not in shown(operator)
        Lease.objects.update(expires_at=factories.now() + LONG)
        page = shown(operator)
        assert 'data-level="amber"' in page
        assert "no beat leads for 2 h" in page.partition('id="over"')[2]

    def test_leads_to_the_page_that_helps_and_names_the_playbook(
        self, world: World, operator: Client
    ) -> None:
        Lease.objects.update(expires_at=factories.now() - SECOND)
        page = shown(operator)
        assert reverse("admin:jobs_lease_changelist") in page.partition('id="reasons"')[2]
        assert reverse("playbook", args=["jobs-are-not-running"]) in page.partition('id="reasons"')[2]


class TestTheTables:
    def test_show_job_types_with_their_queues_and_workers(self, world: World, operator: Client) -> None:
        factories.make_trigger(world.job, "queued")
        factories.make_trigger(world.job, "running", worker="w1")
        workers.announce(name="w1", queues=["jobs.noop", "jobs.webhook"], concurrency=4)
        workers.announce(name="w2", queues=["jobs.webhook"], concurrency=4)
        found = {row[0]: row[1:6] for row in rows(shown(operator), "types")}
        assert found["noop"] == ["1", "-", "1", "1", "4"]
        assert found["webhook"] == ["0", "-", "0", "2", "8"]

    def test_show_the_worst_tenant_first(self, world: World, operator: Client) -> None:
        calm, late, lossy = (factories.make_tenant(slug=slug) for slug in ("calm", "late", "lossy"))
        factories.make_trigger(factories.make_job(calm), "running")
        for _ in range(2):
            factories.make_trigger(factories.make_job(late), due_at=factories.now() - LONG)
        trouble(lossy, buried_exhausted=3, skipped_overlap=4)
        found = rows(shown(operator), "tenants")
        assert [row[0] for row in found] == ["late", "lossy", "calm"]
        assert found[0][2:4] == ["2", "2 h"]
        assert found[1][4:] == ["4", "3"]
        assert found[2][1].startswith("1 of ")

    def test_show_the_leader_and_the_beats_that_stand_by(self, world: World, operator: Client) -> None:
        Lease.objects.update(holder="host:1:abc")
        for name in ("beat@host:1", "beat@host:2"):
            drift = clocks.Drift(name=name)
            drift.measure_if_due()
            drift.measure_if_due()
        found = rows(shown(operator), "beats")
        assert [row[:2] for row in found] == [["host:1:abc", "leads"], ["host:2", "standby"]]
        assert found[0][2].startswith("term 7, lease for another")

    def test_a_lease_that_ran_out_is_nobodys(self, world: World, operator: Client) -> None:
        Lease.objects.update(expires_at=factories.now() - LONG)
        assert rows(shown(operator), "beats")[0][1:] == ["led last", "term 7, lease expired 2 h ago"]

    def test_say_how_far_off_clocks_are(self, world: World, operator: Client) -> None:
        for name, ahead in (("beat@a:1", 0.0), ("w1@b", -300.0)):
            drift = clocks.Drift(name=name, clock=lambda ahead=ahead: factories.now().timestamp() + ahead)
            drift.measure_if_due()
            drift.measure_if_due()
        found = rows(shown(operator), "clocks")
        # On a busy machine seconds may lie between asking for the time and using it.
        assert [(row[0], round(float(row[1].split()[0]), -2), row[2]) for row in found] == [
            ("w1@b", -300, "too far off"),
            ("beat@a:1", 0, ""),
        ]

    def test_every_figure_leads_to_a_list_that_opens(self, world: World, operator: Client) -> None:
        workers.announce(name="w1", queues=["jobs.celery_task"], concurrency=4)
        for state in ("queued", "running", "pending"):
            factories.make_trigger(world.job, state, due_at=factories.now() - LONG)
        trouble(world.tenant, buried_exhausted=3, skipped_misfire=4, ended_lost=1)
        links = set(re.findall(r'href="([^"]+)"', shown(operator, page="overview_figures")))
        assert len(links) > 6
        for link in links:
            if not link.startswith("#"):
                assert operator.get(link.replace("&amp;", "&")).status_code == 200, link


class TestWhoSeesWhat:
    def test_nothing_without_a_permission(self, world: World, staff: Callable[..., Client]) -> None:
        text = shown(staff())
        assert "beat-1" not in text
        for part in ("verdict", "tenants", "types", "beats"):
            assert f'id="{part}"' not in text

    def test_triggers_alone_name_no_process(self, world: World, staff: Callable[..., Client]) -> None:
        workers.announce(name="w-secret", queues=["jobs.noop"], concurrency=4)
        factories.make_trigger(world.job, "queued", queued_at=factories.now() - LONG)
        text = shown(staff("view_trigger"))
        assert "its worker starts nothing of <code>noop</code>" in text
        assert "beat-1" not in text
        assert "w-secret" not in text
        assert 'id="beats"' not in text

    def test_leases_alone_show_no_triggers(self, world: World, staff: Callable[..., Client]) -> None:
        factories.make_trigger(world.job, "queued", queued_at=factories.now() - LONG)
        text = shown(staff("view_lease"))
        assert "beat-1" in text
        assert "queued" not in text
        assert 'id="tenants"' not in text

    @pytest.mark.parametrize("page", ["admin:index", "overview_figures"])
    def test_a_bound_operator_sees_their_tenants_alone(self, page: str, world: World) -> None:
        workers.announce(name="w-secret", queues=["jobs.noop"], concurrency=4)
        other = factories.make_tenant(slug="other-tenant")
        theirs = factories.make_job(other, job_type="webhook")
        for _ in range(3):
            factories.make_trigger(theirs, "queued", queued_at=factories.now() - LONG)
            factories.make_trigger(theirs, due_at=factories.now() - LONG)
        trouble(other, skipped_misfire=1_234, ended_lost=77)
        factories.make_trigger(world.job, "running")
        text = shown(bound_to(world.tenant, "view_trigger", "view_lease", "view_tenant"), page=page)
        assert [row[0] for row in rows(text, "tenants")] == [world.tenant.slug]
        for told in ("other-tenant", "1,234", "77 attempts", "w-secret", "beat-1"):
            assert told not in text
        webhook = [row for row in rows(text, "types") if row[0] == "webhook"]
        assert [row[1] for row in webhook] in ([], ["0"])

    def test_a_stranger_is_sent_to_the_login(self) -> None:
        answer = Client().get(reverse("overview_figures"))
        assert answer.status_code == 302
        assert answer.url.startswith(reverse("admin:login"))


class TestWhatItCosts:
    def test_is_kept_for_a_moment(self, world: World, operator: Client) -> None:
        shown(operator, page="overview_figures")
        with CaptureQueriesContext(connection) as captured:
            operator.get(reverse("overview_figures"))
        # The session, its user, and whether dispatch is stopped.
        assert len(captured) <= 3

    def test_asks_as_much_for_many_tenants_as_for_few(self, world: World, operator: Client) -> None:
        factories.make_trigger(world.job, due_at=factories.now() - LONG)
        with CaptureQueriesContext(connection) as few:
            shown(operator, page="overview_figures")
        for _ in range(40):
            tenant = factories.make_tenant()
            factories.make_trigger(factories.make_job(tenant), due_at=factories.now() - LONG)
            factories.make_trigger(factories.make_job(tenant), "running")
        with CaptureQueriesContext(connection) as many:
            text = shown(operator, page="overview_figures")
        assert len(many) <= len(few) <= 25
        assert len(rows(text, "tenants")) == 20

    def test_walks_over_many_lanes_in_turns(self, world: World) -> None:
        jobs = [factories.make_job() for _ in range(5)]
        for job in jobs:
            factories.make_trigger(job)
        lanes = Lanes()
        found = [set(lanes.look(limit=2)) for _ in range(3)]
        assert [len(each) for each in found] == [2, 4, 5]
        assert {lane.tenant_id for lane in found[2]} == {job.tenant_id for job in jobs}
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM jobs_trigger WHERE tenant_id = %s", [jobs[0].tenant_id])
        again = [set(lanes.look(limit=2)) for _ in range(3)]
        assert jobs[0].tenant_id in {lane.tenant_id for lane in again[0]}
        assert jobs[0].tenant_id not in {lane.tenant_id for lane in again[2]}

    def test_counts_what_is_due_up_to_a_bound(
        self, world: World, operator: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(overview, "MAX_DUE", 2)
        for _ in range(3):
            factories.make_trigger(world.job, due_at=factories.now() - LONG)
        assert overview.count_due(list(Lanes().look())) == {world.tenant.id: 2}
