"""Refusals of the API: 400 with the name of each faulty field, and nothing stored."""

import json
from typing import Any

import pytest
from pydantic import BaseModel

from jobs.handlers import Context, job_type
from jobs.models import Job
from tenants.models import Tenant
from tests.factories import make_job, make_trigger
from tests.interfaces.api.caller import Caller, faulty_fields, jobs_stored, noop_job

CRON = {"type": "cron", "cron": "0 2 * * *"}
EVERY = {"type": "interval", "every_seconds": 60}
ONCE = {"type": "once", "run_at": "2090-01-01T00:00:00Z"}


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def _posting(text: str, name: str = "n") -> dict[str, Any]:
    """A definition with that text in its payload."""
    payload = {"url": "https://example.com/", "method": "POST", "body": {"text": text}}
    return noop_job(name=name, job_type="webhook", payload=payload)


#: name of the case: (changes to a definition that is accepted, fields that the answer names)
REFUSED: dict[str, tuple[dict[str, Any], set[str]]] = {
    "unknown job type": ({"job_type": "webhok"}, {"job_type"}),
    "job type that is no text": ({"job_type": ["noop"]}, {"job_type"}),
    "no job type": ({"job_type": None}, {"job_type"}),
    "no schedule": ({"schedule": None}, {"schedule"}),
    "schedule that is no object": ({"schedule": "0 2 * * *"}, {"schedule"}),
    "schedule without a type": ({"schedule": {"cron": "0 2 * * *"}}, {"schedule.type"}),
    "unknown type of schedule": ({"schedule": CRON | {"type": "lunar"}}, {"schedule.type"}),
    "malformed cron": ({"schedule": CRON | {"cron": "61 * * * *"}}, {"schedule.cron"}),
    "cron of six fields": ({"schedule": CRON | {"cron": "0 0 2 * * *"}}, {"schedule.cron"}),
    "cron that never fires": ({"schedule": CRON | {"cron": "0 0 30 2 *"}}, {"schedule.cron"}),
    "cron that is no text": ({"schedule": CRON | {"cron": 5}}, {"schedule.cron"}),
    "malformed zone": ({"schedule": CRON | {"timezone": "Mars/Olympus"}}, {"schedule.timezone"}),
    "zone that is a trap": ({"schedule": CRON | {"timezone": "localtime"}}, {"schedule.timezone"}),
    "empty zone": ({"schedule": CRON | {"timezone": ""}}, {"schedule.timezone"}),
    "zone for an interval": ({"schedule": EVERY | {"timezone": "UTC"}}, {"schedule.timezone"}),
    "quartz of five fields": ({"schedule": CRON | {"cron_dialect": "quartz"}}, {"schedule.cron"}),
    "unknown dialect": ({"schedule": CRON | {"cron_dialect": "spring"}}, {"schedule.cron_dialect"}),
    "dialect of an interval": ({"schedule": EVERY | {"cron_dialect": "unix"}}, {"schedule.cron_dialect"}),
    "past run_at": ({"schedule": ONCE | {"run_at": "2020-01-01T00:00:00Z"}}, {"schedule.run_at"}),
    "run_at without an offset": ({"schedule": ONCE | {"run_at": "2090-01-01T00:00:00"}}, {"schedule.run_at"}),
    "run_at on a day that is none": (
        {"schedule": ONCE | {"run_at": "2090-02-30T00:00:00Z"}},
        {"schedule.run_at"},
    ),
    "run_at as a number": ({"schedule": ONCE | {"run_at": 1893456000}}, {"schedule.run_at"}),
    "both cron and run_at": ({"schedule": CRON | {"run_at": "2090-01-01T00:00:00Z"}}, {"schedule.run_at"}),
    "both run_at and cron": ({"schedule": ONCE | {"cron": "0 2 * * *"}}, {"schedule.cron"}),
    "neither, of type cron": ({"schedule": {"type": "cron"}}, {"schedule.cron"}),
    "neither, of type once": ({"schedule": {"type": "once"}}, {"schedule.run_at"}),
    "year 2101": ({"schedule": ONCE | {"run_at": "2101-01-01T00:00:00Z"}}, {"schedule.run_at"}),
    "year 1999": ({"schedule": EVERY | {"starts_at": "1999-01-01T00:00:00Z"}}, {"schedule.starts_at"}),
    "year 9999 with an offset": (
        {"schedule": ONCE | {"run_at": "9999-12-31T23:59:59-12:00"}},
        {"schedule.run_at"},
    ),
    "year 1 with an offset": (
        {"schedule": EVERY | {"starts_at": "0001-01-01T00:00:00+14:00"}},
        {"schedule.starts_at"},
    ),
    "ends_at passed": ({"schedule": EVERY | {"ends_at": "2020-01-01T00:00:00Z"}}, {"schedule.ends_at"}),
    "ends before it starts": (
        {"schedule": EVERY | {"starts_at": "2091-01-01T00:00:00Z", "ends_at": "2090-01-01T00:00:00Z"}},
        {"schedule.ends_at"},
    ),
    "interval of nothing": ({"schedule": EVERY | {"every_seconds": 0}}, {"schedule.every_seconds"}),
    "interval of ages": ({"schedule": EVERY | {"every_seconds": 1e300}}, {"schedule.every_seconds"}),
    "interval that is a bool": ({"schedule": EVERY | {"every_seconds": True}}, {"schedule.every_seconds"}),
    "jitter over the interval": ({"schedule": EVERY | {"jitter_seconds": 61}}, {"schedule.jitter_seconds"}),
    "unknown field": ({"bogus": 1}, {"bogus"}),
    "unknown field of a schedule": ({"schedule": EVERY | {"bogus": 1}}, {"schedule.bogus"}),
    "unknown field of a retry policy": ({"retry_policy": {"bogus": 1}}, {"retry_policy.bogus"}),
    "notify without anybody to tell": ({"notify": {"on": ["dead"]}}, {"notify.url"}),
    "read-only fields": ({"status": "paused", "version": 7}, {"status", "version"}),
    "payload the schema refuses": ({"job_type": "webhook", "payload": {"url": "ftp://x"}}, {"payload.url"}),
    "payload with an unknown field": ({"payload": {"bogus": 1}}, {"payload.bogus"}),
    "payload that is no object": ({"payload": [1]}, {"payload"}),
    "payload over the limit": ({"payload": {"sleep_ms": "x" * 70_000}}, {"payload"}),
    "retries without end": ({"retry_policy": {"max_attempts": 10**9}}, {"retry_policy.max_attempts"}),
    "retry policy that is no object": ({"retry_policy": 5}, {"retry_policy"}),
    "no name": ({"name": None}, {"name"}),
    "empty name": ({"name": ""}, {"name"}),
    "name of blanks": ({"name": "  "}, {"name"}),
    "name with a line break": ({"name": "a\nb"}, {"name"}),
    "name too long": ({"name": "x" * 201}, {"name"}),
    "name that reverses text": ({"name": "a\u202eb"}, {"name"}),
    "unknown priority": ({"priority": "urgent"}, {"priority"}),
    "priority as a number": ({"priority": 1}, {"priority"}),
    "unknown overlap policy": ({"overlap_policy": "queued"}, {"overlap_policy"}),
    "unknown misfire policy": ({"misfire_policy": "fire_some"}, {"misfire_policy"}),
    "nothing to catch up": ({"max_catchup": 0}, {"max_catchup"}),
    "more to catch up than may be": ({"max_catchup": 10_001}, {"max_catchup"}),
    "unknown delivery": ({"delivery": "perhaps"}, {"delivery"}),
    "concurrency key of 201 characters": ({"concurrency_key": "k" * 201}, {"concurrency_key"}),
    "concurrency key with NUL": ({"concurrency_key": "a\x00"}, {"concurrency_key"}),
    "timeout of nothing": ({"timeout_seconds": 0}, {"timeout_seconds"}),
    "grace beyond a week": ({"misfire_grace_seconds": 10**6}, {"misfire_grace_seconds"}),
    "none may run": ({"max_concurrent": 0}, {"max_concurrent"}),
    "half a job may run": ({"max_concurrent": 1.5}, {"max_concurrent"}),
    "NUL in the name": ({"name": "a\0b"}, {"name"}),
    "NUL in the payload": ({"payload": {"a": {"b": ["\0"]}}}, {"payload.a.b[0]"}),
    "NUL in a key": ({"payload": {"a\0": 1}}, {'payload["a\\u0000"]'}),
    "lone surrogate": ({"payload": {"a": "\ud800"}}, {"payload.a"}),
    "lone surrogate in a field's name": ({"\ud800": 1}, {'["\\ud800"]'}),
    "integer beyond 2^53": ({"payload": {"n": 2**53 + 1}}, {"payload.n"}),
    "depth 33": ({"payload": {"deep": nested(33)}}, {"payload"}),
    "several at once": (
        {"name": "", "priority": "x", "schedule": CRON | {"cron": "x", "timezone": "x"}},
        {"name", "priority", "schedule.cron", "schedule.timezone"},
    ),
}

#: A body that is not strict JSON, and the field that the answer names.
MALFORMED: dict[str, tuple[bytes, str]] = {
    "NaN": (b'{"name": "n", "payload": {"x": NaN}}', "payload.x"),
    "Infinity": (b'{"payload": [-Infinity]}', "payload[0]"),
    "1e999": (b'{"payload": {"x": 1e999}}', "payload.x"),
    "5,000 digits": (b'{"payload": {"x": ' + b"9" * 5000 + b"}}", "body"),
    "depth 50,000": (b'{"name": "n", "payload": ' + b"[" * 50_000 + b"]" * 50_000 + b"}", "payload"),
    "a list too deep": (b"[" * 40 + b"]" * 40, "body"),
    "repeated key": (b'{"name": "a", "name": "b"}', "body"),
    "cut off": (b'{"name": ', "body"),
    "not UTF-8": (b'{"name": "\xff"}', "body"),
    "trailing comma": (b'{"name": "n",}', "body"),
    "a list": (b"[]", "body"),
    "a text": (b'"x"', "body"),
    "null": (b"null", "body"),
    "no body": (b"", "name"),
}


class TestCreate:
    @pytest.mark.parametrize("case", REFUSED)
    def test_refuses(self, owner: Caller, case: str) -> None:
        changes, fields = REFUSED[case]
        assert faulty_fields(owner.post("/jobs", noop_job(**changes))) == fields
        assert jobs_stored() == 0

    @pytest.mark.parametrize("case", MALFORMED)
    def test_refuses_a_body_of(self, owner: Caller, case: str) -> None:
        raw, field = MALFORMED[case]
        assert field in faulty_fields(owner.post("/jobs", raw))
        assert jobs_stored() == 0

    def test_says_what_would_be_right(self, owner: Caller) -> None:
        response = owner.post(
            "/jobs", noop_job(job_type="webhok", delivery="exactly_twice", priority="urgent")
        )
        messages = {error["field"]: error["message"] for error in response.json()["errors"]}
        assert "webhook" in messages["job_type"]
        assert messages["delivery"] == ("Must be one of at_least_once, at_most_once, exactly_once.")
        assert messages["priority"] == "Must be one of critical, high, medium, low."

    def test_asks_the_schema_of_a_team_s_own_type(self, owner: Caller) -> None:
        class Book(BaseModel):
            month: int

        @job_type("billing.close", payload=Book)
        def close(ctx: Context, payload: Book) -> None:
            """Close a month."""

        refused = owner.post("/jobs", noop_job(job_type="billing.close", payload={"month": "May"}))
        assert faulty_fields(refused) == {"payload.month"}
        accepted = owner.post("/jobs", noop_job(job_type="billing.close", payload={"month": 5}))
        assert accepted.status_code == 201
        shown = {kind["name"]: kind for kind in owner.get("/job-types").json()["results"]}
        assert shown["billing.close"]["payload_schema"]["properties"] == {
            "month": {"title": "Month", "type": "integer"}
        }

    def test_never_echoes_a_payload(self, owner: Caller) -> None:
        refused = owner.post("/jobs", noop_job(job_type="webhook", payload={"url": "ftp://u:s3cret@x"}))
        assert "s3cret" not in refused.content.decode()

    @pytest.mark.parametrize(
        ("path", "most"), [("/jobs", 327_680), ("/jobs/bulk", 2_621_440), ("/workflows", 2_621_440)]
    )
    def test_refuses_a_body_that_is_too_large(self, owner: Caller, path: str, most: int) -> None:
        response = owner.post(path, b" " * (most + 1))
        assert response.status_code == 413
        assert response["Content-Type"] == "application/problem+json"
        assert f"larger than {most:,} bytes" in response.json()["detail"]
        assert owner.post(path, b" " * (most - 2) + b"{}").status_code == 400

    def test_takes_a_payload_as_large_as_may_be_in_any_notation(self, owner: Caller) -> None:
        body = json.dumps(_posting("é" * 32_700), indent=4)
        assert len(body) > 2.9 * owner.tenant.max_payload_bytes  # type: ignore[union-attr]
        assert owner.post("/jobs", body.encode()).status_code == 201

    def test_takes_as_large_a_body_as_the_tenants_quota_asks_for(self, owner: Caller) -> None:
        Tenant.objects.filter(slug=owner.tenant.slug).update(max_payload_bytes=400_000)  # type: ignore[union-attr]
        assert owner.post("/jobs", _posting("x" * 399_000)).status_code == 201

    @pytest.mark.parametrize("filler", ["1,", "{},", "[],", '"",', '{"a":1},'])
    def test_refuses_a_body_of_too_many_values(self, owner: Caller, filler: str) -> None:
        response = owner.post("/jobs/bulk", f'{{"jobs": [{filler * 76_000}1]}}'.encode())
        assert (response.status_code, "75,000 values" in response.json()["detail"]) == (413, True)

    def test_takes_separators_in_a_text_for_no_values(self, owner: Caller) -> None:
        jobs = [_posting(",[{" * 20_000 + '"' * 30, name=f"n{n}") for n in range(2)]
        assert owner.post("/jobs/bulk", {"jobs": jobs}).json()["created"] == 2

    def test_refuses_a_body_in_chunks_rather_than_lose_it(self, owner: Caller) -> None:
        unsized = {"Transfer-Encoding": "chunked", "Authorization": f"Bearer {owner.token}"}
        response = owner.client.get("/api/v1/jobs", headers=unsized)
        assert response.status_code == 411
        assert response["Content-Type"] == "application/problem+json"

    def test_refuses_a_body_that_is_not_json(self, owner: Caller) -> None:
        response = owner.post("/jobs", b"name: x", content_type="application/yaml")
        assert response.status_code == 415
        assert response["Content-Type"] == "application/problem+json"


class TestEdit:
    @pytest.mark.parametrize(
        "case", [name for name, (changes, _) in REFUSED.items() if None not in changes.values()]
    )
    def test_refuses(self, owner: Caller, case: str) -> None:
        changes, fields = REFUSED[case]
        job = owner.post("/jobs", noop_job()).json()
        refused = owner.patch(f"/jobs/{job['id']}", changes)
        before = job["schedule"]["type"], changes.get("schedule", {})
        # A patch without a type edits the present schedule: missing fields are taken from there.
        if isinstance(before[1], dict) and "type" not in before[1] and "schedule" in changes:
            fields = {"schedule.cron"}
        assert faulty_fields(refused) == fields
        assert owner.get(f"/jobs/{job['id']}").json() == job


class TestActions:
    @pytest.mark.parametrize("verb", ["pause", "resume", "cancel", "run"])
    def test_take_no_fields_that_they_do_not_know(self, owner: Caller, verb: str) -> None:
        job = make_job(owner.tenant)
        assert faulty_fields(owner.post(f"/jobs/{job.id}/{verb}", {"because": "x"})) == {"because"}

    @pytest.mark.parametrize("body", [{}, {"status": None}, {"status": "completed"}, {"status": 1}])
    def test_refuse_a_status_nobody_can_set(self, owner: Caller, body: Any) -> None:
        assert faulty_fields(owner.patch(f"/jobs/{make_job(owner.tenant).id}/status", body)) == {"status"}

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({}, "ids"),
            ({"ids": []}, "ids"),
            ({"ids": "all"}, "ids"),
            ({"ids": ["x"]}, "ids[0]"),
            ({"ids": [5]}, "ids[0]"),
            ({"ids": ["018f0000-0000-7000-8000-000000000000"] * 1001}, "ids"),
            ({"ids": [], "filter": {}}, "ids"),
            ({"filter": "all"}, "filter"),
            ({"filter": {"bogus": "1"}}, "filter.bogus"),
            ({"filter": {"job": 5}}, "filter.job"),
            ({"filter": {"job": ""}}, "filter.job"),
            ({"filter": {"reason": " "}}, "filter.reason"),
            ({"filter": {"job": "x"}}, "filter.job"),
            ({"filter": {"reason": "bad luck"}}, "filter.reason"),
            ({"all": True}, "all"),
        ],
    )
    def test_refuse_a_replay_of_who_knows_what(self, owner: Caller, body: Any, field: str) -> None:
        dead = make_trigger(make_job(owner.tenant), "dead")
        assert faulty_fields(owner.post("/dead-letters/replay", body)) == {field}
        noted = {"note": "Mended since.", **body} if isinstance(body, dict) else body
        assert faulty_fields(owner.post("/dead-letters/dismiss", noted)) == {field}
        dead.refresh_from_db()
        assert (dead.state, dead.dismissed_at) == ("dead", None)

    @pytest.mark.parametrize(
        "note", [None, "", " ", 5, "x" * 501, "two\nlines", "\N{RIGHT-TO-LEFT OVERRIDE}"]
    )
    def test_refuse_a_dismissal_without_a_note_of_one_line(self, owner: Caller, note: Any) -> None:
        dead = make_trigger(make_job(owner.tenant), "dead")
        for meant in ({"ids": [str(dead.id)]}, {"filter": {}}):
            sent = {**meant, "note": note}
            assert faulty_fields(owner.post("/dead-letters/dismiss", sent)) == {"note"}
            assert faulty_fields(owner.post("/dead-letters/dismiss", meant)) == {"note"}
        dead.refresh_from_db()
        assert dead.dismissed_at is None


class TestLists:
    @pytest.mark.parametrize(
        ("query", "field"),
        [
            ("/jobs?status=asleep", "status"),
            ("/jobs?name=%00", "name"),
            ("/jobs?job_type=a%00b", "job_type"),
            ("/jobs?name=", "name"),
            ("/jobs?labels=", "labels"),
            ("/jobs?status=", "status"),
            ("/triggers?job=", "job"),
            ("/dead-letters?scheduled_for_after=%20", "scheduled_for_after"),
            ("/events?after=", "after"),
            ("/jobs?page_size=0", "page_size"),
            ("/jobs?page_size=201", "page_size"),
            ("/jobs?page_size=%D9%A5", "page_size"),
            ("/jobs?page_size=" + "9" * 30, "page_size"),
            ("/jobs?cursor=x", "cursor"),
            ("/jobs?cursor=cD14", "cursor"),
            ("/jobs?cursor=cD0lMDA%3D", "cursor"),
            ("/jobs?cursor=%C3%A9", "cursor"),
            ("/triggers?state=lost", "state"),
            ("/triggers?job=5", "job"),
            ("/triggers?scheduled_for_after=yesterday", "scheduled_for_after"),
            ("/triggers?scheduled_for_before=9999-12-31T23:59:59-12:00", "scheduled_for_before"),
            ("/dead-letters?reason=%00", "reason"),
            ("/dead-letters?error_code=" + "x" * 65, "error_code"),
            ("/dead-letters?http_status=99", "http_status"),
            ("/dead-letters?target=%00", "target"),
            ("/dead-letters?finished_after=yesterday", "finished_after"),
            ("/dead-letters?finished_before=", "finished_before"),
        ],
    )
    def test_refuse(self, owner: Caller, query: str, field: str) -> None:
        assert faulty_fields(owner.get(query)) == {field}

    @pytest.mark.parametrize("count", ["0", "1001", "-1", "x", "1e2"])
    def test_refuse_a_preview_of_so_many(self, owner: Caller, count: str) -> None:
        job = Job.objects.get(id=owner.post("/jobs", noop_job()).json()["id"])
        assert faulty_fields(owner.get(f"/jobs/{job.id}/preview?count={count}")) == {"count"}

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({}, "schedule"),
            ({"schedule": EVERY, "count": 1001}, "count"),
            ({"schedule": EVERY, "after": "2101-01-01T00:00:00Z"}, "after"),
            ({"schedule": EVERY, "bogus": 1}, "bogus"),
            ({"schedule": CRON | {"cron": "x"}}, "schedule.cron"),
        ],
    )
    def test_refuse_a_preview_of(self, owner: Caller, body: Any, field: str) -> None:
        assert faulty_fields(owner.post("/schedules/preview", body)) == {field}
