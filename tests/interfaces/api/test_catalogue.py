"""The catalogue of bad input, row by row, over HTTP: refusals name the field and what is right; nothing is stored."""

import base64
from typing import Any

import pytest
from django.apps import apps

from tests.factories import make_job, make_trigger
from tests.interfaces.api.caller import Caller, noop_job
from tests.interfaces.catalogue import DEFINITIONS, EVERY, LATE, OFFSET, ROWS, YEARS

_NUL = "%00"
_MANY = "9" * 30

#: (row, method, path, body or raw bytes, field, right): requests that are no definition of a job, or no JSON.
CALLS: list[tuple[int, str, str, Any, str, str]] = [
    (1, "GET", f"/jobs?name={_NUL}", None, "name", "ull characters"),
    (1, "GET", f"/jobs?labels=a={_NUL}", None, "labels", "letters, digits"),
    (1, "GET", f"/triggers?job_type=a{_NUL}", None, "job_type", "ull characters"),
    (1, "GET", f"/jobs/{{job}}/stats?window={_NUL}", None, "window", "one of 24h, 7d, 90d"),
    (1, "GET", f"/attempts?error_code=a{_NUL}", None, "error_code", "ull characters"),
    (1, "GET", f"/attempts?job_type={_NUL}b", None, "job_type", "ull characters"),
    (1, "PUT", "/secrets/token", {"value": "12345678\0"}, "value", "remove it"),
    (1, "PUT", "/job-types/count", {"description": "\0"}, "description", "remove it"),
    (1, "POST", "/operations", {"verb": "pause", "filter": {"name": "\0"}}, "filter.name", "remove it"),
    (1, "POST", "/jobs/{job}/run", {"payload": {"a": "\0"}}, "payload.a", "remove it"),
    (1, "POST", "/worker/claim", {"worker": "\0", "job_types": ["a"]}, "worker", "remove it"),
    (2, "PUT", "/job-types/count", {"description": "\ud800"}, "description", "remove it"),
    (2, "POST", "/jobs/{job}/run", {"payload": {"a": "\ud800"}}, "payload.a", "remove it"),
    (2, "PUT", "/secrets/token", {"value": "12345678\ud800"}, "value", "remove it"),
    (3, "POST", "/jobs", b'{"name": "n", "payload": {"x": NaN}}', "payload.x", "send null or a string"),
    (3, "POST", "/jobs", b'{"payload": [-Infinity]}', "payload[0]", "send null or a string"),
    (3, "POST", "/jobs", b'{"payload": {"x": 1e999}}', "payload.x", "send null or a string"),
    (3, "POST", "/worker/complete", b'{"result": {"x": Infinity}}', "result.x", "send null or a string"),
    (4, "POST", "/jobs", b"[" * 50_000 + b"]" * 50_000, "body", "flatten it"),
    (4, "POST", "/jobs", b'{"payload": ' + b"[" * 50_000 + b"]" * 50_000 + b"}", "payload", "flatten it"),
    (4, "PUT", "/secrets/token", b'{"value": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001, "value", "flatten it"),
    (5, "POST", "/jobs", b'{"payload": {"x": ' + b"9" * 5000 + b"}}", "body", "send it as a string"),
    (5, "POST", "/jobs", b'{"payload": {"x": 1' + b"0" * 4000 + b"}}", "payload.x", "as a string"),
    (5, "GET", f"/jobs?page_size={_MANY}", None, "page_size", "from 1 to 200"),
    (5, "GET", f"/events?limit={_MANY}", None, "limit", "from 1 to 1000"),
    (5, "GET", f"/events?after={_MANY}-1", None, "after", "such as 7512-42"),
    (5, "GET", "/jobs/{job}/preview?count=" + _MANY, None, "count", "from 1 to 1000"),
    (5, "GET", "/stats?window=" + _MANY, None, "window", "one of 24h, 7d, 90d"),
    (5, "GET", "/jobs/{job}/stats?window=" + _MANY, None, "window", "one of 24h, 7d, 90d"),
    (5, "POST", "/worker/heartbeat", {"triggers": [{"fence": 2**31}]}, "triggers[0].fence", "2,147,483,647"),
    (6, "GET", f"/triggers?scheduled_for_before={LATE}", None, "scheduled_for_before", YEARS),
    (5, "GET", f"/attempts?http_status={_MANY}", None, "http_status", "from 100 to 599"),
    (6, "GET", f"/attempts?started_after={LATE}", None, "started_after", YEARS),
    (6, "POST", "/schedules/preview", {"schedule": EVERY, "after": LATE}, "after", YEARS),
    (6, "POST", "/jobs/{job}/backfill", {"start": LATE, "end": LATE}, "start", YEARS),
    (7, "GET", "/jobs?created_after=infinity", None, "created_after", OFFSET),
    (7, "POST", "/jobs/{job}/backfill", {"start": "-infinity", "end": "infinity"}, "start", OFFSET),
    (8, "GET", "/jobs?created_after=0001-01-01T00:00:00%2B14:00", None, "created_after", YEARS),
    (7, "GET", "/attempts?started_before=-infinity", None, "started_before", OFFSET),
    (8, "GET", "/attempts?started_before=0001-01-01T00:00:00%2B14:00", None, "started_before", YEARS),
    (8, "PUT", "/job-types/count", {"timeout_seconds": 1e15}, "timeout_seconds", "from 1 to 86,400"),
    (8, "POST", "/worker/claim", {"wait_seconds": 1e15}, "wait_seconds", "from 0 to 30"),
    (9, "GET", "/jobs?name=" + "x" * 10_000, None, "name", "at most 200"),
    (9, "GET", "/attempts?error_code=" + "x" * 10_000, None, "error_code", "at most 64"),
    (9, "PUT", "/job-types/" + "x" * 1_000, {}, "name", "1 to 40"),
    (9, "PUT", "/secrets/" + "x" * 1_000, {"value": "12345678"}, "name", "1 to 100"),
    (9, "PUT", "/jobs/by-name/" + "x" * 1_000, noop_job(name=None), "name", "200"),
    (10, "POST", "/schedules/preview", {"schedule": {"type": "cron", "cron": "0 2 * * *", "timezone": "Factory"}},
     "schedule.timezone", "Europe/Berlin"),
    (11, "GET", "/jobs?page_size=%EF%BC%91%EF%BC%92", None, "page_size", "whole number"),
    (11, "GET", "/jobs?page_size=1_0", None, "page_size", "whole number"),
    (11, "GET", "/jobs?page_size=%C2%B2", None, "page_size", "whole number"),
    (11, "GET", "/jobs/{job}/preview?count=%EF%BC%91", None, "count", "whole number"),
    (11, "GET", "/events?limit=1_0", None, "limit", "whole number"),
    (11, "GET", "/jobs/{job}/stats?window=%EF%BC%92%EF%BC%94h", None, "window", "one of 24h, 7d, 90d"),
    (11, "GET", "/attempts?http_status=%EF%BC%95%EF%BC%90%EF%BC%93", None, "http_status", "from 100 to 599"),
    (11, "GET", "/attempts?http_status=-503", None, "http_status", "from 100 to 599"),
    (17, "POST", "/jobs", b'{"name": "a", "name": "b"}', "body", "given twice"),
    (17, "POST", "/jobs", b'{"name": "a", "payload": {"b": 1, "b": 2}}', "body", "given twice"),
]  # fmt: skip


def stored() -> dict[str, int]:
    """The number of rows of each table that Carillon keeps."""
    models = [model for app in ("jobs", "tenants") for model in apps.get_app_config(app).get_models()]
    return {model.__name__: model._default_manager.count() for model in models if model._meta.managed}


def refusal(answer: Any) -> dict[str, str]:
    """The message of a 400 for each field."""
    assert answer.status_code == 400, (answer.status_code, answer.content[:500])
    assert answer["Content-Type"] == "application/problem+json"
    return {error["field"]: error["message"] for error in answer.json()["errors"]}


def names_it(said: dict[str, str], field: str, right: str) -> bool:
    return right in said.get(field, "")


@pytest.mark.parametrize(
    ("row", "changes", "field", "right"),
    DEFINITIONS,
    ids=[f"row {row}: {field} {n}" for n, (row, _, field, _) in enumerate(DEFINITIONS)],
)
class TestADefinition:
    def test_is_refused_and_nothing_is_stored(
        self, owner: Caller, row: int, changes: dict[str, Any], field: str, right: str
    ) -> None:
        before = stored()
        said = refusal(owner.post("/jobs", noop_job(**changes)))
        assert names_it(said, field, right), said
        assert stored() == before


@pytest.mark.parametrize(
    ("row", "method", "path", "body", "field", "right"),
    CALLS,
    ids=[f"row {call[0]}: {call[1]} {call[2][:40]} {n}" for n, call in enumerate(CALLS)],
)
class TestACall:
    def test_is_refused_and_nothing_is_stored(
        self, owner: Caller, row: int, method: str, path: str, body: Any, field: str, right: str
    ) -> None:
        job = make_job(owner.tenant)
        make_trigger(job, "dead")
        before = stored()
        said = refusal(owner.call(method, path.format(job=job.id), body))
        assert names_it(said, field, right), said
        assert stored() == before


class TestWhatIsReadOneWayOnly:
    """Input of rows 5, 13, 15 and 17 that is accepted: it is stored in the form in which every reader reads it."""

    def test_an_offset_of_10_to_the_30_in_a_cursor_is_cut(self, owner: Caller) -> None:
        cursor = base64.b64encode(b"o=1" + b"0" * 30).decode()
        assert owner.get(f"/jobs?cursor={cursor}").json()["results"] == []

    def test_blanks_around_a_cron_text_are_not_stored(self, owner: Caller) -> None:
        schedule = {"type": "cron", "cron": " 0 2 * * *\n"}
        assert owner.post("/jobs", noop_job(schedule=schedule)).json()["schedule"]["cron"] == "0 2 * * *"

    def test_a_macro_is_one_for_firing_preview_and_text(self, owner: Caller) -> None:
        answer = owner.post(
            "/schedules/preview", {"schedule": {"type": "cron", "cron": "@daily"}, "count": 1}
        )
        assert answer.json()["firings"][0]["wall"].endswith("00:00:00"), answer.json()

    def test_a_name_that_a_spreadsheet_would_run_is_a_name(self, owner: Caller) -> None:
        assert owner.post("/jobs", noop_job(name="=cmd|' /C calc'!A0")).status_code == 201


def test_every_row_has_its_cases() -> None:
    asked = {row for row, *_ in DEFINITIONS} | {row for row, *_ in CALLS}
    assert asked == set(ROWS)
