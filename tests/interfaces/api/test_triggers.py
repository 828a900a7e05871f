"""``/triggers``, ``/dead-letters`` and the facts that a caller may know of itself."""

from datetime import datetime, timedelta

import pytest

from jobs.models import Effect, Job, SkippedRange
from tests.factories import HOUR, MINUTE, make_attempt, make_job, make_trigger, make_triggers, now, states
from tests.interfaces.api.caller import Caller
from tests.interfaces.api.test_jobs import ids_of


class TestATrigger:
    def test_is_shown_with_its_attempts(self, owner: Caller) -> None:
        trigger = make_trigger(make_job(owner.tenant, priority=1), "dead", progress={"done": 0.5})
        attempt = make_attempt(trigger, "failed", error_code="http_500", finished_at=now())
        shown = owner.get(f"/triggers/{trigger.id}").json()
        assert (shown["state"], shown["reason"], shown["priority"]) == ("dead", "exhausted", "high")
        assert (shown["job_id"], shown["progress"]) == (str(trigger.job_id), {"done": 0.5})
        assert shown["scheduled_for"].endswith("Z")
        assert ids_of(owner.get(f"/triggers/{trigger.id}/attempts")) == [str(attempt.id)]

    def test_says_how_many_duplicate_effects_were_prevented(self, owner: Caller) -> None:
        trigger = make_trigger(make_job(owner.tenant))
        path = f"/triggers/{trigger.id}"
        assert owner.get(path).json()["duplicates_prevented"] == 0
        for key, times in (("charge", 2), ("mail", 1)):
            Effect.objects.create(trigger_id=trigger.id, key=key, fence=1, duplicates=times)
        assert owner.get(path).json()["duplicates_prevented"] == 3

    def test_is_cancelled_and_replayed(self, owner: Caller) -> None:
        path = f"/triggers/{make_trigger(make_job(owner.tenant)).id}"
        assert owner.post(f"{path}/cancel").json()["state"] == "cancelled"
        assert owner.post(f"{path}/replay").json()["state"] == "pending"
        assert owner.post(f"{path}/replay").status_code == 409


class TestTheTriggersOfAJob:
    """Four triggers, ten minutes from each other, and ranges of skipped firings between and around them."""

    @pytest.fixture
    def job(self, owner: Caller) -> Job:
        job = make_job(owner.tenant)
        self.moment = now() - HOUR
        for number in range(4):
            make_trigger(job, scheduled_for=self.moment + number * 10 * MINUTE)
        for number, reason in enumerate(("misfire", "coalesced", "paused", "frozen", "overlap")):
            since = self.moment + (number * 10 - 8) * MINUTE
            SkippedRange.objects.create(
                job=job,
                tenant_id=job.tenant_id,
                job_version=1,
                from_at=since,
                until_at=since + 6 * MINUTE,
                count=7,
                reason=reason,
                created_at=now(),
            )
        return job

    def test_come_with_the_ranges_of_skipped_firings(self, owner: Caller, job: Job) -> None:
        page = owner.get(f"/jobs/{job.id}/triggers").json()
        assert [trigger["origin"] for trigger in page["results"]] == ["schedule"] * 4
        ranges = page["skipped_ranges"]
        assert [skipped["reason"] for skipped in ranges] == [
            "overlap", "frozen", "paused", "coalesced", "misfire"
        ]  # fmt: skip
        assert ranges[-1]["count"] == 7
        assert datetime.fromisoformat(ranges[-1]["until_at"]) == self.moment - 2 * MINUTE

    def test_come_with_those_of_the_page_s_own_time_on_each_page(self, owner: Caller, job: Job) -> None:
        first = owner.get(f"/jobs/{job.id}/triggers?page_size=2").json()
        assert [skipped["reason"] for skipped in first["skipped_ranges"]] == ["overlap", "frozen", "paused"]
        second = owner.get(first["next"]).json()
        assert [skipped["reason"] for skipped in second["skipped_ranges"]] == ["coalesced", "misfire"]
        back = owner.get(second["previous"]).json()
        assert back["skipped_ranges"] == first["skipped_ranges"]

    @pytest.mark.parametrize(
        ("query", "reasons"),
        [
            ("state=succeeded", []),
            ("reason=paused", ["paused"]),
            ("scheduled_for_after={after}", ["overlap", "frozen"]),
            ("scheduled_for_before={after}", ["paused", "coalesced", "misfire"]),
        ],
    )
    def test_filter_the_ranges_too(self, owner: Caller, job: Job, query: str, reasons: list[str]) -> None:
        after = (self.moment + 20 * MINUTE).isoformat().replace("+00:00", "Z")
        page = owner.get(f"/jobs/{job.id}/triggers?{query.format(after=after)}").json()
        assert [skipped["reason"] for skipped in page["skipped_ranges"]] == reasons


class TestListOfTriggers:
    @pytest.mark.parametrize("field", ["state", "job", "job_type", "reason", "after", "before"])
    def test_is_filtered(self, owner: Caller, field: str) -> None:
        other = make_trigger(make_job(owner.tenant), "pending")
        job = make_job(owner.tenant, job_type="webhook")
        wanted = make_trigger(job, "dead", scheduled_for=now() - timedelta(days=1))
        query = {
            "state": "state=dead",
            "job": f"job={job.id}",
            "job_type": "job_type=webhook",
            "reason": "reason=exhausted",
            "before": f"scheduled_for_before={other.scheduled_for:%Y-%m-%dT%H:%M:%S}Z",
            "after": f"scheduled_for_after={other.scheduled_for.isoformat()}",
        }[field]
        expected = other if field == "after" else wanted
        assert ids_of(owner.get(f"/triggers?{query}")) == [str(expected.id)]


class TestDeadLetters:
    def test_are_listed_newest_first(self, owner: Caller, outsider: Caller) -> None:
        job = make_job(owner.tenant)
        dead = make_triggers(job, 2, "dead")
        make_trigger(job, "succeeded")
        make_trigger(make_job(outsider.tenant), "dead")
        assert ids_of(owner.get("/dead-letters")) == [str(trigger.id) for trigger in reversed(dead)]

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ("error_code=http_503", "refused"),
            ("error_code=timeout", "slow"),
            ("http_status=503", "refused"),
            ("http_status=504", None),
            ("target=a.example", "refused"),
            ("target=example", None),
            ("finished_before={moment}", "refused"),
            ("finished_after={moment}", "slow"),
            ("error_code=http_503&finished_after={moment}", None),
        ],
    )
    def test_are_found_by_what_killed_them_whom_they_called_and_when_they_died(
        self, owner: Caller, query: str, found: str | None
    ) -> None:
        """By the last attempt alone: the first attempt of both timed out."""
        moment, dead = now() - HOUR, {}
        for name, target, died, last in (
            ("refused", "a.example", moment - MINUTE, {"error_code": "http_503", "http_status": 503}),
            ("slow", "b.example", moment, {"error_code": "timeout"}),
        ):
            job = make_job(owner.tenant, job_type="webhook", target=target)
            dead[name] = make_trigger(job, "dead", finished_at=died, attempt_count=2)
            make_attempt(dead[name], "timed_out", number=1, error_code="timeout", http_status=504)
            make_attempt(dead[name], "failed", number=2, **last)
        wanted = query.format(moment=moment.isoformat().replace("+00:00", "Z"))
        assert ids_of(owner.get(f"/dead-letters?{wanted}")) == ([str(dead[found].id)] if found else [])

    def test_are_replayed_by_id(self, owner: Caller, outsider: Caller) -> None:
        dead = make_triggers(make_job(owner.tenant), 2, "dead")
        foreign = make_trigger(make_job(outsider.tenant), "dead")
        response = owner.post("/dead-letters/replay", {"ids": [str(dead[0].id), str(foreign.id)]})
        assert response.json() == {"replayed": 1}
        assert states([*dead, foreign]) == ["pending", "dead", "dead"]

    def test_are_replayed_by_filter(self, owner: Caller, outsider: Caller) -> None:
        lost, exhausted = (
            make_trigger(make_job(owner.tenant), "dead", reason=r) for r in ("lost", "exhausted")
        )
        foreign = make_trigger(make_job(outsider.tenant), "dead", reason="lost")
        response = owner.post("/dead-letters/replay", {"filter": {"reason": "lost"}})
        assert response.json() == {"replayed": 1}
        assert states([lost, exhausted, foreign]) == ["pending", "dead", "dead"]
        assert owner.post("/dead-letters/replay", {"filter": {}}).json() == {"replayed": 1}
        assert states([exhausted, foreign]) == ["pending", "dead"]

    def test_are_dismissed_by_id_and_by_filter(self, owner: Caller, outsider: Caller) -> None:
        job = make_job(owner.tenant)
        named, matching, kept = (make_trigger(job, "dead", reason=r) for r in ("lost", "poison", "exhausted"))
        foreign = make_trigger(make_job(outsider.tenant), "dead", reason="poison")
        asked = {"ids": [str(named.id), str(foreign.id)], "note": "The host is gone."}
        assert owner.post("/dead-letters/dismiss", asked).json() == {"dismissed": 1}
        asked = {"filter": {"reason": "poison"}, "note": "Mended since."}
        assert owner.post("/dead-letters/dismiss", asked).json() == {"dismissed": 1}
        assert ids_of(owner.get("/dead-letters")) == [str(kept.id)]
        assert ids_of(outsider.get("/dead-letters")) == [str(foreign.id)]
        told = {one["id"]: one for one in owner.get("/triggers?state=dead").json()["results"]}
        assert told[str(kept.id)]["dismissed_at"] is None
        assert told[str(matching.id)]["dismissed_note"] == "Mended since."
        assert told[str(named.id)]["dismissed_by"].startswith("ck_")
        assert owner.post("/dead-letters/replay", {"filter": {}}).json() == {"replayed": 1}


class TestJobTypes:
    def test_are_listed_with_the_schema_of_their_payload(self, owner: Caller) -> None:
        types = {kind["name"]: kind for kind in owner.get("/job-types").json()["results"]}
        assert {"webhook", "celery_task", "message", "noop"} <= types.keys()
        assert types["webhook"]["payload_schema"]["required"] == ["url"]
        assert types["noop"]["timeout_seconds"] == 90
