"""``GET /jobs/{id}`` and ``/jobs/{id}/stats``: how the firings of a job went."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.models import Job, SkippedRange
from jobs.shapes.history import OF_HISTORY
from jobs.store.insight import outcomes
from tests.factories import (
    HOUR,
    MINUTE,
    SECOND,
    make_attempt,
    make_job,
    make_tenant,
    make_trigger,
    now,
)
from tests.interfaces.api.caller import Caller, faulty_fields

DAY = timedelta(days=1)


def fired(job: Job, state: str, **columns: Any) -> Any:
    """A firing with its one attempt."""
    trigger = make_trigger(job, state)
    follows = {"dead": "failed", "retrying": "failed", "running": "started"}.get(state, state)
    plain = {"error_code": "http_503"} if follows == "failed" else {}
    return make_attempt(trigger, follows, **plain | columns)


def history(caller: Caller, job: Job) -> dict[str, Any]:
    shown = caller.get(f"/jobs/{job.id}").json()
    return {name: shown[name] for name in sorted(OF_HISTORY)}


class TestAJob:
    @pytest.fixture
    def job(self, owner: Caller) -> Job:
        return make_job(owner.tenant)

    def test_that_never_fired_has_no_history(self, owner: Caller, job: Job) -> None:
        make_trigger(job)
        make_trigger(job, "skipped")
        assert history(owner, job) == {
            "last_fired_at": None,
            "last_state": None,
            "last_error_code": None,
            "consecutive_failures": 0,
        }

    def test_tells_of_the_latest_firing_that_started(self, owner: Caller, job: Job) -> None:
        fired(job, "dead")
        last = fired(job, "succeeded")
        make_trigger(job, "skipped")
        told = history(owner, job)
        assert datetime.fromisoformat(told.pop("last_fired_at")) == last.started_at
        assert told == {"last_state": "succeeded", "last_error_code": None, "consecutive_failures": 0}

    def test_that_runs_tells_what_its_last_attempt_ended_with(self, owner: Caller, job: Job) -> None:
        fired(job, "dead", error_code="timeout")
        fired(job, "running")
        told = history(owner, job)
        assert (told["last_state"], told["last_error_code"]) == ("running", "timeout")
        assert told["consecutive_failures"] == 1

    def test_counts_firings_that_died_since_one_succeeded_not_attempts(self, owner: Caller, job: Job) -> None:
        for _ in range(2):
            fired(job, "dead")
        fired(job, "succeeded")
        for _ in range(3):
            attempt = fired(job, "dead")
            make_attempt(attempt.trigger, "failed", number=2)
            make_trigger(job, "skipped")
        fired(job, "retrying")
        told = history(owner, job)
        assert told["consecutive_failures"] == 3
        assert (told["last_state"], told["last_error_code"]) == ("retrying", "http_503")

    def test_does_not_take_a_result_that_came_too_late_for_its_own(self, owner: Caller, job: Job) -> None:
        fired(job, "dead", error_code="timeout")
        make_attempt(make_trigger(job, "running"), "stale", error_code="late")
        assert history(owner, job)["last_error_code"] == "timeout"

    def test_counts_no_further_than_it_says(
        self, owner: Caller, job: Job, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for _ in range(4):
            fired(job, "dead")
        monkeypatch.setattr(outcomes, "MAX_FAILURES", 3)
        assert history(owner, job)["consecutive_failures"] == 3
        monkeypatch.setattr(outcomes, "MAX_ATTEMPTS", 2)
        assert history(owner, job)["consecutive_failures"] == 2

    def test_is_the_same_by_its_name(self, owner: Caller, job: Job) -> None:
        fired(job, "dead")
        by_name = owner.get(f"/jobs/by-name/{job.name}").json()
        assert by_name == owner.get(f"/jobs/{job.id}").json()
        assert by_name["consecutive_failures"] == 1

    def test_is_asked_for_its_history_only_where_that_is_shown(self, owner: Caller, job: Job) -> None:
        fired(job, "dead")
        shown = owner.get(f"/jobs/{job.id}?fields=id,last_state").json()
        assert shown == {"id": str(job.id), "last_state": "dead"}
        with CaptureQueriesContext(connection) as queries:
            owner.get(f"/jobs/{job.id}?fields=id,name,next_fire_at")
            row = owner.get("/jobs").json()["results"][0]
        assert OF_HISTORY.isdisjoint(row)
        assert [query["sql"] for query in queries if "jobs_attempt" in query["sql"]] == []
        assert faulty_fields(owner.get("/jobs?fields=last_state")) == {"fields"}

    def test_is_not_told_its_history(self, owner: Caller, job: Job) -> None:
        sent = {"last_state": "succeeded", "consecutive_failures": 0}
        assert faulty_fields(owner.patch(f"/jobs/{job.id}", sent)) == set(sent)


class TestStats:
    @pytest.fixture
    def job(self, owner: Caller) -> Job:
        return make_job(owner.tenant)

    @pytest.fixture
    def hour(self, job: Job) -> datetime:
        """The start of an hour that is over."""
        return now().replace(minute=0, second=0, microsecond=0) - 3 * HOUR

    @staticmethod
    def stats(caller: Caller, job: Job, query: str = "") -> dict[str, Any]:
        answer = caller.get(f"/jobs/{job.id}/stats{query}")
        assert answer.status_code == 200, answer.content
        return answer.json()  # type: ignore[no-any-return]

    @staticmethod
    def at(stats: dict[str, Any], moment: datetime) -> dict[str, Any]:
        [bucket] = [each for each in stats["buckets"] if datetime.fromisoformat(each["at"]) == moment]
        return bucket  # type: ignore[no-any-return]

    def test_count_firings_by_outcome_where_they_were_due(
        self, owner: Caller, job: Job, hour: datetime
    ) -> None:
        states = ["succeeded"] * 6 + ["dead"] * 2 + ["skipped", "cancelled", "running", "retrying", "pending"]
        for number, state in enumerate(states):
            make_trigger(job, state, scheduled_for=hour + number * MINUTE)
        make_trigger(job, "dead", scheduled_for=hour + HOUR)
        make_trigger(job, "pending", scheduled_for=now() + MINUTE)
        make_trigger(make_job(owner.tenant), "dead", scheduled_for=hour)
        stats = self.stats(owner, job)
        names = ("succeeded", "dead", "skipped", "cancelled", "unfinished", "success_rate")
        assert [self.at(stats, hour)[name] for name in names] == [6, 2, 1, 1, 3, 0.75]
        assert [self.at(stats, hour + HOUR)[name] for name in names] == [0, 1, 0, 0, 0, 0.0]
        assert [self.at(stats, hour - HOUR)[name] for name in names] == [0, 0, 0, 0, 0, None]
        assert [stats["total"][name] for name in names] == [6, 3, 1, 1, 3, round(6 / 9, 6)]
        assert stats["total"]["complete"] is True

    def test_tell_how_late_firings_started_and_how_long_they_took(
        self, owner: Caller, job: Job, hour: datetime
    ) -> None:
        for number in range(1, 101):
            due = hour + number * SECOND
            started = due + number * timedelta(milliseconds=10)
            columns = {"started_at": started, "finished_at": started + number * SECOND}
            make_trigger(job, "succeeded", scheduled_for=due, due_at=due, **columns)
        # Tried twice: its due_at is the end of its back-off, and its time includes that wait.
        slow = {"started_at": hour + HOUR / 2, "finished_at": hour + HOUR, "attempt_count": 2}
        make_trigger(job, "dead", scheduled_for=hour, due_at=hour, **slow)
        for told in (self.stats(owner, job)["total"], self.at(self.stats(owner, job), hour)):
            assert told["start_lag_seconds"] == {
                "p50": pytest.approx(0.5, rel=0.06),
                "p95": pytest.approx(0.95, rel=0.06),
                "p99": pytest.approx(0.99, rel=0.06),
                "sample_size": 100,
            }
            assert told["duration_seconds"]["p50"] == pytest.approx(50, rel=0.06)
            assert told["duration_seconds"]["sample_size"] == 100
        assert self.at(self.stats(owner, job), hour - HOUR)["start_lag_seconds"] is None

    def test_count_the_firings_of_skipped_ranges(self, owner: Caller, job: Job, hour: datetime) -> None:
        for from_at, until_at, count in (
            (hour - HOUR / 2, hour + HOUR, 3_001),
            (hour - 400 * DAY, hour - 3 * HOUR, 400 * 24 * 60),
            (hour - 900 * DAY, hour - 500 * DAY, 77),
        ):
            SkippedRange.objects.create(
                job=job, tenant_id=job.tenant_id, job_version=1, from_at=from_at, until_at=until_at,
                count=count, reason="misfire", created_at=now(),
            )  # fmt: skip
        stats = self.stats(owner, job)
        spread = [self.at(stats, hour + number * HOUR)["skipped"] for number in (-2, -1, 0, 1)]
        assert spread == [0, 1000, 2001, 0]
        assert self.at(stats, hour - 5 * HOUR)["skipped"] == pytest.approx(60, abs=2)
        assert stats["total"]["skipped"] == sum(each["skipped"] for each in stats["buckets"])

    @pytest.mark.parametrize(
        ("query", "buckets", "seconds", "hours"),
        [
            ("", 25, 3600, 24),
            ("?window=24h", 25, 3600, 24),
            ("?window=7d", 29, 21_600, 7 * 24),
            ("?window=90d", 91, 86_400, 90 * 24),
        ],
    )
    def test_begin_with_the_bucket_in_which_the_window_begins(
        self, owner: Caller, job: Job, query: str, buckets: int, seconds: int, hours: int
    ) -> None:
        stats = self.stats(owner, job, query)
        assert (len(stats["buckets"]), stats["bucket_seconds"]) == (buckets, seconds)
        since, until = (datetime.fromisoformat(stats[name]) for name in ("since", "until"))
        assert since.timestamp() % seconds == 0
        assert timedelta(0) <= until - timedelta(hours=hours) - since < timedelta(seconds=seconds)
        starts = [datetime.fromisoformat(each["at"]) for each in stats["buckets"]]
        assert starts == [since + number * timedelta(seconds=seconds) for number in range(buckets)]
        assert starts[-1] <= until

    def test_say_where_they_tell_of_a_sample(
        self, owner: Caller, job: Job, hour: datetime, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A slice of five minutes has more firings than are read."""
        monkeypatch.setitem(outcomes.WINDOWS, "24h", replace(outcomes.WINDOWS["24h"], limit=3))
        for number in range(10):
            make_trigger(job, "succeeded", scheduled_for=hour + number * SECOND)
        for number in range(2):
            make_trigger(job, "dead", scheduled_for=hour + HOUR / 2 + number * SECOND)
            make_trigger(job, "dead", scheduled_for=hour + HOUR + number * SECOND)
        stats = self.stats(owner, job)
        sampled, whole = self.at(stats, hour), self.at(stats, hour + HOUR)
        assert (sampled["succeeded"], sampled["dead"], sampled["complete"]) == (3, 2, False)
        assert (whole["dead"], whole["complete"]) == (2, True)
        assert (stats["total"]["succeeded"], stats["total"]["complete"]) == (3, False)

    @pytest.mark.parametrize("window", ["1h", "24H", "", "24h,7d", "%00"])
    def test_of_a_window_there_is_not_are_refused(self, owner: Caller, job: Job, window: str) -> None:
        answer = owner.get(f"/jobs/{job.id}/stats?window={window}")
        assert faulty_fields(answer) == {"window"}
        assert answer.json()["errors"][0]["message"] == "Must be one of 24h, 7d, 90d."

    def test_give_up_where_they_would_hold_up_the_server(
        self, owner: Caller, job: Job, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(outcomes, "PATIENCE", timedelta(milliseconds=50))
        with psycopg.connect(**connection.get_connection_params()) as other:
            other.execute("LOCK TABLE jobs_trigger IN ACCESS EXCLUSIVE MODE")
            assert owner.get(f"/jobs/{job.id}/stats").status_code == 503
            other.rollback()

    def test_cost_what_they_look_at(self, owner: Caller, job: Job) -> None:
        assert owner.get(f"/jobs/{job.id}/stats")["RateLimit-Cost"] == "100"

    def test_tell_nothing_of_another_tenant_s_job(self, owner: Caller, job: Job) -> None:
        make_trigger(job, "dead")
        stranger = Caller(make_tenant())
        missing = stranger.get(f"/jobs/{make_tenant().id}/stats")
        assert stranger.get(f"/jobs/{job.id}/stats").status_code == missing.status_code == 404
