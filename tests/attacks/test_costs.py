"""Calls that do the work of many: each costs by its work, so that no key does more work than its rate allows."""

from typing import Any

import pytest

from jobs.api.calls.costs import AT_LARGE, BYTES_A_TOKEN
from jobs.api.parsers import StrictJSONParser
from jobs.conf import engine_settings
from jobs.models import Job
from tenants.models import ApiKey
from tests.factories import make_job, make_tenant, new_id
from tests.interfaces.api.caller import Caller, jobs_stored, noop_job

pytestmark = pytest.mark.django_db
BURST = 100


@pytest.fixture
def caller(db: None, job_types: None, settings: Any) -> Caller:
    """A hundred at once, and then one in a hundred seconds, however slow this machine is."""
    settings.CARILLON = engine_settings().model_copy(
        update={"api_rate_per_second": 0.01, "api_rate_burst": BURST}
    )
    return Caller(make_tenant())


def left(answer: Any) -> int:
    """The number of the key's tokens that are left, by the answer."""
    return int(answer["RateLimit"].partition("r=")[2].partition(";")[0])


def jobs(count: int, prefix: str = "n") -> dict[str, Any]:
    return {"jobs": [noop_job(name=f"{prefix}{number}") for number in range(count)]}


class TestABulk:
    def test_costs_what_its_jobs_cost_one_by_one(self, caller: Caller) -> None:
        answer = caller.post("/jobs/bulk", jobs(30))
        assert (left(answer), answer["RateLimit-Cost"]) == (BURST - 30, "30")
        one = caller.post("/jobs", noop_job())
        assert (left(one), "RateLimit-Cost" in one) == (BURST - 31, False)

    def test_is_refused_where_too_little_is_left_and_says_what_it_costs(self, caller: Caller) -> None:
        assert caller.post("/jobs/bulk", jobs(70)).status_code == 200
        refused = caller.post("/jobs/bulk", jobs(40, "m"))
        assert refused.status_code == 429
        assert refused["Content-Type"] == "application/problem+json"
        assert "costs 40" in refused.json()["detail"]
        assert refused["RateLimit-Cost"] == "40"
        assert int(float(refused["Retry-After"])) == pytest.approx(1_100, abs=150)
        assert jobs_stored() == 70
        # The tokens that are left still pay for a cheaper call.
        assert caller.post("/jobs/bulk", jobs(20, "m")).status_code == 200

    def test_that_costs_more_than_the_key_can_pay_is_told_how_much_that_is(self, caller: Caller) -> None:
        refused = caller.post("/jobs/bulk", jobs(BURST + 1))
        assert refused.status_code == 413
        assert "at most" in refused.json()["detail"]
        assert f"{BURST:,} at once" in refused.json()["detail"]
        assert jobs_stored() == 0

    def test_that_costs_more_than_the_burst_is_paid_afterwards(self, caller: Caller) -> None:
        ApiKey.objects.filter(tenant=caller.tenant).update(rate_per_second=20)
        answer = caller.post("/jobs/bulk", jobs(110))
        assert answer.status_code == 200
        # Twenty at once and twenty a second: it is full again after five and a half.
        assert answer["RateLimit"] == '"key";r=0;t=6'

    def test_of_no_limit_costs_nothing(self, caller: Caller, settings: Any) -> None:
        settings.CARILLON = engine_settings().model_copy(update={"api_rate_per_second": 0})
        assert caller.post("/jobs/bulk", jobs(BURST + 1)).status_code == 200

    def test_cannot_be_had_for_the_price_of_one(self, caller: Caller) -> None:
        statuses = [caller.post("/jobs/bulk", jobs(50, f"r{turn}-")).status_code for turn in range(10)]
        assert statuses == [200, 200] + [429] * 8
        assert jobs_stored() == BURST


class TestALongBody:
    """A body costs one token for so many bytes, however the call ends."""

    BODY = b'{"nonsense": "' + b"x" * (10 * BYTES_A_TOKEN) + b'"}'

    def test_costs_by_its_bytes(self, caller: Caller) -> None:
        refused = caller.post("/jobs", self.BODY)
        assert (refused.status_code, refused["RateLimit-Cost"], left(refused)) == (400, "11", BURST - 11)
        whole = b" " * (BYTES_A_TOKEN - 2) + b"{}"
        assert "RateLimit-Cost" not in caller.post("/jobs", whole)
        assert caller.post("/jobs", whole + b" ")["RateLimit-Cost"] == "2"

    def test_costs_what_it_asks_for_where_that_is_more(self, caller: Caller) -> None:
        answer = caller.post("/jobs/bulk", jobs(30) | {"padding": "x" * BYTES_A_TOKEN})
        assert answer["RateLimit-Cost"] == "30"

    @pytest.mark.parametrize("path", ["/jobs", "/jobs/bulk"])
    def test_is_not_read_before_it_is_paid_for(
        self, caller: Caller, path: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        read: list[object] = []
        monkeypatch.setattr(StrictJSONParser, "parse", lambda *_: read.append(1) or {})
        for _ in range(BURST // 11):
            assert caller.post(path, self.BODY).status_code == 400
        assert len(read) == BURST // 11
        refused = caller.post(path, self.BODY)
        assert (refused.status_code, len(read)) == (429, BURST // 11)
        assert "costs 11" in refused.json()["detail"]
        assert "less at once" in refused.json()["detail"]

    def test_that_the_key_can_never_pay_is_told_how_much_that_is(self, caller: Caller) -> None:
        ApiKey.objects.filter(tenant=caller.tenant).update(rate_per_second=1)
        refused = caller.post("/jobs", self.BODY)
        assert refused.status_code == 413
        assert (
            "one for each 16,384 bytes of its body; the key has at most 6 at once" in refused.json()["detail"]
        )


class TestOtherCalls:
    def test_cost_what_they_compute(self, caller: Caller) -> None:
        job: Job = make_job(caller.tenant)
        schedule = {"type": "interval", "every_seconds": 60}
        preview = caller.post("/schedules/preview", {"schedule": schedule, "count": 400})
        assert (preview.status_code, preview["RateLimit-Cost"]) == (200, "21")
        assert "RateLimit-Cost" not in caller.get(f"/jobs/{job.id}/preview")
        assert caller.get(f"/jobs/{job.id}/preview?count=200")["RateLimit-Cost"] == "11"
        operation = caller.post("/operations", {"verb": "pause", "filter": {}, "dry_run": True})
        assert (operation.status_code, operation["RateLimit-Cost"]) == (200, str(AT_LARGE))
        replay = caller.post("/dead-letters/replay", {"ids": [str(new_id()) for _ in range(12)]})
        assert replay["RateLimit-Cost"] == "12"
        dismissal = caller.post("/dead-letters/dismiss", {"filter": {}, "note": "Mended since."})
        assert dismissal["RateLimit-Cost"] == str(AT_LARGE)

    @pytest.mark.parametrize("body", [[], {}, {"jobs": 5}, {"jobs": {}}, b"{", b"", {"count": "x"}])
    def test_of_no_sound_body_cost_one_and_are_refused(self, caller: Caller, body: Any) -> None:
        for path in ("/jobs/bulk", "/schedules/preview"):
            answer = caller.post(path, body)
            assert answer.status_code == 400
            assert "RateLimit-Cost" not in answer
