"""``/jobs``: shapes, versions, lists and previews."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs.models import Job
from tests.factories import make_attempt, make_job, make_trigger, make_triggers, now
from tests.interfaces.api.caller import Caller, faulty_fields, noop_job


def ids_of(response: Any) -> list[str]:
    assert response.status_code == 200, response.content
    return [row["id"] for row in response.json()["results"]]


class TestAJob:
    def test_is_created_as_design_shows_it(self, owner: Caller) -> None:
        given = {
            "name": "nightly-report",
            "job_type": "webhook",
            "schedule": {"type": "cron", "cron": "0 2 * * *", "timezone": "Asia/Kolkata"},
            "payload": {
                "url": "https://reports.example/run",
                "method": "POST",
                "headers": {"Authorization": "Bearer {{secret:reports_token}}"},
                "body": {"kind": "settlement"},
            },
            "priority": "high",
            "timeout_seconds": 60,
            "retry_policy": {"max_attempts": 4, "backoff": "exponential", "initial_delay_seconds": 30},
            "overlap_policy": "skip",
            "misfire_policy": "fire_once",
            "misfire_grace_seconds": 60,
            "notify": {"on": ["dead"], "url": "https://ops.example/hook"},
        }
        assert (
            owner.call(
                "PUT", "/secrets/reports_token", {"value": "s3cret-of-the-reports", "hosts": ["*"]}
            ).status_code
            < 300
        )
        response = owner.post("/jobs", given)
        assert response.status_code == 201
        job = response.json()
        assert response["Location"] == f"/api/v1/jobs/{job['id']}"
        assert response["ETag"] == '"1"'
        assert (job["status"], job["version"]) == ("active", 1)
        next_fire_at = datetime.fromisoformat(job["next_fire_at"])
        assert job["next_fire_at"].endswith("Z")
        assert f"{next_fire_at.astimezone(UTC):%H:%M}" == "20:30"
        for name in given.keys() - {"schedule", "retry_policy"}:
            assert job[name] == given[name]
        for name in ("schedule", "retry_policy"):
            assert given[name].items() <= job[name].items()
        assert owner.get(f"/jobs/{job['id']}").json() == job

    def test_is_edited_under_if_match(self, owner: Caller) -> None:
        path = f"/jobs/{owner.post('/jobs', noop_job()).json()['id']}"
        edited = owner.patch(path, {"priority": "low"}, **{"If-Match": '"1"'})
        assert (edited.status_code, edited["ETag"]) == (200, '"2"')
        for stale in ('"1"', 'W/"2"', "2", '"x"'):
            refused = owner.patch(path, {"priority": "high"}, **{"If-Match": stale})
            assert refused.status_code == 412
            assert refused["Content-Type"] == "application/problem+json"
            assert owner.delete(path, **{"If-Match": stale}).status_code == 412
        assert owner.get(path)["ETag"] == '"2"'
        assert owner.delete(path, **{"If-Match": '"2"'}).status_code == 204
        assert owner.get(path).status_code == 404

    def test_takes_a_patch_under_its_own_media_type(self, owner: Caller) -> None:
        job = make_job(owner.tenant)
        merge = {"content_type": "application/merge-patch+json"}
        assert owner.patch(f"/jobs/{job.id}", {"priority": "low"}, **merge).status_code == 200
        assert owner.post("/jobs", noop_job(), **merge).status_code == 415

    def test_name_that_is_taken_is_a_conflict(self, owner: Caller) -> None:
        owner.post("/jobs", noop_job())
        refused = owner.post("/jobs", noop_job())
        assert refused.status_code == 409
        assert [error["field"] for error in refused.json()["errors"]] == ["name"]

    def test_over_the_quota_is_a_conflict_that_names_it(self, owner: Caller) -> None:
        owner.tenant.max_jobs = 0
        owner.tenant.save()
        refused = owner.post("/jobs", noop_job())
        assert refused.status_code == 409
        problem = refused.json()
        assert (problem["type"], problem["quota"]) == ("urn:carillon:problem:quota-exceeded", "max_jobs")

    def test_goes_through_its_life(self, owner: Caller) -> None:
        path = f"/jobs/{owner.post('/jobs', noop_job()).json()['id']}"
        for verb, status in (("pause", "paused"), ("resume", "active"), ("cancel", "cancelled")):
            assert owner.post(f"{path}/{verb}").json()["status"] == status
        assert owner.post(f"{path}/resume").status_code == 409
        assert owner.get(path).json()["next_fire_at"] is None

    def test_that_is_paused_fires_no_more_as_far_as_one_can_see(self, owner: Caller) -> None:
        path = f"/jobs/{owner.post('/jobs', noop_job()).json()['id']}"
        assert owner.patch(f"{path}/status", {"status": "paused"}).json()["next_fire_at"] is None
        assert owner.patch(f"{path}/status", {"status": "active"}).json()["next_fire_at"]

    def test_is_run_now(self, owner: Caller) -> None:
        job = make_job(owner.tenant)
        response = owner.post(f"/jobs/{job.id}/run")
        trigger = response.json()
        assert response["Location"] == f"/api/v1/triggers/{trigger['id']}"
        assert (trigger["origin"], trigger["state"], trigger["job_id"]) == ("run_now", "pending", str(job.id))
        beside = owner.post(f"/jobs/{job.id}/run", {"ignore_overlap": True}).json()
        assert beside["origin"] == "run_beside"
        assert owner.post(f"/jobs/{job.id}/run", {"ignore_overlap": "yes"}).status_code == 400


class TestListOfJobs:
    def test_is_walked_by_cursor_newest_first(self, owner: Caller, outsider: Caller) -> None:
        jobs = [make_job(owner.tenant) for _ in range(5)]
        make_job(owner.tenant, deleted_at=now())
        make_job(outsider.tenant)
        seen, link = [], "/jobs?page_size=2"
        while link:
            response = owner.get(link.removeprefix("http://testserver"))
            seen += ids_of(response)
            link = response.json()["next"]
        assert seen == [str(job.id) for job in reversed(jobs)]
        back = owner.get(response.json()["previous"].removeprefix("http://testserver"))
        assert ids_of(back) == seen[2:4]

    def test_loses_no_row_when_others_are_created_meanwhile(self, owner: Caller) -> None:
        first, second = make_job(owner.tenant), make_job(owner.tenant)
        page = owner.get("/jobs?page_size=1")
        make_job(owner.tenant)
        assert ids_of(page) == [str(second.id)]
        following = page.json()["next"].removeprefix("http://testserver")
        assert ids_of(owner.get(following)) == [str(first.id)]

    @pytest.mark.parametrize(
        "query", ["status=paused", "job_type=webhook", "priority=critical", "name=the%20one"]
    )
    def test_is_filtered(self, owner: Caller, query: str) -> None:
        make_job(owner.tenant)
        wanted = make_job(owner.tenant, status="paused", job_type="webhook", priority=0, name="the one")
        assert ids_of(owner.get(f"/jobs?{query}")) == [str(wanted.id)]


class TestHistory:
    def test_lists_triggers_the_latest_firing_first(self, owner: Caller) -> None:
        job = make_job(owner.tenant)
        triggers = make_triggers(job, 3)
        make_trigger(make_job(owner.tenant))
        path = f"/jobs/{job.id}/triggers?page_size=2"
        first = owner.get(path)
        second = owner.get(first.json()["next"].removeprefix("http://testserver"))
        assert ids_of(first) + ids_of(second) == [str(trigger.id) for trigger in reversed(triggers)]

    def test_lists_attempts_under_both_names(self, owner: Caller) -> None:
        job = make_job(owner.tenant)
        trigger = make_trigger(job, "running")
        old = make_attempt(
            trigger, "failed", number=1, duration=timedelta(milliseconds=1500), http_status=500
        )
        new = make_attempt(trigger, number=2)
        for name in ("attempts", "executions"):
            response = owner.get(f"/jobs/{job.id}/{name}")
            assert ids_of(response) == [str(new.id), str(old.id)]
            shown = response.json()["results"][1]
            assert (shown["duration_seconds"], shown["http_status"], shown["trigger_id"]) == (
                1.5,
                500,
                str(trigger.id),
            )

    @pytest.mark.parametrize("cursor", ["cD0yMDI2", "cD05OTk5LTEyLTMxVDIzOjU5OjU5LTEyOjAw"])
    def test_refuses_a_cursor_that_names_no_instant(self, owner: Caller, cursor: str) -> None:
        job = make_job(owner.tenant)
        assert faulty_fields(owner.get(f"/jobs/{job.id}/triggers?cursor={cursor}")) == {"cursor"}


class TestPreview:
    def test_shows_a_job_s_next_firings_in_its_zone(self, owner: Caller) -> None:
        job = make_job(
            owner.tenant, schedule_type="cron", cron_expression="0 2 * * *", timezone="Asia/Kolkata"
        )
        firings = owner.get(f"/jobs/{job.id}/preview?count=2").json()["firings"]
        assert len(firings) == 2
        assert firings[0]["at"].endswith("T20:30:00Z")
        assert firings[0]["local"].endswith("T02:00:00+05:30")
        assert firings[0]["note"] is None

    def test_shows_those_of_any_schedule_and_stores_nothing(self, owner: Caller) -> None:
        schedule = {"type": "cron", "cron": "30 1 * * *", "timezone": "Europe/Berlin"}
        body = {"schedule": schedule, "after": "2026-10-24T00:00:00Z", "count": 2}
        firings = owner.post("/schedules/preview", body).json()["firings"]
        assert [firing["at"] for firing in firings] == ["2026-10-24T23:30:00Z", "2026-10-26T00:30:00Z"]
        assert Job.objects.count() == 0
