"""``/installation/tenants``: how a key of the installation changes tenants, their quotas and their keys."""

from datetime import datetime
from typing import Any

import pytest

from jobs.models import Answer, Change
from tenants.actions import create_api_key
from tenants.models import ApiKey, Tenant
from tenants.quotas import QUOTAS
from tests.factories import HOUR, dispatch, make_job, make_tenant, make_trigger, now
from tests.interfaces.api.caller import Caller, faulty_fields, noop_job

NEW = {"slug": "acme"}
KEY = {"name": "billing", "scopes": ["read", "write"]}
BASE = "/installation/tenants"


@pytest.fixture
def operator(db: None) -> Caller:
    return Caller.of_installation()


@pytest.fixture
def acme(operator: Caller) -> Tenant:
    assert operator.post(BASE, NEW).status_code == 201
    return Tenant.objects.get(slug="acme")


def caller_with(made: Any) -> Caller:
    assert made.status_code == 201, made.content
    return Caller(token=made.json()["key"])


class TestCreating:
    def test_makes_a_tenant_whose_webhooks_are_signed_with_what_is_shown_this_once(
        self, operator: Caller
    ) -> None:
        made = operator.post(
            BASE, NEW | {"name": "Acme Ltd", "weight": 7, "rate_per_second": None, "queues": ["a.*"]}
        )
        assert made.status_code == 201, made.content
        shown = made.json()
        assert shown["signing_secret"].startswith("whsec_")
        assert (shown["slug"], shown["name"], shown["status"], shown["weight"]) == (
            "acme",
            "Acme Ltd",
            "active",
            7,
        )
        assert (shown["rate_per_second"], shown["queues"], shown["disabled_types"]) == (None, ["a.*"], [])
        defaults = {quota.name: quota.default for quota in QUOTAS if quota.name != "weight"}
        assert {name: shown[name] for name in defaults} == defaults
        assert made["Location"] == f"/api/v1{BASE}/acme"
        read = operator.get(made["Location"])
        del shown["signing_secret"]
        assert read.json() == shown
        assert read["ETag"] == made["ETag"]
        assert "whsec_" not in read.content.decode()

    def test_is_done_once_under_one_key_and_shows_the_secret_once(self, operator: Caller) -> None:
        first, second = (operator.post(BASE, NEW, **{"Idempotency-Key": "k"}) for _ in range(2))
        assert (first.status_code, second.status_code, second["Idempotency-Replayed"]) == (201, 201, "true")
        assert first.json() | {"signing_secret": None} == second.json()
        assert Tenant.objects.count() == 1
        assert "whsec_" not in bytes(Answer.objects.get().body).decode()
        assert operator.post(BASE, {"slug": "b"}, **{"Idempotency-Key": "k"}).status_code == 422

    def test_of_a_slug_that_is_taken_is_a_conflict(self, operator: Caller, acme: Tenant) -> None:
        refused = operator.post(BASE, NEW)
        assert refused.status_code == 409
        assert [error["field"] for error in refused.json()["errors"]] == ["slug"]

    @pytest.mark.parametrize(
        ("body", "fields"),
        [
            ({}, {"slug"}),
            ({"slug": "No Slug"}, {"slug"}),
            ({"slug": "a\nb"}, {"slug"}),
            ({"slug": "acme\n"}, {"slug"}),
            ({"slug": "a" * 64}, {"slug"}),
            (NEW | {"status": "frozen"}, {"status"}),
            (
                NEW | {"weight": 0, "max_jobs": -1, "rate_burst": 1.5, "who": 1},
                {"weight", "max_jobs", "rate_burst", "who"},
            ),
            (NEW | {"weight": None}, {"weight"}),
            (NEW | {"rate_burst": 5}, {"rate_burst"}),
            (NEW | {"max_in_flight": True}, {"max_in_flight"}),
            (NEW | {"queues": ["a b"]}, {"queues"}),
            (NEW | {"queues": ["a"] * 101}, {"queues"}),
            (NEW | {"disabled_types": "message"}, {"disabled_types"}),
            (NEW | {"name": "a\u202eb"}, {"name"}),
            ([], {"body"}),
        ],
    )
    def test_refuses_by_field_and_makes_none(self, operator: Caller, body: Any, fields: set[str]) -> None:
        assert faulty_fields(operator.post(BASE, body)) == fields
        assert not Tenant.objects.exists()


class TestChanging:
    @pytest.mark.django_db(transaction=True)
    def test_a_quota_is_on_the_tenants_trail_in_no_name_it_knows(
        self, operator: Caller, acme: Tenant
    ) -> None:
        changed = operator.patch(f"{BASE}/acme", {"max_in_flight": 1, "rate_per_second": 5})
        assert changed.status_code == 200, changed.content
        assert (changed.json()["max_in_flight"], changed.json()["rate_per_second"]) == (1, 5)
        lifted = operator.patch(f"{BASE}/acme", {"rate_per_second": None, "disabled_types": ["message"]})
        assert (lifted.json()["rate_per_second"], lifted.json()["disabled_types"]) == (None, ["message"])
        prefix = ApiKey.objects.get(tenant=None).prefix
        rows = Change.objects.filter(tenant_id=acme.id, kind="tenant", action="updated")
        assert [(row.actor_kind, row.actor) for row in rows] == [("api_key", f"ck_{prefix} tests")] * 2
        told = Caller(acme, scopes=("admin",)).get("/audit")
        assert prefix not in told.content.decode()
        actors = [row["actor"] for row in told.json()["results"] if row["action"] == "updated"]
        assert actors == [{"kind": "operator", "name": None}] * 2

    def test_its_status_holds_what_falls_due_and_refuses_its_keys(
        self, operator: Caller, acme: Tenant
    ) -> None:
        theirs = caller_with(operator.post(f"{BASE}/acme/keys", KEY))
        make_trigger(make_job(acme))
        assert operator.patch(f"{BASE}/acme", {"status": "suspended"}).json()["status"] == "suspended"
        assert theirs.get("/jobs").status_code == 401
        assert dispatch().queued == []
        assert operator.patch(f"{BASE}/acme", {"status": "frozen"}).status_code == 200
        assert (theirs.get("/jobs").status_code, theirs.post("/jobs", noop_job()).status_code) == (200, 403)
        operator.patch(f"{BASE}/acme", {"status": "active"})
        assert theirs.post("/jobs", noop_job()).status_code == 201
        assert len(dispatch().queued) == 1

    def test_is_left_undone_where_it_was_changed_meanwhile(self, operator: Caller, acme: Tenant) -> None:
        tag = operator.get(f"{BASE}/acme")["ETag"]
        changed = operator.patch(f"{BASE}/acme", {"weight": 5}, **{"If-Match": tag})
        assert (changed.status_code, changed["ETag"] != tag) == (200, True)
        for stale in (tag, '"3"', "nonsense"):
            refused = operator.patch(f"{BASE}/acme", {"weight": 6}, **{"If-Match": stale})
            assert refused.status_code == 412
        assert operator.patch(f"{BASE}/acme", {"weight": 7}, **{"If-Match": "*"}).status_code == 200
        tag = operator.get(f"{BASE}/acme")["ETag"]
        assert operator.patch(f"{BASE}/acme", {"weight": 8}, **{"If-Match": tag}).json()["weight"] == 8

    @pytest.mark.parametrize(
        ("body", "fields"),
        [
            ({}, {"body"}),
            ({"slug": "other"}, {"slug"}),
            ({"status": "deleted"}, {"status"}),
            ({"max_payload_bytes": 1, "weight": 10_001}, {"max_payload_bytes", "weight"}),
            ({"webhook_secret": "whsec_x"}, {"webhook_secret"}),
            ({"require_if_match": 1}, {"require_if_match"}),
        ],
    )
    def test_refuses_by_field_and_changes_nothing(
        self, operator: Caller, acme: Tenant, body: Any, fields: set[str]
    ) -> None:
        before = operator.get(f"{BASE}/acme").json()
        assert faulty_fields(operator.patch(f"{BASE}/acme", body)) == fields
        assert operator.get(f"{BASE}/acme").json() == before

    @pytest.mark.parametrize("slug", ["nobody", "No", "a%00b", "%2e%2e", "a" * 200])
    def test_what_there_is_not_is_not_found(self, operator: Caller, slug: str) -> None:
        for method, path, body in (
            ("GET", f"{BASE}/{slug}", None),
            ("PATCH", f"{BASE}/{slug}", {"weight": 5}),
            ("GET", f"{BASE}/{slug}/keys", None),
            ("POST", f"{BASE}/{slug}/keys", KEY),
            ("DELETE", f"{BASE}/{slug}/keys/{'a' * 12}", None),
        ):
            assert operator.call(method, path, body).status_code == 404, path


class TestListing:
    def test_is_by_slug_in_pages_and_by_status(self, operator: Caller) -> None:
        slugs = [make_tenant().slug for _ in range(5)]
        Tenant.objects.filter(slug=slugs[2]).update(status="frozen")
        found: list[str] = []
        page = operator.get(f"{BASE}?page_size=2").json()
        while True:
            found += [row["slug"] for row in page["results"]]
            if page["next"] is None:
                break
            page = operator.get(page["next"]).json()
        assert found == sorted(slugs)
        backwards = operator.get(f"{BASE}?ordering=-slug").json()["results"]
        assert [row["slug"] for row in backwards] == sorted(slugs, reverse=True)
        assert [row["slug"] for row in operator.get(f"{BASE}?status=frozen").json()["results"]] == [slugs[2]]

    @pytest.mark.parametrize(
        ("query", "field"),
        [("status=gone", "status"), ("status=", "status"), ("page_size=0", "page_size"), ("cursor=x", "cursor"),
         ("ordering=name", "ordering")],
    )  # fmt: skip
    def test_refuses_by_field(self, operator: Caller, query: str, field: str) -> None:
        assert faulty_fields(operator.get(f"{BASE}?{query}")) == {field}


class TestKeys:
    def test_are_made_shown_once_listed_and_revoked(self, operator: Caller, acme: Tenant) -> None:
        ends = (now() + HOUR).isoformat()
        made = operator.post(f"{BASE}/acme/keys", KEY | {"expires_at": ends, "rate_per_second": 9})
        theirs, shown = caller_with(made), made.json()
        assert theirs.get("/tenant").json()["slug"] == "acme"
        text = shown.pop("key")
        assert text.startswith(f"ck_{shown['prefix']}_")
        assert (shown["name"], shown["scopes"], shown["rate_per_second"]) == ("billing", ["read", "write"], 9)
        assert datetime.fromisoformat(shown["expires_at"]) == datetime.fromisoformat(ends)
        [row] = operator.get(f"{BASE}/acme/keys").json()["results"]
        assert row | {"last_used_at": None} == shown
        assert row["last_used_at"] is not None
        one = f"{BASE}/acme/keys/{shown['prefix']}"
        assert operator.get(one).json() == row
        for _ in range(2):
            assert operator.delete(one).status_code == 204
        assert theirs.get("/tenant").status_code == 401
        assert operator.get(one).json()["revoked_at"] is not None
        assert text not in "".join(
            operator.get(path).content.decode() for path in (one, f"{BASE}/acme/keys", f"{BASE}/acme")
        )
        actions = Change.objects.filter(tenant_id=acme.id, kind="api_key").order_by("id")
        assert [row.action for row in actions] == ["created", "updated"]

    def test_are_listed_newest_first_in_pages(self, operator: Caller, acme: Tenant) -> None:
        made = [operator.post(f"{BASE}/acme/keys", KEY).json()["prefix"] for _ in range(3)]
        make_tenant()
        first = operator.get(f"{BASE}/acme/keys?page_size=2").json()
        rest = operator.get(first["next"]).json()
        assert [row["prefix"] for row in first["results"] + rest["results"]] == made[::-1]
        oldest = operator.get(f"{BASE}/acme/keys?ordering=created").json()["results"]
        assert [row["prefix"] for row in oldest] == made

    def test_are_made_once_under_one_idempotency_key(self, operator: Caller, acme: Tenant) -> None:
        first, second = (
            operator.post(f"{BASE}/acme/keys", KEY, **{"Idempotency-Key": "k"}) for _ in range(2)
        )
        assert first.json() | {"key": None} == second.json()
        assert ApiKey.objects.filter(tenant=acme).count() == 1
        assert first.json()["key"] not in bytes(Answer.objects.get().body).decode()

    def test_of_one_tenant_are_not_reached_by_anothers_path(self, operator: Caller, acme: Tenant) -> None:
        key, _ = create_api_key(tenant=make_tenant(), name="theirs", scopes=["read"])
        for method in ("GET", "DELETE"):
            assert operator.call(method, f"{BASE}/acme/keys/{key.prefix}").status_code == 404
        key.refresh_from_db()
        assert key.revoked_at is None

    def test_of_the_installation_are_neither_made_nor_seen_nor_revoked(
        self, operator: Caller, acme: Tenant
    ) -> None:
        assert faulty_fields(operator.post(f"{BASE}/acme/keys", KEY | {"scopes": ["operator"]})) == {
            "scopes[0]"
        }
        own = ApiKey.objects.get(tenant=None)
        assert operator.delete(f"{BASE}/acme/keys/{own.prefix}").status_code == 404
        assert operator.get(f"{BASE}/acme/keys").json()["results"] == []
        assert ApiKey.objects.get().revoked_at is None

    @pytest.mark.parametrize(
        ("body", "fields"),
        [
            ({}, {"name", "scopes"}),
            (KEY | {"scopes": []}, {"scopes"}),
            (KEY | {"scopes": ["read", "root"]}, {"scopes[1]"}),
            (KEY | {"name": ""}, {"name"}),
            (KEY | {"name": "a\u0007"}, {"name"}),
            (KEY | {"expires_at": "2001-01-01T00:00:00Z"}, {"expires_at"}),
            (KEY | {"expires_at": "9999-01-01T00:00:00Z"}, {"expires_at"}),
            (KEY | {"expires_at": "tomorrow"}, {"expires_at"}),
            (KEY | {"rate_per_second": 0}, {"rate_per_second"}),
            (KEY | {"prefix": "a" * 12}, {"prefix"}),
        ],
    )
    def test_that_are_wrong_are_refused_by_field(
        self, operator: Caller, acme: Tenant, body: Any, fields: set[str]
    ) -> None:
        assert faulty_fields(operator.post(f"{BASE}/acme/keys", body)) == fields
        assert not ApiKey.objects.filter(tenant=acme).exists()


class TestATenant:
    def test_learns_nothing_here(self, operator: Caller, acme: Tenant, owner: Caller) -> None:
        other = make_tenant()
        for method, path, body in (
            ("GET", "", None), ("POST", "", {"slug": "mine"}), ("GET", "/{}", None), ("PATCH", "/{}", {"weight": 5}),
            ("GET", "/{}/keys", None), ("POST", "/{}/keys", KEY), ("DELETE", "/{}/keys/aaaaaaaaaaaa", None),
        ):  # fmt: skip
            answers = [
                owner.call(method, (BASE + path).format(slug), body)
                for slug in (acme.slug, other.slug, owner.tenant.slug, "nobody")  # type: ignore[union-attr]
            ]
            assert {answer.status_code for answer in answers} == {403}, path
            assert len({answer.json()["detail"] for answer in answers}) == 1
        assert Tenant.objects.count() == 3
