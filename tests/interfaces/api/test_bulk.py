"""``POST /jobs/bulk``: each as if it were created alone, all of them by a constant number of statements."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.actions.bulk import create
from jobs.models import Answer, Job, JobLabel, JobVersion
from tests.factories import make_job
from tests.interfaces.api.caller import Caller, faulty_fields, jobs_stored, noop_job


def some(number: int, **changes: Any) -> list[dict[str, Any]]:
    return [noop_job(name=f"job {n}", **changes) for n in range(number)]


class TestBulk:
    def test_creates_what_creating_one_by_one_would(self, owner: Caller, outsider: Caller) -> None:
        definitions = [
            noop_job(name="a", labels={"env": "prod"}, priority="high"),
            noop_job(name="b", schedule={"type": "cron", "cron": "0 2 * * *", "timezone": "Asia/Kolkata"}),
            {"job_type": "noop", "schedule": {"type": "immediate"}},
        ]
        answer = owner.post("/jobs/bulk", {"jobs": definitions})
        assert answer.status_code == 200
        body = answer.json()
        assert (body["created"], body["refused"]) == (3, 0)
        single = [outsider.post("/jobs", definition).json() for definition in definitions]
        own = ("id", "name", "created_at", "updated_at", "next_fire_at")
        for result, alone in zip(body["results"], single, strict=True):
            assert result["status"] == 201
            made = owner.get(f"/jobs/{result['id']}").json()
            assert {name: value for name, value in made.items() if name not in own} == {
                name: value for name, value in alone.items() if name not in own
            }
            assert (made["name"], made["version"]) == (result["name"], result["version"])
        assert JobLabel.objects.filter(tenant_id=owner.tenant.id).count() == 1
        assert JobVersion.objects.filter(tenant_id=owner.tenant.id).count() == 3
        assert owner.get("/tenant").json()["usage"]["jobs"] == 3

    def test_says_of_each_what_became_of_it(self, owner: Caller, outsider: Caller) -> None:
        make_job(owner.tenant, name="taken")
        make_job(outsider.tenant, name="foreign")
        names = ("taken", "fine", "fine", "foreign")
        jobs = [noop_job(name=name) for name in names] + [{"bogus": 1}, 7, noop_job(priority="no")]
        body = owner.post("/jobs/bulk", {"jobs": jobs}).json()
        assert [result["status"] for result in body["results"]] == [409, 201, 409, 201, 400, 400, 400]
        assert [result["index"] for result in body["results"]] == list(range(7))
        assert (body["created"], body["refused"], jobs_stored()) == (2, 5, 4)
        problem = body["results"][4]["problem"]
        assert {error["field"] for error in problem["errors"]} == {"bogus", "schedule", "job_type", "name"}
        assert body["results"][0]["problem"]["errors"][0]["field"] == "name"

    def test_in_a_dry_run_says_what_it_would_do_and_keeps_nothing(self, owner: Caller) -> None:
        make_job(owner.tenant, name="job 1")
        body = {"jobs": some(3), "dry_run": True}
        shown = owner.post("/jobs/bulk", body, **{"Idempotency-Key": "dry"}).json()
        assert [result["status"] for result in shown["results"]] == [201, 409, 201]
        assert all("id" not in result for result in shown["results"])
        assert (jobs_stored(), JobVersion.objects.count(), JobLabel.objects.count()) == (1, 0, 0)
        assert owner.post("/jobs/bulk", {"jobs": some(3)}).json()["created"] == 2

    def test_together_refuses_all_for_one(self, owner: Caller) -> None:
        make_job(owner.tenant, name="taken")
        faulty = [noop_job(name="a"), noop_job(name="b", bogus=1), noop_job(name="c", priority="no")]
        refused = owner.post("/jobs/bulk", {"jobs": faulty, "all_or_nothing": True})
        assert faulty_fields(refused) == {"jobs[1].bogus", "jobs[2].priority"}
        conflicting = {"jobs": [noop_job(name="a"), noop_job(name="taken")], "all_or_nothing": True}
        refused = owner.post("/jobs/bulk", conflicting)
        assert refused.status_code == 409
        assert refused.json()["errors"][0]["field"] == "jobs[1].name"
        assert jobs_stored() == 1
        fine = owner.post("/jobs/bulk", {"jobs": some(2), "all_or_nothing": True})
        assert fine.json()["created"] == 2

    def test_fills_the_quota_and_no_more(self, owner: Caller) -> None:
        owner.tenant.max_jobs = 3
        owner.tenant.save()
        refused = owner.post("/jobs/bulk", {"jobs": some(5), "all_or_nothing": True})
        assert (refused.status_code, refused.json()["quota"], jobs_stored()) == (409, "max_jobs", 0)
        body = owner.post("/jobs/bulk", {"jobs": some(5)}).json()
        assert [result["status"] for result in body["results"]] == [201, 201, 201, 409, 409]
        assert body["results"][3]["problem"]["quota"] == "max_jobs"
        assert jobs_stored() == 3

    @pytest.mark.parametrize(
        ("body", "fields"),
        [
            ({}, {"jobs"}),
            ({"jobs": []}, {"jobs"}),
            ({"jobs": {}}, {"jobs"}),
            ({"jobs": [{}] * 1001}, {"jobs"}),
            ({"jobs": [noop_job()], "all_or_nothing": "yes", "x": 1}, {"all_or_nothing", "x"}),
            ([noop_job()], {"body"}),
        ],
    )
    def test_refuses_what_is_no_list_of_jobs(self, owner: Caller, body: Any, fields: set[str]) -> None:
        assert faulty_fields(owner.post("/jobs/bulk", body)) == fields
        assert jobs_stored() == 0

    def test_takes_as_many_statements_for_a_thousand_as_for_two(self, owner: Caller) -> None:
        counts = []
        for number in (2, 1000):
            Job.objects.filter(tenant=owner.tenant).update(
                name="moved away", deleted_at="2026-01-01T00:00:00Z"
            )
            with CaptureQueriesContext(connection) as queries:
                assert owner.post("/jobs/bulk", {"jobs": some(number)}).json()["created"] == number
            counts.append(len(queries))
        assert max(counts) <= 15

    def test_is_repeated_by_its_key_without_a_second_job(self, owner: Caller) -> None:
        key = {"Idempotency-Key": "deploy-1"}
        first, second = (owner.post("/jobs/bulk", {"jobs": some(3)}, **key) for _ in range(2))
        assert first.content == second.content
        assert (jobs_stored(), Answer.objects.count()) == (3, 1)


@pytest.mark.django_db(transaction=True)
class TestAtOnce:
    def test_bulks_of_the_same_names_make_each_job_once(
        self, owner: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Even when no bulk sees the others' names before it writes."""
        monkeypatch.setattr(create, "_refuse_taken_names", lambda *_: None)

        def post(_: int) -> Any:
            try:
                return Caller(token=owner.token).post("/jobs/bulk", {"jobs": some(20)}).json()
            finally:
                connection.close()

        with ThreadPoolExecutor(4) as threads:
            answers = list(threads.map(post, range(4)))
        assert sum(answer["created"] for answer in answers) == 20
        assert sum(answer["refused"] for answer in answers) == 60
        assert jobs_stored() == JobVersion.objects.count() == 20
