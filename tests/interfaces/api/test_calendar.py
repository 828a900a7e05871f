"""Hard dates as callers see them: previews, triggers, and the notice of a change of clocks."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs.core.timezones import tzdata_version
from jobs.engine.firing import materializer
from jobs.models import Job, Trigger
from jobs.store.leases import Leadership
from tests import factories
from tests.interfaces.api.caller import Caller, faulty_fields, noop_job

Clock = Callable[[timedelta], None]
ANYONE = Leadership(holder="tests", term=None)

#: Expression, zone, a stretch of time in UTC, its firings in UTC, and its notes.
NAMED_DATES: list[tuple[str, str, str, str, list[str], list[str]]] = [
    (
        "30 1 * * *", "America/New_York", "2026-11-01T00:00", "2026-11-02T12:00",
        ["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"],
        ["01:30 happens twice; fires at the first"],
    ),
    (
        "30 2 * * *", "America/New_York", "2026-03-08T00:00", "2026-03-09T12:00",
        ["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"],
        ["02:30 does not exist on 2026-03-08; fires at 03:00"],
    ),
    (
        "15 2 * * *", "Australia/Lord_Howe", "2026-04-04T00:00", "2026-04-05T20:00",
        ["2026-04-04T15:45:00Z", "2026-04-05T15:45:00Z"],
        [],
    ),
    (
        "*/20 2 * * *", "Australia/Lord_Howe", "2026-04-04T00:00", "2026-04-05T15:00",
        ["2026-04-04T15:30:00Z", "2026-04-04T15:50:00Z", "2026-04-04T16:10:00Z"],
        [],
    ),
    (
        "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00", "2026-10-04T20:00",
        ["2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"],
        ["02:15 does not exist on 2026-10-04; fires at 02:30"],
    ),
    (
        "*/20 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00", "2026-10-04T15:10",
        ["2026-10-03T15:40:00Z", "2026-10-04T15:00:00Z"],
        ["Before this, 02:00 and later times before 02:30 do not exist on 2026-10-04; they do not fire"],
    ),
    (
        "0 0 * * *", "Africa/Cairo", "2026-04-23T12:00", "2026-04-25T12:00",
        ["2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z"],
        ["00:00 does not exist on 2026-04-24; fires at 01:00"],
    ),
]  # fmt: skip


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def cron(expression: str, zone: str = "UTC", **fields: Any) -> dict[str, Any]:
    return {"type": "cron", "cron": expression, "timezone": zone, **fields}


def preview(caller: Caller, schedule: dict[str, Any], **fields: Any) -> Any:
    response = caller.post("/schedules/preview", {"schedule": schedule, **fields})
    assert response.status_code == 200, response.content
    return response.json()


@pytest.fixture
def at(clock: Clock) -> Callable[[str], None]:
    """``at("2026-03-08T00:00")`` makes it that time in the database."""

    def move(text: str) -> None:
        clock(timedelta())
        clock(instant(text) - factories.now())

    return move


class TestNamedDates:
    @pytest.mark.parametrize(("expression", "zone", "after", "until", "fires", "notes"), NAMED_DATES)
    def test_are_previewed(
        self, owner: Caller, expression: str, zone: str, after: str, until: str, fires: Any, notes: Any
    ) -> None:
        shown = preview(owner, cron(expression, zone), after=f"{after}:00Z", count=len(fires) + 1)["firings"]
        assert [firing["at"] for firing in shown[:-1]] == fires
        assert shown[-1]["at"] > until
        assert [firing["note"] for firing in shown[:-1] if firing["note"]] == notes

    @pytest.mark.parametrize(("expression", "zone", "after", "until", "fires", "notes"), NAMED_DATES)
    def test_become_triggers(
        self,
        owner: Caller,
        at: Any,
        expression: str,
        zone: str,
        after: str,
        until: str,
        fires: Any,
        notes: Any,
    ) -> None:
        at(after)
        job = owner.post("/jobs", noop_job(schedule=cron(expression, zone))).json()
        assert job["next_fire_at"] == fires[0]
        window = instant(until) - instant(after)
        materializer.materialize(leadership=ANYONE, look_ahead=window, limit=10)
        triggers = Trigger.objects.filter(job=job["id"]).order_by("scheduled_for")
        assert [f"{trigger.scheduled_for:%Y-%m-%dT%H:%M:%SZ}" for trigger in triggers] == fires


class TestPreview:
    def test_tells_the_wall_time_the_words_and_the_zone_database(self, owner: Caller) -> None:
        answer = preview(owner, cron("30 2 * * *", "America/New_York"), after="2026-03-08T00:00:00Z", count=1)
        assert answer == {
            "description": "At 02:30, in America/New_York",
            "tzdata": tzdata_version(),
            "firings": [
                {
                    "at": "2026-03-08T07:00:00Z",
                    "local": "2026-03-08T03:00:00-04:00",
                    "wall": "2026-03-08T02:30:00",
                    "note": "02:30 does not exist on 2026-03-08; fires at 03:00",
                }
            ],
        }

    def test_reads_quartz(self, owner: Caller) -> None:
        schedule = cron("15 0/30 9 ? * 2-6", cron_dialect="quartz")
        answer = preview(owner, schedule, after="2026-01-03T00:00:00Z", count=2)
        assert [firing["at"] for firing in answer["firings"]] == [
            "2026-01-05T09:00:15Z",
            "2026-01-05T09:30:15Z",
        ]
        assert "Monday through Friday" in answer["description"]

    def test_describes_what_is_not_cron(self, owner: Caller) -> None:
        answer = preview(
            owner, {"type": "interval", "every_seconds": 90}, after="2026-01-01T00:00:00Z", count=2
        )
        assert answer["description"] == "Every 90 seconds"
        assert [firing["at"] for firing in answer["firings"]] == [
            "2026-01-01T00:01:30Z",
            "2026-01-01T00:03:00Z",
        ]

    def test_of_a_job_whose_zone_is_gone_is_a_conflict_that_says_so(self, owner: Caller) -> None:
        job = factories.make_job(
            owner.tenant, schedule_type="cron", cron_expression="0 2 * * *", timezone="Gone/Away"
        )
        response = owner.get(f"/jobs/{job.id}/preview")
        assert response.status_code == 409
        assert "Gone/Away" in response.json()["detail"]


class TestRefusal:
    @pytest.mark.parametrize(
        ("expression", "dialect", "where"),
        [
            ("0 24 * * *", "unix", "hour (field 2, character 3): 24 "),
            ("0  2 * *  1,FOO", "unix", "day-of-week (field 5, character 13): FOO "),
            ("0 0 12 32W * ?", "quartz", "day-of-month (field 4, character 8): 32W "),
        ],
    )
    def test_names_the_field_and_the_position(
        self, owner: Caller, expression: str, dialect: str, where: str
    ) -> None:
        response = owner.post("/jobs", noop_job(schedule=cron(expression, cron_dialect=dialect)))
        assert faulty_fields(response) == {"schedule.cron"}
        assert response.json()["errors"][0]["message"].startswith(where)

    def test_suggests_the_nearest_zone(self, owner: Caller) -> None:
        response = owner.post("/jobs", noop_job(schedule=cron("0 2 * * *", "Asia/Kolkatta")))
        assert faulty_fields(response) == {"schedule.timezone"}
        assert "Asia/Kolkata?" in response.json()["errors"][0]["message"]


class TestAQuartzJob:
    def test_keeps_its_dialect_through_edits(self, owner: Caller) -> None:
        given = cron("0 0 2 ? * 6L", "Europe/Berlin", cron_dialect="quartz")
        job = owner.post("/jobs", noop_job(schedule=given)).json()
        assert given.items() <= job["schedule"].items()
        edited = owner.patch(f"/jobs/{job['id']}", {"schedule": {"cron": "30 0 2 * * ?"}}).json()
        assert (edited["schedule"]["cron_dialect"], edited["schedule"]["cron"]) == ("quartz", "30 0 2 * * ?")
        refused = owner.patch(f"/jobs/{job['id']}", {"schedule": {"cron": "0 2 * * *"}})
        assert faulty_fields(refused) == {"schedule.cron"}

    def test_shows_its_dialect_though_it_is_the_default(self, owner: Caller) -> None:
        job = owner.post("/jobs", noop_job(schedule=cron("0 2 * * *"))).json()
        assert job["schedule"]["cron_dialect"] == "unix"

    def test_fires_on_its_seconds(self, owner: Caller, at: Any) -> None:
        at("2026-01-01T00:00")
        job = owner.post("/jobs", noop_job(schedule=cron("*/20 * * * * ?", cron_dialect="quartz"))).json()
        materializer.materialize(leadership=ANYONE, look_ahead=timedelta(minutes=1), limit=10)
        seconds = Trigger.objects.filter(job=job["id"]).order_by("scheduled_for").values_list("scheduled_for")
        assert [moment.second for (moment,) in seconds] == [20, 40, 0]


class TestClockChange:
    def create(self, owner: Caller, *schedule: str, **fields: Any) -> Any:
        return owner.post("/jobs", noop_job(schedule=cron(*schedule, **fields))).json()

    def test_is_told_within_thirty_days_on_the_job_and_in_the_list(self, owner: Caller, at: Any) -> None:
        at("2026-02-10T00:00")
        job = self.create(owner, "30 2 * * *", "America/New_York", dst_policy="skip")
        expected = {
            "at": "2026-03-08T07:00:00Z",
            "local": "2026-03-08T03:00:00-04:00",
            "note": "02:30 does not exist on 2026-03-08; it does not fire",
        }
        assert job["clock_change"] == expected
        assert owner.get(f"/jobs/{job['id']}").json()["clock_change"] == expected
        assert owner.get("/jobs").json()["results"][0]["clock_change"] == expected
        at("2026-01-10T00:00")
        assert owner.get(f"/jobs/{job['id']}").json()["clock_change"] is None

    def test_is_none_of_a_job_that_is_not_active_or_cannot_be_computed(self, owner: Caller, at: Any) -> None:
        at("2026-03-07T00:00")
        job = self.create(owner, "30 2 * * *", "America/New_York")
        assert job["clock_change"] is not None
        assert owner.post(f"/jobs/{job['id']}/pause").json()["clock_change"] is None
        Job.objects.filter(id=job["id"]).update(status="active", timezone="Gone/Away")
        assert owner.get(f"/jobs/{job['id']}").json()["clock_change"] is None
