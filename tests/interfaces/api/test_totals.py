"""``GET /stats``: how the firings of a tenant went, from the counts of processes."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.db import connection

from jobs.core.activity import BURIALS, DURATION_BUCKETS, LAG_BUCKETS, SKIPS, time_within
from jobs.models import ActivityHour, ActivityMinute
from jobs.store.insight import outcomes, rollup
from jobs.store.insight.series import totals
from tests.factories import HOUR, MINUTE, make_tenant, now
from tests.interfaces.api.caller import Caller, faulty_fields

DAY = timedelta(days=1)
Count = Callable[..., None]


@pytest.fixture
def hour() -> datetime:
    """The start of an hour that is over."""
    return now().replace(minute=0, second=0, microsecond=0) - 5 * HOUR


@pytest.fixture
def count(owner: Caller) -> Count:
    """Counts of the owner's tenant, by the minute."""

    def count(minute: datetime, job_type: str = "noop", *, of: Caller = owner, **counts: int) -> None:
        assert of.tenant is not None
        ActivityMinute.objects.create(minute=minute, tenant_id=of.tenant.id, job_type=job_type, **counts)

    return count


def stats(caller: Caller, query: str = "") -> dict[str, Any]:
    answer = caller.get(f"/stats{query}")
    assert answer.status_code == 200, answer.content
    return answer.json()  # type: ignore[no-any-return]


def at(told: dict[str, Any], moment: datetime) -> dict[str, Any]:
    [bucket] = [each for each in told["buckets"] if datetime.fromisoformat(each["at"]) == moment]
    return bucket  # type: ignore[no-any-return]


NAMES = ("succeeded", "dead", "skipped", "cancelled", "retried", "success_rate")


class TestTotals:
    def test_count_outcomes_where_they_happened(self, owner: Caller, count: Count, hour: datetime) -> None:
        count(hour, ended_succeeded=5, retried=2, ended_failed=3)
        count(hour + 59 * MINUTE, ended_succeeded=1, **dict.fromkeys(BURIALS, 1))
        count(hour + HOUR, cancelled=4, **dict.fromkeys(SKIPS.values(), 2))
        told = stats(owner)
        dead, skipped = len(BURIALS), 2 * len(SKIPS)
        assert [at(told, hour)[name] for name in NAMES] == [6, dead, 0, 0, 2, 0.6]
        assert [at(told, hour + HOUR)[name] for name in NAMES] == [0, 0, skipped, 4, 0, None]
        assert [told["total"][name] for name in NAMES] == [6, dead, skipped, 4, 2, 0.6]
        assert [at(told, hour + 2 * HOUR)[name] for name in NAMES] == [0, 0, 0, 0, 0, None]

    def test_are_the_same_once_minutes_are_rolled_up_and_gone(
        self, owner: Caller, count: Count, hour: datetime
    ) -> None:
        for minute in (
            hour - 3 * HOUR,
            hour,
            hour + MINUTE,
            hour + 2 * HOUR,
            now().replace(second=0, microsecond=0),
        ):
            count(minute, started=3, ended_succeeded=3, lag_4=3, duration_9=3)
        before = stats(owner)
        assert before["total"]["succeeded"] == 15
        rollup.roll_up()
        assert stats(owner)["total"] == before["total"]
        while rollup.roll_up():
            pass
        assert ActivityHour.objects.count() >= 3
        ActivityMinute.objects.filter(minute__lt=hour + HOUR).delete()
        after = stats(owner)
        assert (after["total"], after["job_types"]) == (before["total"], before["job_types"])
        assert [each["succeeded"] for each in after["buckets"]] == [
            each["succeeded"] for each in before["buckets"]
        ]

    def test_tell_how_late_attempts_started_and_how_long_they_took(
        self, owner: Caller, count: Count, hour: datetime
    ) -> None:
        lags = {LAG_BUCKETS[6]: 90, LAG_BUCKETS[9]: 9, LAG_BUCKETS[-1]: 1}
        count(hour, started=100, ended_succeeded=10, duration_0=10, **lags)
        for told in (stats(owner)["total"], at(stats(owner), hour), stats(owner)["job_types"][0]):
            assert told["start_lag_seconds"] == {"p50": 0.0778, "p95": 0.778, "p99": 1.0, "sample_size": 100}
            assert told["duration_seconds"] == {
                "p50": 0.0005,
                "p95": 0.00095,
                "p99": 0.00099,
                "sample_size": 10,
            }
        assert at(stats(owner), hour + HOUR)["start_lag_seconds"] is None

    def test_tell_job_types_apart_the_busiest_first_by_their_shown_names(
        self, owner: Caller, count: Count, hour: datetime, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        own = f"mine.type@{owner.tenant.id}"  # type: ignore[union-attr]
        count(hour, "noop", started=1, ended_succeeded=1)
        count(hour, own, started=7, ended_succeeded=4, buried_exhausted=1)
        count(hour + MINUTE, own, started=2, ended_succeeded=4)
        count(hour, "webhook", skipped_misfire=50)
        told = stats(owner)["job_types"]
        assert [(each["job_type"], each["succeeded"], each["dead"]) for each in told] == [
            ("mine.type", 8, 1), ("noop", 1, 0), ("webhook", 0, 0),
        ]  # fmt: skip
        monkeypatch.setattr(totals, "MAX_TYPES", 2)
        told = stats(owner)
        assert [each["job_type"] for each in told["job_types"]] == ["mine.type", "noop"]
        assert told["total"]["skipped"] == 50

    @pytest.mark.parametrize(
        ("query", "buckets", "seconds"),
        [("", 25, 3600), ("?window=24h", 25, 3600), ("?window=7d", 29, 21_600), ("?window=90d", 91, 86_400)],
    )
    def test_begin_with_the_bucket_in_which_the_window_begins(
        self, owner: Caller, query: str, buckets: int, seconds: int
    ) -> None:
        told = stats(owner, query)
        since = datetime.fromisoformat(told["since"])
        assert since.timestamp() % seconds == 0
        span = timedelta(seconds=seconds)
        for moment, number in (
            (since - HOUR, 100),
            (since, 10),
            (since + span - HOUR, 1),
            (since + 3 * span, 5),
        ):
            ActivityHour.objects.create(
                hour=moment,
                tenant_id=owner.tenant.id,
                job_type=f"type{number}",
                ended_succeeded=number,  # type: ignore[union-attr]
            )
        told = stats(owner, query)
        assert (len(told["buckets"]), told["bucket_seconds"]) == (buckets, seconds)
        assert [each["succeeded"] for each in told["buckets"][:4]] == [11, 0, 0, 5]
        assert told["total"]["succeeded"] == 16

    @pytest.mark.parametrize("window", ["1h", "24H", "", "24h,7d", "%00"])
    def test_of_a_window_there_is_not_are_refused(self, owner: Caller, window: str) -> None:
        answer = owner.get(f"/stats?window={window}")
        assert faulty_fields(answer) == {"window"}
        assert answer.json()["errors"][0]["message"] == "Must be one of 24h, 7d, 90d."

    def test_give_up_where_they_would_hold_up_the_server(
        self, owner: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(outcomes, "PATIENCE", timedelta(milliseconds=50))
        with psycopg.connect(**connection.get_connection_params()) as other:
            other.execute("LOCK TABLE jobs_activityhour IN ACCESS EXCLUSIVE MODE")
            assert owner.get("/stats").status_code == 503
            other.rollback()

    def test_cost_what_they_look_at(self, owner: Caller) -> None:
        assert owner.get("/stats")["RateLimit-Cost"] == "50"

    def test_tell_nothing_of_another_tenant(self, owner: Caller, count: Count, hour: datetime) -> None:
        empty = stats(owner)
        stranger = Caller(make_tenant())
        count(hour, "theirs.type", of=stranger, started=7, ended_succeeded=7, lag_3=7)
        ActivityHour.objects.create(
            hour=hour - HOUR, tenant_id=stranger.tenant.id, job_type="noop", buried_lost=3
        )  # type: ignore[union-attr]
        mine = stats(owner)
        assert [mine[name] for name in ("total", "job_types")] == [empty["total"], []]
        assert stats(stranger)["total"]["succeeded"] == 7


class TestTimeWithin:
    def test_is_even_inside_a_bucket_and_the_last_bound_beyond_it(self) -> None:
        counts = {DURATION_BUCKETS[0]: 10, DURATION_BUCKETS[13]: 10}
        assert time_within(counts, DURATION_BUCKETS, 0.5) == 0.001
        assert time_within(counts, DURATION_BUCKETS, 0.75) == 20
        assert time_within(counts, DURATION_BUCKETS, 1) == 30
        assert time_within({DURATION_BUCKETS[-1]: 1}, DURATION_BUCKETS, 0.5) == 3600
        assert time_within({}, DURATION_BUCKETS, 0.5) is None
