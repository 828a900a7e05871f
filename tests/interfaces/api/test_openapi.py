"""The description of the API: complete, valid, true to the answers, and readable without the internet."""

import re
from typing import Any

import pytest
import yaml
from django.core.management import call_command

from jobs.models import ActivityHour
from tests.factories import HOUR, make_attempt, make_job, make_trigger, now
from tests.interfaces.api.caller import Caller, noop_job


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("openapi") / "schema.yaml"
    call_command("spectacular", "--validate", "--fail-on-warn", "--file", str(path))
    return yaml.safe_load(path.read_text())


class TestSchema:
    def test_describes_every_operation_with_its_key_and_its_problems(self, schema: dict[str, Any]) -> None:
        for path, operations in schema["paths"].items():
            for method, operation in operations.items():
                if method == "parameters":
                    continue
                assert operation["security"] == [{"apiKey": []}], path
                for status in ("400", "401", "403", "503"):
                    assert list(operation["responses"][status]["content"]) == ["application/problem+json"], (
                        path
                    )
                of_one_object = "{" in path or path.endswith("/worker/complete")
                assert ("404" in operation["responses"]) == of_one_object, path

    def test_names_the_request_in_every_answer(self, schema: dict[str, Any], owner: Caller) -> None:
        assert "request_id" in schema["components"]["schemas"]["Problem"]["properties"]
        header = schema["components"]["headers"]["RequestId"]
        for path, operations in schema["paths"].items():
            for method, operation in operations.items():
                for status, answer in operation["responses"].items():
                    told = answer["headers"]["X-Request-ID"]
                    assert told == {"$ref": "#/components/headers/RequestId"}, (path, method, status)
        given = owner.get("/jobs", **{"X-Request-ID": "unsound, for its blanks"})["X-Request-ID"]
        assert re.search(header["schema"]["pattern"], given)

    def test_says_how_many_tasks_a_workflow_has(self, schema: dict[str, Any]) -> None:
        tasks = schema["components"]["schemas"]["WorkflowDefinition"]["properties"]["tasks"]
        assert (tasks["minProperties"], tasks["maxProperties"]) == (1, 1000)

    def test_shows_by_examples_that_are_accepted_what_a_write_of_jobs_looks_like(
        self, schema: dict[str, Any], owner: Caller
    ) -> None:
        sent = 0
        for path, operations in schema["paths"].items():
            writes = [item for item in operations.items() if "requestBody" in item[1]]
            # A backfill's stretch must lie within the job's past. Its own tests say which stretches are accepted.
            if not path.startswith(("/api/v1/jobs", "/api/v1/op", "/api/v1/dead")) or "backfill" in path:
                continue
            for method, operation in writes:
                examples = operation["requestBody"]["content"]["application/json"]["examples"]
                for example in examples.values():
                    nightly = noop_job(name=f"n{sent}", schedule={"type": "cron", "cron": "0 2 * * *"})
                    job = owner.post("/jobs", nightly).json()
                    url = path.format(job_id=job["id"], name="put")
                    answer = owner.call(method.upper(), url, example["value"])
                    assert answer.status_code < 300, (url, example, answer.content)
                    sent += 1
        assert sent >= 14

    def test_keeps_all_operations_on_one_noun_together(self, schema: dict[str, Any]) -> None:
        """A tag is a module of a generated client."""
        for path, operations in schema["paths"].items():
            noun = path.removeprefix("/api/v1/").partition("/")[0].replace("-", "_")
            for method, operation in operations.items():
                if method != "parameters":
                    assert operation["tags"] == [noun], (method, path)

    def test_gives_no_property_the_name_of_its_schema(self, schema: dict[str, Any]) -> None:
        """A generated client has a variable of each of these names in one function."""
        clashes = [
            (name, field)
            for name, component in schema["components"]["schemas"].items()
            for field in component.get("properties", ())
            if field.replace("_", "") == name.lower()
        ]
        assert clashes == []

    def test_describes_the_bearer_key(self, schema: dict[str, Any]) -> None:
        assert schema["components"]["securitySchemes"]["apiKey"]["scheme"] == "bearer"

    def test_names_the_filters_and_the_cursor_of_a_list(self, schema: dict[str, Any]) -> None:
        names = {parameter["name"] for parameter in schema["paths"]["/api/v1/triggers"]["get"]["parameters"]}
        assert {"cursor", "page_size", "state", "job", "scheduled_for_after"} <= names

    def test_knows_every_field_that_is_answered(self, schema: dict[str, Any], owner: Caller) -> None:
        trigger = make_trigger(make_job(owner.tenant), "dead")
        attempt = make_attempt(trigger)
        stats = owner.get(f"/jobs/{trigger.job_id}/stats").json()
        ActivityHour.objects.create(
            hour=now().replace(minute=0, second=0, microsecond=0) - HOUR,
            tenant_id=owner.tenant.id,
            job_type="noop",
            duration_3=1,
        )
        totals = owner.get("/stats").json()
        created = owner.post("/jobs", noop_job()).json()
        answers = {
            "Job": owner.get("/jobs").json()["results"][0],
            "IntervalSchedule": created["schedule"],
            "Trigger": owner.get("/triggers").json()["results"][0],
            "OneTrigger": owner.get(f"/triggers/{trigger.id}").json(),
            "Attempt": owner.get(f"/triggers/{trigger.id}/attempts").json()["results"][0],
            "OneAttempt": owner.get(f"/attempts/{attempt.id}").json(),
            "OneJob": created,
            "JobStats": stats,
            "JobStatsTotal": stats["total"],
            "JobStatsBucket": stats["buckets"][0],
            "TenantStats": totals,
            "TenantStatsTotal": totals["total"],
            "TenantStatsType": totals["job_types"][0],
            "CoarseSpread": totals["total"]["duration_seconds"],
            "Spread": stats["total"]["duration_seconds"],
            "PaginatedTriggerList": owner.get("/triggers").json(),
            "PaginatedJobTriggerList": owner.get(f"/jobs/{trigger.job_id}/triggers").json(),
            "Tenant": owner.get("/tenant").json(),
            "TriggerExplanation": owner.get(f"/triggers/{make_trigger(trigger.job).id}/explain").json(),
            "JobExplanation": owner.get(f"/jobs/{trigger.job_id}/explain").json(),
            "JobType": owner.get("/job-types").json()["results"][0],
            "Problem": owner.get("/jobs?bogus=1").json(),
        }
        for name, answer in answers.items():
            described = schema["components"]["schemas"][name]
            assert answer.keys() <= described["properties"].keys(), name
            assert answer.keys() >= set(described.get("required", ())), name

    def test_names_what_each_page_of_triggers_is_answered_as(self, schema: dict[str, Any]) -> None:
        """Both are pages of triggers. One also tells of ranges of skipped firings."""
        names = {}
        for path in ("/api/v1/triggers", "/api/v1/jobs/{job_id}/triggers"):
            [media] = schema["paths"][path]["get"]["responses"]["200"]["content"].values()
            names[path] = media["schema"]["$ref"].rpartition("/")[2]
        assert list(names.values()) == ["PaginatedTriggerList", "PaginatedJobTriggerList"]


class TestPages:
    def test_are_served_without_a_key(self, db: None) -> None:
        client = Caller().client
        assert client.get("/api/schema").status_code == 200
        assert client.get("/api/docs").status_code == 200

    def test_load_nothing_from_the_internet(self, db: None) -> None:
        page = Caller().client.get("/api/docs").content.decode()
        assert "/static/drf_spectacular_sidecar/" in page
        assert "https://" not in page
