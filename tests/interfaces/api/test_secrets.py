"""Secrets over the API: written, listed by name, refused where they are unknown, and never shown."""

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command

from tenants.models import Secret
from tenants.vault.signing import new_signing_secret, open_signing_secrets
from tests.interfaces.api.caller import Caller, faulty_fields, jobs_stored, noop_job

VALUE = "s3cr3t-v4lue-of-the-tenant"


def webhook_job(**payload: Any) -> dict[str, Any]:
    return noop_job(job_type="webhook", payload={"url": "https://example.com/", **payload})


class TestASecret:
    def test_goes_in_and_never_comes_out(self, owner: Caller) -> None:
        made = owner.put("/secrets/token", {"value": VALUE, "hosts": ["*"]})
        assert (made.status_code, made.json()["name"], made.json()["version"]) == (201, "token", 1)
        answers = [
            made,
            owner.put("/secrets/token", {"value": VALUE + "2"}),
            owner.get("/secrets/token"),
            owner.get("/secrets"),
        ]
        assert [answer.status_code for answer in answers] == [201, 200, 200, 200]
        assert answers[2].json()["version"] == 2
        assert [row["name"] for row in answers[3].json()["results"]] == ["token"]
        for answer in answers:
            assert VALUE not in answer.content.decode()
            assert "sealed" not in answer.content.decode()
        assert owner.delete("/secrets/token").status_code == 204
        assert owner.get("/secrets/token").status_code == 404
        assert owner.delete("/secrets/token").status_code == 404

    @pytest.mark.parametrize(
        ("name", "body", "field"),
        [
            ("a", {}, "value"), ("a", {"value": "short"}, "value"), ("a", {"value": "a\nb" * 9}, "value"),
            ("a", {"value": VALUE, "x": 1}, "x"), ("a", {"value": [VALUE]}, "value"), ("a", [], "body"),
            ("-a", {"value": VALUE}, "name"), ("a%00", {"value": VALUE}, "name"), ("a%0A", {"value": VALUE}, "name"),
            ("a" * 101, {"value": VALUE}, "name"), ("%F0%9F%98%80", {"value": VALUE}, "name"),
        ],
    )  # fmt: skip
    def test_is_refused_by_field_without_an_echo(
        self, owner: Caller, name: str, body: Any, field: str
    ) -> None:
        answer = owner.put(f"/secrets/{name}", body)
        assert faulty_fields(answer) == {field}
        assert VALUE not in answer.content.decode()
        assert not Secret.objects.exists()

    @pytest.mark.parametrize("name", ["gone", "a%00", "a%0A", "%ff", "-", "a" * 300])
    def test_that_is_not_there_is_a_404_whatever_its_name(self, owner: Caller, name: str) -> None:
        assert owner.get(f"/secrets/{name}").status_code == 404
        assert owner.delete(f"/secrets/{name}").status_code == 404

    def test_is_listed_by_name_page_by_page(self, owner: Caller, outsider: Caller) -> None:
        for name in ("c", "a", "b"):
            owner.put(f"/secrets/{name}", {"value": VALUE, "hosts": ["*"]})
        outsider.put("/secrets/aa", {"value": VALUE, "hosts": ["*"]})
        seen, page = [], owner.get("/secrets?page_size=2").json()
        seen += page["results"]
        page = owner.get(page["next"]).json()
        seen += page["results"]
        assert [row["name"] for row in seen] == ["a", "b", "c"]
        assert page["next"] is None
        assert faulty_fields(owner.get("/secrets?cursor=cD0lMDA%3D")) == {"cursor"}


class TestAJob:
    def test_that_names_an_unknown_secret_is_refused_at_the_field(
        self, owner: Caller, outsider: Caller
    ) -> None:
        outsider.put("/secrets/theirs", {"value": VALUE, "hosts": ["*"]})
        owner.put("/secrets/mine", {"value": VALUE, "hosts": ["*"]})
        definition = webhook_job(
            url="https://example.com/{{secret:theirs}}",
            headers={"A": "{{secret:mine}}", "B": "{{secret:gone}}"},
        )
        answer = owner.post("/jobs", definition)
        assert faulty_fields(answer) == {"payload.url", "payload.headers.B"}
        assert "'theirs'" in answer.content.decode() or "theirs" in answer.content.decode()
        assert jobs_stored() == 0

    def test_shows_the_placeholder_and_can_be_edited_after_its_secret_is_gone(self, owner: Caller) -> None:
        owner.put("/secrets/mine", {"value": VALUE, "hosts": ["*"]})
        made = owner.post("/jobs", webhook_job(headers={"A": "{{secret:mine}}"}))
        assert (made.status_code, made.json()["payload"]["headers"]) == (201, {"A": "{{secret:mine}}"})
        owner.delete("/secrets/mine")
        path = f"/jobs/{made.json()['id']}"
        assert owner.patch(path, {"priority": "high"}).status_code == 200
        changed = owner.patch(path, {"payload": {"headers": {"B": "{{secret:mine}}"}}})
        assert faulty_fields(changed) == {"payload.headers.A", "payload.headers.B"}
        run = owner.post(f"{path}/run", {"payload": {"url": "https://example.com/{{secret:mine}}"}})
        assert faulty_fields(run) == {"payload.url"}


class TestTheSigningSecret:
    def test_is_replaced_with_an_overlap_and_never_shown(self, owner: Caller) -> None:
        old, new = new_signing_secret(), new_signing_secret()
        assert owner.get("/signing-secret").json() == {"rotating": False, "retires_at": None}
        assert owner.put("/signing-secret", {"secret": old, "overlap_seconds": 0}).status_code == 200
        for _ in range(2):
            answer = owner.put("/signing-secret", {"secret": new, "overlap_seconds": 60})
            assert (answer.status_code, answer.json()["rotating"]) == (200, True)
            assert new not in answer.content.decode()
        assert owner.get("/signing-secret").json() == answer.json()
        tenant = owner.tenant
        tenant.refresh_from_db()
        assert open_signing_secrets(tenant.id, tenant.webhook_secret) == f"{new} {old}"

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({}, "secret"), ({"secret": None}, "secret"), ({"secret": "whsec_x"}, "secret"), ({"secret": 5}, "secret"),
            ({"secret": new_signing_secret(), "overlap_seconds": -1}, "overlap_seconds"),
            ({"secret": new_signing_secret(), "overlap_seconds": 2_592_001}, "overlap_seconds"),
            ({"secret": new_signing_secret(), "overlap": 1}, "overlap"),
        ],
    )  # fmt: skip
    def test_is_refused_by_field(self, owner: Caller, body: dict[str, Any], field: str) -> None:
        assert faulty_fields(owner.put("/signing-secret", body)) == {field}

    def test_comes_out_of_create_tenant_once(self, db: None) -> None:
        output = StringIO()
        call_command("create_tenant", "acme", "--json", stdout=output)
        assert json.loads(output.getvalue())["webhook_secret"].startswith("whsec_")
