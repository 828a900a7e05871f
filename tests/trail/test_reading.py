"""Reading the trail: over the API by a key of the tenant, in the console by operators."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse

from jobs.models import Change, Trigger
from jobs.store.trail import Actor, acting_as
from tenants.actions import update_tenant
from tests.factories import make_job, make_tenant
from tests.interfaces.api.caller import Caller, faulty_fields, noop_job

ROOT = Actor("operator", "root")


@pytest.mark.django_db(transaction=True)
class TestOverTheApi:
    @pytest.fixture
    def owner(self, job_types: None) -> Caller:
        caller = Caller(make_tenant(), scopes=("read", "write", "admin"))
        Change.objects.all().delete()
        return caller

    @staticmethod
    def read(caller: Caller, **query: Any) -> dict[str, Any]:
        answer = caller.get("/audit?" + "&".join(f"{name}={value}" for name, value in query.items()))
        assert answer.status_code == 200, answer.content
        page: dict[str, Any] = answer.json()
        return page

    def test_tells_of_each_change_its_object_its_actor_and_its_columns(self, owner: Caller) -> None:
        payload = {"url": "https://a.example/x"}
        job = owner.post("/jobs", noop_job(job_type="webhook", payload=payload)).json()
        owner.patch(f"/jobs/{job['id']}", {"priority": "high", "payload": payload | {"method": "PUT"}})
        with acting_as(ROOT):
            update_tenant(tenant=owner.tenant, weight=7)
        created, edited, limited = self.read(owner)["results"]
        told = {"kind": "job", "id": job["id"], "name": "nightly"}
        assert [created["action"], created["object"], created["changes"]] == ["created", told, {}]
        assert [edited["action"], edited["object"]] == ["updated", told]
        assert edited["actor"]["kind"] == "api_key"
        assert edited["actor"]["name"].endswith(" tests")
        assert edited["changes"] == {
            "priority": {"before": 2, "after": 1},
            "version": {"before": 1, "after": 2},
            "payload": None,
        }
        # The tenant may not see who works for the installation.
        assert limited["actor"] == {"kind": "operator", "name": None}
        assert limited["changes"] == {"weight": {"before": 100, "after": 7}}

    def test_tells_of_workflows(self, owner: Caller) -> None:
        workflow = {"name": "etl", "tasks": {"a": {"job_type": "noop"}}}
        made = owner.post("/workflows", workflow).json()
        [created] = self.read(owner)["results"]
        assert [created["action"], created["object"]] == [
            "created",
            {"kind": "workflow", "id": made["id"], "name": "etl"},
        ]

    def test_goes_on_from_any_place_and_by_object(self, owner: Caller) -> None:
        ids = [owner.post("/jobs", noop_job(name=f"job-{number}")).json()["id"] for number in range(3)]
        first = self.read(owner, limit=2)
        second = self.read(owner, after=first["cursor"], limit=2)
        found = [change["object"]["id"] for page in (first, second) for change in page["results"]]
        assert (found, first["more"], second["more"]) == (ids, True, False)
        assert self.read(owner, after=second["cursor"])["results"] == []
        assert [row["object"]["id"] for row in self.read(owner, object_id=ids[1])["results"]] == [ids[1]]

    def test_tells_who_ran_replayed_and_cancelled(self, owner: Caller) -> None:
        job = owner.post("/jobs", noop_job()).json()
        ran = owner.post(f"/jobs/{job['id']}/run").json()["id"]
        owner.post(f"/triggers/{ran}/cancel")
        Trigger.objects.filter(id=ran).update(state="dead", reason="lost")
        owner.post("/dead-letters/replay", {"filter": {"reason": "lost"}})
        owner.post("/operations", {"verb": "replay", "filter": {"reason": "lost"}})
        found = [(row["action"], row["object"]["kind"]) for row in self.read(owner)["results"]]
        assert found == [
            ("created", "job"),
            ("run", "job"),
            ("cancelled", "trigger"),
            ("replayed", "tenant"),
            ("created", "operation"),
        ]
        replayed = self.read(owner)["results"][3]["changes"]
        assert replayed["filter"] == {"before": None, "after": {"reason": "lost"}}
        assert replayed["triggers"] == {"before": None, "after": 1}
        assert [row["action"] for row in self.read(owner, object_id=ran)["results"]] == ["cancelled"]

    def test_shows_an_outsider_nothing_and_operators_are_nobodys(self, owner: Caller) -> None:
        job = owner.post("/jobs", noop_job()).json()
        User.objects.create_user("ann")
        outsider = Caller(make_tenant(), scopes=("admin",))
        own = {"tenant", "api_key"}
        for query in ({}, {"object_id": job["id"]}, {"after": self.read(owner)["cursor"]}):
            assert {row["object"]["kind"] for row in self.read(outsider, **query)["results"]} <= own
        assert {row["object"]["kind"] for row in self.read(owner)["results"]} == {"job"}

    @pytest.mark.parametrize(
        ("query", "field"),
        [
            ("after=x", "after"),
            ("limit=0", "limit"),
            ("object_id=%00", "object_id"),
            ("object_id=", "object_id"),
        ],
    )
    def test_refuses_what_is_no_place_no_number_and_no_id(
        self, owner: Caller, query: str, field: str
    ) -> None:
        assert faulty_fields(owner.get(f"/audit?{query}")) == {field}


@pytest.mark.django_db
class TestInTheConsole:
    @pytest.fixture
    def root(self) -> Client:
        client = Client()
        client.force_login(User.objects.create_superuser("root"))
        return client

    def found(self, client: Client, **query: Any) -> list[Change]:
        page = client.get(reverse("admin:jobs_change_changelist"), query)
        assert page.status_code == 200
        return list(page.context["cl"].result_list)

    def test_is_found_by_object_by_actor_and_by_time(self, root: Client) -> None:
        old, job = make_job(), make_job()
        with acting_as(ROOT):
            update_tenant(tenant=job.tenant, weight=7)
        Change.objects.filter(object_id=str(old.id)).update(at=old.created_at - timedelta(days=30))
        assert [row.object_id for row in self.found(root, object=str(job.id))] == [str(job.id)]
        assert [row.object_id for row in self.found(root, q=str(job.id))] == [str(job.id)]
        by_root = self.found(root, actor="root", done="updated")
        assert [(row.kind, row.changes) for row in by_root] == [("tenant", {"weight": [100, 7]})]
        assert self.found(root, q="root", done="updated") == by_root
        lately = self.found(root, changed="1h")
        assert str(job.id) in {row.object_id for row in lately}
        assert str(old.id) not in {row.object_id for row in lately}

    def test_is_a_link_away_from_what_it_tells_of(self, root: Client) -> None:
        job = make_job()
        user = User.objects.get()
        pages = {
            reverse("admin:jobs_job_change", args=[job.id]): job.id,
            reverse("admin:tenants_tenant_change", args=[job.tenant.id]): job.tenant.id,
            reverse("admin:auth_user_change", args=[user.id]): user.id,
        }
        for url, object_id in pages.items():
            kind = url.split("/")[3]
            link = f"{reverse('admin:jobs_change_changelist')}?kind={kind}&amp;object={object_id}"
            assert link in root.get(url).content.decode()
            found = self.found(root, object=object_id, kind=kind)
            assert {row.kind for row in found} == {kind}
            history = root.get(url.replace("/change/", "/history/"))
            assert history.url == link.replace("&amp;", "&")

    def test_is_found_by_tenant_kind_action_and_kind_of_actor(self, root: Client) -> None:
        job = make_job(make_tenant(slug="acme"))
        with acting_as(ROOT):
            update_tenant(tenant=job.tenant, weight=7)
            update_tenant(tenant=make_tenant(slug="globex"), weight=8)
        assert [row.kind for row in self.found(root, tenant="acme")] == ["tenant", "job", "tenant"]
        assert self.found(root, tenant="acm") == []
        found = self.found(root, kind="tenant", done="updated", actor_kind="operator")
        assert [(row.name, row.tenant_slug) for row in found] == [("globex",) * 2, ("acme",) * 2]
        text = root.get(reverse("admin:jobs_change_changelist"), {"tenant": "acme"}).content.decode()
        assert f'href="{reverse("admin:jobs_job_change", args=[job.id])}"' in text

    def test_tells_of_sign_ins_and_sign_outs(self, root: Client) -> None:
        user = User.objects.get()
        root.post(reverse("admin:logout"))
        client = Client()
        client.force_login(user)
        told = self.found(client, kind="user", object=user.pk)
        assert [row.action for row in told] == ["signed_in", "signed_out", "signed_in", "created"]
        assert {row.actor for row in told[:3]} == {"root"}

    def test_cannot_be_edited_by_anybody(self, root: Client) -> None:
        change = Change.objects.create(
            at=make_job().created_at, kind="job", object_id="1", name="x", action="created", changes={}
        )
        for page in ("change", "delete"):
            url = reverse(f"admin:jobs_change_{page}", args=[change.id])
            assert root.post(url, {"name": "y"}).status_code == 403


@pytest.mark.django_db
def test_pages_are_read_by_their_indexes() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO jobs_change (at, tenant_id, kind, object_id, name, action, actor_kind, actor, changes) "
            "SELECT now() - n * interval '1 minute', n % 50, 'job', (n % 5000)::text, 'x', 'updated', 'operator', "
            "'user-' || n % 100, '{}' FROM generate_series(1, 20000) n"
        )
        cursor.execute("ANALYZE jobs_change")
        plans = {}
        for name, rows in {
            "change_of_object": Change.objects.filter(object_id="7").order_by("-id"),
            "change_by_actor": Change.objects.filter(actor="user-7").order_by("-id"),
            "change_at": Change.objects.filter(at__gte="2099-01-01T00:00Z").order_by("-id"),
            "jobs_change_pkey": Change.objects.order_by("-id"),
            "change_of_tenant_newest": Change.objects.filter(tenant_id=7).order_by("-id"),
            "change_of_kind": Change.objects.filter(kind="user").order_by("-id"),
            "change_by_actor_kind": Change.objects.filter(actor_kind="command").order_by("-id"),
            "change_of_action": Change.objects.filter(action="replayed").order_by("-id"),
        }.items():
            plans[name] = rows[:51].explain()
    assert {name: plan for name, plan in plans.items() if name not in plan} == {}
