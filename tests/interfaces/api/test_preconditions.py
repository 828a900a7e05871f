"""``If-Match`` on jobs, and ``PUT /jobs/by-name/{name}``: no caller overwrites a version that they have not seen."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest
from django.db import connection

from jobs.actions import jobs as actions
from jobs.models import Job
from jobs.store import db
from stage.waiting import wait_until
from tests.factories import make_job, now
from tests.interfaces.api.caller import Caller, faulty_fields, jobs_stored, noop_job

STALE = {"If-Match": '"7"'}
NEW = {"If-None-Match": "*"}


def nameless(**changes: Any) -> dict[str, Any]:
    definition = noop_job(**changes)
    del definition["name"]
    return definition


class TestIfMatch:
    @pytest.mark.parametrize("verb", ["pause", "resume", "cancel"])
    def test_guards_what_is_done_to_a_job(self, owner: Caller, verb: str) -> None:
        job = make_job(owner.tenant, status="paused" if verb == "resume" else "active")
        path = f"/jobs/{job.id}/{verb}"
        assert owner.post(path, **STALE).status_code == 412
        job.refresh_from_db()
        assert job.status == ("paused" if verb == "resume" else "active")
        assert owner.post(path, **{"If-Match": '"1"'}).status_code == 200

    def test_guards_a_change_of_status(self, owner: Caller) -> None:
        path = f"/jobs/{make_job(owner.tenant).id}/status"
        assert owner.patch(path, {"status": "paused"}, **STALE).status_code == 412
        assert owner.patch(path, {"status": "paused"}, **{"If-Match": '"1"'}).status_code == 200

    def test_that_names_any_asks_only_for_a_job(self, owner: Caller) -> None:
        path = f"/jobs/{make_job(owner.tenant).id}"
        assert owner.patch(path, {"priority": "low"}, **{"If-Match": "*"}).status_code == 200

    @pytest.mark.parametrize("given", ['"1"', "x", ""])
    def test_stands_alone_and_its_opposite_is_a_star(self, owner: Caller, given: str) -> None:
        path = f"/jobs/{make_job(owner.tenant).id}"
        both = owner.patch(path, {"priority": "low"}, **{"If-Match": '"1"', "If-None-Match": "*"})
        assert faulty_fields(both) == {"If-None-Match"}
        other = owner.patch(path, {"priority": "low"}, **{"If-None-Match": given})
        assert faulty_fields(other) == {"If-None-Match"}
        assert owner.patch(path, {"priority": "low"}, **NEW).status_code == 412


class TestAStrictTenant:
    @pytest.fixture
    def strict(self, owner: Caller) -> Caller:
        owner.tenant.require_if_match = True
        owner.tenant.save()
        return owner

    def test_must_say_which_version_it_means(self, strict: Caller) -> None:
        job = make_job(strict.tenant)
        for method, path, body in (
            ("PATCH", f"/jobs/{job.id}", {"priority": "low"}),
            ("PATCH", f"/jobs/{job.id}/status", {"status": "paused"}),
            ("DELETE", f"/jobs/{job.id}", None),
            ("PUT", f"/jobs/by-name/{job.name}", nameless()),
            ("PUT", "/jobs/by-name/new", nameless()),
        ):
            refused = strict.call(method, path, body)
            assert (refused.status_code, refused["Content-Type"]) == (428, "application/problem+json")
        job.refresh_from_db()
        assert (job.version, job.status, job.deleted_at, jobs_stored()) == (1, "active", None, 1)
        assert strict.patch(f"/jobs/{job.id}", {"priority": "low"}, **{"If-Match": '"1"'}).status_code == 200
        assert strict.put("/jobs/by-name/new", nameless(), **NEW).status_code == 201

    def test_need_not_for_what_overwrites_nothing(self, strict: Caller) -> None:
        job = make_job(strict.tenant)
        assert strict.post("/jobs", noop_job()).status_code == 201
        assert strict.post(f"/jobs/{job.id}/pause").status_code == 200
        assert strict.get("/tenant").json()["require_if_match"] is True

    def test_is_not_told_of_foreign_jobs(self, strict: Caller, outsider: Caller) -> None:
        path = f"/jobs/{make_job(outsider.tenant).id}"
        assert strict.patch(path, {"priority": "low"}, **{"If-Match": '"1"'}).status_code == 404


class TestAPut:
    def test_creates_replaces_and_changes_nothing_by_turns(self, owner: Caller) -> None:
        path = "/jobs/by-name/nightly report"
        created = owner.put(path, nameless(priority="high"))
        assert (created.status_code, created["ETag"]) == (201, '"1"')
        assert created["Location"] == f"/api/v1/jobs/{created.json()['id']}"
        same = owner.put(path, noop_job(priority="high", name="nightly report"))
        assert (same.status_code, same["ETag"], same.json()) == (200, '"1"', created.json())
        replaced = owner.put(path, nameless(timeout_seconds=5))
        assert (replaced.status_code, replaced["ETag"]) == (200, '"2"')
        assert (replaced.json()["priority"], replaced.json()["timeout_seconds"]) == ("medium", 5)
        assert replaced.json()["id"] == created.json()["id"]
        assert owner.get(path).json() == replaced.json()
        assert owner.get(path)["ETag"] == '"2"'

    @pytest.mark.parametrize(
        "schedule",
        [
            {"type": "cron", "cron": "0 2 * * *", "timezone": "Asia/Kolkata"},
            {"type": "once", "run_at": "2090-01-31T09:00:00Z"},
            {"type": "immediate"},
        ],
    )
    def test_of_any_schedule_may_be_repeated_whatever_became_of_it(
        self, owner: Caller, schedule: dict[str, Any]
    ) -> None:
        owner.put("/jobs/by-name/n", nameless(schedule=schedule))
        for status in ("active", "paused", "completed", "cancelled"):
            Job.objects.update(status=status)
            again = owner.put("/jobs/by-name/n", nameless(schedule=schedule))
            assert (again.status_code, again["ETag"], again.json()["status"]) == (200, '"1"', status)
        assert owner.put("/jobs/by-name/n", nameless(schedule=schedule, priority="low")).status_code == 409

    def test_creates_another_where_one_was_deleted(self, owner: Caller) -> None:
        old = make_job(owner.tenant, name="n", deleted_at=now())
        created = owner.put("/jobs/by-name/n", nameless())
        assert (created.status_code, created.json()["id"] != str(old.id)) == (201, True)

    def test_may_only_create_or_only_replace(self, owner: Caller) -> None:
        path = "/jobs/by-name/n"
        for missing in ("*", '"1"'):
            assert owner.put(path, nameless(), **{"If-Match": missing}).status_code == 412
        assert owner.put(path, nameless(), **NEW).status_code == 201
        assert owner.put(path, nameless(), **NEW).status_code == 412
        assert owner.put(path, nameless(priority="low"), **STALE).status_code == 412
        assert owner.put(path, nameless(priority="low"), **{"If-Match": '"1"'})["ETag"] == '"2"'

    def test_refuses_what_creating_would(self, owner: Caller) -> None:
        path = "/jobs/by-name/n"
        assert faulty_fields(owner.put(path, noop_job(name="other"))) == {"name"}
        assert faulty_fields(owner.put(path, {"bogus": 1})) == {"bogus", "schedule", "job_type"}
        assert faulty_fields(owner.put(path, [])) == {"body"}
        assert faulty_fields(owner.put("/jobs/by-name/" + "x" * 201, nameless())) == {"name"}
        assert faulty_fields(owner.put("/jobs/by-name/a%00b", nameless())) == {"name"}
        assert faulty_fields(owner.put("/jobs/by-name/%20a", nameless())) == {"name"}
        assert jobs_stored() == 0

    @pytest.mark.parametrize("name", ["a%00b", "x" * 201, "%ed%a0%80", "%e2%80%ae"])
    def test_s_path_that_can_name_nothing_finds_nothing(self, owner: Caller, name: str) -> None:
        assert owner.get(f"/jobs/by-name/{name}").status_code == 404

    @pytest.mark.parametrize("name", ["a/b", "a%2Fb", "späte Schicht", "x/pause"])
    def test_takes_any_name_a_job_may_have(self, owner: Caller, name: str) -> None:
        created = owner.put(f"/jobs/by-name/{name}", nameless())
        assert created.status_code == 201
        assert created.json()["name"] == name.replace("%2F", "/")

    def test_meets_no_job_of_another_tenant(self, owner: Caller, outsider: Caller) -> None:
        foreign = make_job(outsider.tenant, name="n")
        assert owner.get("/jobs/by-name/n").status_code == 404
        assert owner.put("/jobs/by-name/n", nameless()).status_code == 201
        foreign.refresh_from_db()
        assert foreign.version == 1


@pytest.mark.django_db(transaction=True)
class TestAtOnce:
    def test_puts_make_one_job_and_one_version(self, owner: Caller) -> None:
        def put(_: int) -> Any:
            try:
                answer = Caller(token=owner.token).put("/jobs/by-name/n", nameless())
                return answer.status_code, answer["ETag"]
            finally:
                connection.close()

        with ThreadPoolExecutor(8) as threads:
            answers = Counter(threads.map(put, range(16)))
        assert answers == {(201, '"1"'): 1, (200, '"1"'): 15}

    def test_the_version_is_asked_for_under_the_lock(self, owner: Caller) -> None:
        """Both read version 1. The second asks for the version only after the first has committed."""
        job = make_job(owner.tenant)
        locked, go_on = Event(), Event()

        def first() -> None:
            try:
                with db.atomic():
                    actions.update_job(
                        tenant=job.tenant, job_id=job.id, changes={"priority": "low"}, expected_version=1
                    )
                    locked.set()
                    assert go_on.wait(10)
            finally:
                connection.close()

        def second() -> Any:
            try:
                return Caller(token=owner.token).delete(f"/jobs/{job.id}", **{"If-Match": '"1"'}).status_code
            finally:
                connection.close()

        with ThreadPoolExecutor(2) as threads:
            editing = threads.submit(first)
            assert locked.wait(10)
            deleting = threads.submit(second)
            wait_until(_somebody_waits, what="the deletion waits for the edit")
            go_on.set()
            editing.result(10)
            assert deleting.result(10) == 412
        job.refresh_from_db()
        assert (job.version, job.deleted_at) == (2, None)


def _somebody_waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
        return bool(cursor.fetchone()[0])


class TestADryRunOfPut:
    def test_answers_what_it_would_be_and_changes_nothing(self, owner: Caller) -> None:
        path = "/jobs/by-name/nightly"
        made = owner.put(f"{path}?dry_run=true", noop_job())
        assert (made.status_code, made.json()["version"]) == (201, 1)
        assert "Location" not in made
        assert jobs_stored() == 0
        owner.put(path, noop_job())
        edited = owner.put(f"{path}?dry_run=true", noop_job(priority="high"), **{"Idempotency-Key": "k"})
        assert (edited.status_code, edited.json()["version"]) == (200, 2)
        assert owner.get(path).json()["version"] == 1

    def test_refuses_as_the_write_would(self, owner: Caller) -> None:
        assert faulty_fields(owner.put("/jobs/by-name/a?dry_run=true", {"job_type": "noop"})) == {"schedule"}
        assert faulty_fields(owner.put("/jobs/by-name/a?dry_run=yes", noop_job(name="a"))) == {"dry_run"}
        assert faulty_fields(owner.get("/jobs/by-name/a?dry_run=true")) == {"dry_run"}
