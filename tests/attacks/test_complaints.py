"""Giant complaints: the answer to a call full of nonsense has some kilobytes, and little of it is kept."""

from typing import Any

import pytest

from jobs.api.calls import idempotency
from jobs.models import Answer, AnswerTally
from tests.factories import make_tenant
from tests.interfaces.api.caller import Caller, noop_job

pytestmark = pytest.mark.django_db
#: A problem document with its complaints.
MAX_BYTES = 20_000
NAMES = {f"nonsense{number:06}": 1 for number in range(14_000)}
#: As many as the body of a job may have.
FEWER = dict(list(NAMES.items())[:4_000])


@pytest.fixture
def caller(db: None, job_types: None) -> Caller:
    return Caller(make_tenant(), scopes=("read", "write", "worker", "admin"))


def webhook(**payload: Any) -> dict[str, Any]:
    return noop_job(job_type="webhook", payload={"url": "https://example.com/", **payload})


BODIES: dict[str, tuple[str, str, Any]] = {
    "a job": ("POST", "/jobs", noop_job(**FEWER)),
    "its retry policy": ("POST", "/jobs", noop_job(retry_policy=FEWER)),
    "its schedule": ("POST", "/jobs", noop_job(schedule={"type": "interval", **FEWER})),
    "its payload": ("POST", "/jobs", webhook(**dict(list(NAMES.items())[:2_000]))),
    "its headers": ("POST", "/jobs", webhook(headers={f"bad header {n}": "x\n" for n in range(1_500)})),
    "its labels": ("POST", "/jobs", noop_job(labels=dict.fromkeys(FEWER, "\n"))),
    "a preview": ("POST", "/schedules/preview", {"schedule": FEWER, **FEWER}),
    "an operation": ("POST", "/operations", {"verb": "pause", "filter": NAMES}),
    "a dry run": ("POST", "/operations", {"verb": "pause", "filter": NAMES, "dry_run": True}),
    "a job type": ("PUT", "/job-types/a.b", {**NAMES}),
    "a claim": ("POST", "/worker/claim", NAMES),
    "completions": ("POST", "/worker/complete", {"triggers": [dict(list(NAMES.items())[:300])] * 90}),
    "a bulk": ("POST", "/jobs/bulk", {f"nonsense{number}": 1 for number in range(74_000)}),
}


class TestAnAnswerToNonsense:
    @pytest.mark.parametrize("what", BODIES)
    def test_is_short_and_says_what_is_known_once(self, caller: Caller, what: str) -> None:
        method, path, body = BODIES[what]
        answer = caller.call(method, path, body)
        assert answer.status_code == 400, answer.content[:300]
        assert len(answer.content) < MAX_BYTES
        errors = answer.json()["errors"]
        assert 1 <= len({error["field"] for error in errors}) <= 21
        assert sum("the fields are" in error["message"] for error in errors) <= 3

    def test_says_that_there_is_more(self, caller: Caller) -> None:
        errors = caller.post("/jobs", noop_job(**FEWER)).json()["errors"]
        assert len(errors) == 21
        assert "these 20 fields" in errors[-1]["message"]
        assert "Unknown field; the fields are" in errors[0]["message"]
        assert errors[1]["message"] == "Unknown field."

    def test_in_a_query_is_short(self, caller: Caller) -> None:
        query = "&".join(f"q{number}=1" for number in range(900))
        answer = caller.get(f"/jobs?{query}")
        assert (answer.status_code, len(answer.content) < 5_000) == (400, True)

    def test_of_a_bulk_is_bounded_as_a_whole(self, caller: Caller) -> None:
        faulty = noop_job(**{f"n{number}": 1 for number in range(60)})
        answer = caller.post("/jobs/bulk", {"jobs": [faulty] * 700})
        assert len(answer.content) < 700 * 400
        results = answer.json()["results"]
        assert [result["status"] for result in results] == [400] * 700
        assert len(results[0]["problem"]["errors"]) == 21
        assert results[-1]["problem"]["errors"] == []
        assert "left out" in results[-1]["problem"]["detail"]

    def test_leaves_a_short_one_as_it_was(self, caller: Caller) -> None:
        errors = caller.post("/jobs", noop_job(bogus=1, name="")).json()["errors"]
        assert {error["field"] for error in errors} == {"bogus", "name"}


class TestKeptAnswers:
    def test_are_refused_once_the_tenant_has_filled_its_share(
        self, caller: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other = Caller(make_tenant())
        monkeypatch.setattr(idempotency, "MAX_KEPT_BYTES", 4_000)
        statuses = [
            caller.post("/jobs", noop_job(name=f"n{number}"), **{"Idempotency-Key": f"k{number}"}).status_code
            for number in range(8)
        ]
        assert statuses[0] == 201
        assert statuses[-1] == 429
        kept = Answer.objects.filter(tenant_id=caller.tenant.id)  # type: ignore[union-attr]
        assert kept.count() == statuses.count(201)
        refused = caller.post("/jobs", noop_job(name="more"), **{"Idempotency-Key": "more"})
        assert refused.json()["type"].endswith("answers-full")
        assert "without" in refused.json()["detail"]
        assert int(refused["Retry-After"]) > 0
        # A kept answer is still repeated, writes without a key go on, and another tenant has a share of its own.
        repeated = caller.post("/jobs", noop_job(name="n0"), **{"Idempotency-Key": "k0"})
        assert (repeated.status_code, repeated["Idempotency-Replayed"]) == (201, "true")
        assert caller.post("/jobs", noop_job(name="more")).status_code == 201
        assert other.post("/jobs", noop_job(), **{"Idempotency-Key": "k0"}).status_code == 201

    def test_that_are_purged_make_room(self, caller: Caller) -> None:
        tenant_id = caller.tenant.id  # type: ignore[union-attr]
        for number in range(3):
            caller.post("/jobs", noop_job(name=f"n{number}"), **{"Idempotency-Key": f"k{number}"})

        def tallied() -> int:
            return sum(AnswerTally.objects.filter(tenant_id=tenant_id).values_list("bytes", flat=True))

        bodies = Answer.objects.filter(tenant_id=tenant_id).values_list("body", flat=True)
        assert tallied() == sum(map(len, bodies)) + 3 * 500
        Answer.objects.filter(tenant_id=tenant_id, key="k1").update(body=b"")
        assert tallied() == sum(map(len, bodies.all())) + 3 * 500
        Answer.objects.filter(tenant_id=tenant_id).delete()
        assert tallied() == 0

    def test_too_long_to_keep_undo_what_they_tell_of(
        self, caller: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(idempotency, "MAX_ANSWER_BYTES", 100)
        refused = caller.post("/jobs", noop_job(), **{"Idempotency-Key": "k"})
        assert refused.status_code == 413
        assert "without" in refused.json()["detail"]
        assert caller.get("/jobs").json()["results"] == []
