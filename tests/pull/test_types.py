"""Declaring job types, and jobs of them."""

import time
from typing import Any

import pytest

from jobs.actions.pull import json_schema, types
from jobs.models import Job, PullType
from tests.factories import make_tenant, make_trigger, state_of
from tests.interfaces.api.caller import Caller, faulty_fields, noop_job
from tests.pull.conftest import TYPE, declare, pull_job

pytestmark = pytest.mark.django_db
SCHEMA = {
    "type": "object",
    "properties": {"invoice": {"$ref": "#/$defs/number"}, "tags": {"type": "array", "uniqueItems": True}},
    "required": ["invoice"],
    "additionalProperties": False,
    "$defs": {"number": {"type": "integer", "minimum": 1}},
}


def job(**changes: Any) -> dict[str, Any]:
    return noop_job(job_type=TYPE) | changes


class TestDeclaring:
    def test_creates_then_replaces(self, service: Caller) -> None:
        body = {"description": "Counts.", "payload_schema": SCHEMA, "timeout_seconds": 5, "max_in_flight": 2}
        created = service.call("PUT", "/job-types/count", body)
        assert created.status_code == 201, created.content
        assert created.json() == {"name": "count", "pull": True, "batch_size": 1} | body
        assert service.call("PUT", "/job-types/count", {}).status_code == 200
        shown = service.get("/job-types/count").json()
        assert (shown["payload_schema"], shown["timeout_seconds"]) == (None, 60)
        listed = {kind["name"]: kind["pull"] for kind in service.get("/job-types").json()["results"]}
        assert (listed["count"], listed["noop"]) == (True, False)

    def test_is_each_tenants_own(self, service: Caller) -> None:
        outsider = Caller(make_tenant())
        assert outsider.get(f"/job-types/{TYPE}").status_code == 404
        assert outsider.call("PUT", f"/job-types/{TYPE}", {"timeout_seconds": 9}).status_code == 201
        assert service.get(f"/job-types/{TYPE}").json()["timeout_seconds"] == 60
        assert outsider.delete(f"/job-types/{TYPE}").status_code == 204
        assert service.get(f"/job-types/{TYPE}").status_code == 200

    def test_refuses_the_name_of_a_registered_type(self, service: Caller) -> None:
        response = service.call("PUT", "/job-types/noop", {})
        assert response.status_code == 409
        assert response.json()["errors"][0]["field"] == "name"

    @pytest.mark.parametrize("name", ["Upper", "a@1", "1a", "a" * 41, "a-b"])
    def test_refuses_what_is_no_name(self, service: Caller, name: str) -> None:
        assert faulty_fields(service.call("PUT", f"/job-types/{name}", {})) == {"name"}

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({"bogus": 1}, "bogus"),
            ({"timeout_seconds": 0}, "timeout_seconds"),
            ({"max_in_flight": 0}, "max_in_flight"),
            ({"payload_schema": []}, "payload_schema"),
            ({"payload_schema": {"type": "thing"}}, "payload_schema.type"),
            ({"payload_schema": {"pattern": 5}}, "payload_schema.pattern"),
            ({"payload_schema": {"pattern": "("}}, "payload_schema.pattern"),
            ({"payload_schema": {"pattern": r"(a)\1"}}, "payload_schema.pattern"),
            ({"payload_schema": {"pattern": "(?=a)a"}}, "payload_schema.pattern"),
            ({"payload_schema": {"pattern": "(x{1000}){1000}"}}, "payload_schema.pattern"),
            ({"payload_schema": {"pattern": "x" * 201}}, "payload_schema.pattern"),
            ({"payload_schema": {"items": {"pattern": "["}}}, "payload_schema.items.pattern"),
            ({"payload_schema": {"allOf": [{"pattern": "a"}] * 51}}, "payload_schema"),
            ({"payload_schema": {"patternProperties": {"(?=a)": {}}}}, "payload_schema.patternProperties"),
            ({"payload_schema": {"patternProperties": {"a": []}}}, "payload_schema.patternProperties.a"),
            ({"payload_schema": {"$ref": "http://169.254.169.254/"}}, "payload_schema.$ref"),
            ({"payload_schema": {"$ref": "#/$defs/none"}}, "payload_schema.$ref"),
            ({"payload_schema": {"$id": "file:///etc/passwd"}}, "payload_schema.$id"),
            (
                {"payload_schema": {"$schema": "http://json-schema.org/draft-07/schema#"}},
                "payload_schema.$schema",
            ),
            ({"payload_schema": {"title": "x" * 40_000}}, "payload_schema"),
            (
                {"payload_schema": {"properties": {"a": {"items": {"$dynamicRef": "#x"}}}}},
                "payload_schema.properties.a.items.$dynamicRef",
            ),
        ],
    )
    def test_refuses_what_it_cannot_keep_to(self, service: Caller, body: Any, field: str) -> None:
        assert faulty_fields(service.call("PUT", "/job-types/count", body)) == {field}
        assert not PullType.objects.filter(name="count").exists()

    def test_takes_properties_that_are_called_like_keywords(self, service: Caller) -> None:
        schema = {"properties": {"pattern": {"type": "string"}, "$ref": {"const": {"pattern": 1}}}}
        assert service.call("PUT", "/job-types/count", {"payload_schema": schema}).status_code == 201


class TestAPattern:
    def declared(self, service: Caller, pattern: str) -> Any:
        body = {"payload_schema": {"properties": {"a": {"pattern": pattern}}}}
        assert service.call("PUT", "/job-types/count", body).status_code in (200, 201)

        def answer(text: str) -> set[str]:
            given = job(name=f"n{len(text)}", job_type="count", payload={"a": text})
            answered = service.post("/jobs", given)
            return set() if answered.status_code == 201 else faulty_fields(answered)

        return answer

    def test_is_searched_for_in_a_payload(self, service: Caller) -> None:
        answer = self.declared(service, r"^[A-Z]{2}\d{4}$")
        assert answer("DE1234") == set()
        assert answer("DE12345") == answer("de1234") == answer("DE\u0661\u0661\u0661\u0661") == {"payload.a"}
        assert self.declared(service, "b")("abc") == set()

    def test_that_would_match_for_ever_elsewhere_is_soon_done(self, service: Caller) -> None:
        answer, began = self.declared(service, "^(a+)+$"), time.thread_time()
        assert answer("a" * 50_000 + "!") == {"payload.a"}
        assert time.thread_time() - began < 1

    def test_is_not_tried_on_a_text_too_long_for_it(self, service: Caller) -> None:
        assert self.declared(service, "(a?){900}b$")("a" * 50_000) == {"payload"}


class TestDeleting:
    def test_is_refused_while_there_are_jobs_of_it(self, service: Caller, tenant: Any) -> None:
        job_id = service.post("/jobs", job()).json()["id"]
        assert service.delete(f"/job-types/{TYPE}").status_code == 409
        service.delete(f"/jobs/{job_id}")
        assert service.delete(f"/job-types/{TYPE}").status_code == 204
        assert service.delete(f"/job-types/{TYPE}").status_code == 404

    def test_is_refused_while_one_of_its_triggers_runs(self, service: Caller, tenant: Any) -> None:
        deleted = pull_job(tenant)
        make_trigger(deleted, "running")
        Job.objects.filter(id=deleted.id).update(deleted_at=deleted.created_at)
        assert service.delete(f"/job-types/{TYPE}").status_code == 409


class TestAJob:
    def test_shows_its_type_as_its_tenant_calls_it(self, service: Caller, tenant: Any) -> None:
        created = service.post("/jobs", job())
        assert created.status_code == 201, created.content
        assert created.json()["job_type"] == TYPE
        stored = Job.objects.get()
        assert stored.job_type == f"{TYPE}@{tenant.id}"
        make_trigger(stored)
        assert service.get("/triggers").json()["results"][0]["job_type"] == TYPE
        assert len(service.get(f"/triggers?job_type={TYPE}").json()["results"]) == 1
        assert len(service.get(f"/jobs?job_type={TYPE}").json()["results"]) == 1
        assert service.get("/jobs?job_type=invoice").json()["results"] == []

    def test_keeps_its_type_when_it_is_edited(self, service: Caller, tenant: Any) -> None:
        job_id = service.post("/jobs", job()).json()["id"]
        edited = service.patch(f"/jobs/{job_id}", {"priority": "high"})
        assert edited.json()["job_type"] == TYPE
        assert Job.objects.get().job_type == f"{TYPE}@{tenant.id}"

    def test_of_another_tenants_type_is_refused(self, service: Caller, tenant: Any) -> None:
        outsider = Caller(make_tenant())
        for name in (TYPE, f"{TYPE}@{tenant.id}"):
            assert faulty_fields(outsider.post("/jobs", job(job_type=name))) == {"job_type"}

    @pytest.mark.parametrize(
        ("payload", "fields"),
        [
            ({"invoice": 7, "tags": [1, 2]}, set()),
            ({}, {"payload"}),
            ({"invoice": 0}, {"payload.invoice"}),
            ({"invoice": "7", "tags": [1, 1.0]}, {"payload.invoice", "payload.tags"}),
            ({"invoice": 7, "more": 1}, {"payload"}),
        ],
    )
    def test_must_have_a_payload_that_fits(
        self, service: Caller, tenant: Any, payload: Any, fields: set[str]
    ) -> None:
        declare(tenant, payload_schema=SCHEMA)
        response = service.post("/jobs", job(payload=payload))
        assert (faulty_fields(response) if fields else set()) == fields
        assert (response.status_code == 201) == (not fields)

    @pytest.mark.parametrize(
        "schema",
        [
            {"$ref": "#"},
            {
                "$ref": "#/$defs/a0",
                "$defs": {
                    f"a{level}": {"allOf": [{"$ref": f"#/$defs/a{level + 1}"}] * 2} for level in range(30)
                }
                | {"a30": True},
            },
        ],
    )
    def test_is_refused_where_checking_it_would_never_end(
        self, service: Caller, tenant: Any, schema: Any
    ) -> None:
        declare(tenant, payload_schema=schema)
        assert faulty_fields(service.post("/jobs", job(payload={"a": 1}))) == {"payload"}

    def test_is_refused_in_a_bulk_once_the_time_of_the_call_is_over(
        self, service: Caller, tenant: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        declare(tenant, payload_schema=SCHEMA)
        monkeypatch.setattr(types, "Allowance", lambda: json_schema.Allowance(0))
        jobs = [job(name=name, payload={"invoice": 7}) for name in "ab"]
        answer = service.post("/jobs/bulk", {"jobs": jobs}).json()
        told = [result["problem"]["errors"][0] for result in answer["results"]]
        assert [(fault["field"], "fewer at once" in fault["message"]) for fault in told] == [
            ("payload", True)
        ] * 2

    def test_is_explained_by_its_own_name(self, service: Caller, tenant: Any) -> None:
        declare(tenant, max_in_flight=1)
        trigger = make_trigger(pull_job(tenant))
        gates = {
            gate["gate"]: gate for gate in service.get(f"/triggers/{trigger.id}/explain").json()["gates"]
        }
        assert gates["type_cap"]["limit"] == 1
        assert "@" not in str(gates["type_cap"]) + str(gates["worker"])
        assert state_of(trigger) == ("pending", "")
