"""``carillon stats`` and ``attempts``: for people, for pipes, and requests that are refused."""

from datetime import datetime, timedelta

import pytest

from carillon.commands.outcomes import sparkline
from jobs.models import ActivityMinute, Job
from tests.cli.conftest import ApiAdapter, Command
from tests.factories import HOUR, MINUTE, SECOND, make_attempt, make_job, make_trigger, now
from tests.interfaces.api.caller import Caller


@pytest.fixture
def hour() -> datetime:
    return now().replace(minute=0, second=0, microsecond=0) - 3 * HOUR


@pytest.fixture
def job(owner: Caller, hour: datetime) -> Job:
    """A job: one of its ten firings of one hour died, as did its one firing of the next hour."""
    job = make_job(owner.tenant, name="nightly")
    for number, state in enumerate(["succeeded"] * 9 + ["dead"]):
        due = hour + number * MINUTE
        times = {"due_at": due, "started_at": due + SECOND, "finished_at": due + 9 * SECOND}
        make_trigger(job, state, scheduled_for=due, **times)
    make_trigger(job, "dead", scheduled_for=hour + HOUR)
    return job


class TestStats:
    def test_are_the_answer_as_json(self, carillon: Command, owner: Caller, job: Job) -> None:
        told = carillon("stats", "nightly", "--window", "7d", "-o", "json").json
        answer = owner.get(f"/jobs/{job.id}/stats?window=7d").json()
        assert told.keys() == answer.keys()
        assert told["total"] == answer["total"]

    def test_are_plain_rows_in_a_pipe(self, carillon: Command, job: Job, hour: datetime) -> None:
        out = carillon("stats", "nightly").out
        assert "9 succeeded, 2 dead, 0 skipped" in out
        assert "81.81 %" in out
        rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line.startswith(" 20")}
        assert len(rows) == 25
        assert rows[f"{hour:%Y-%m-%dT%H:%M:%SZ}"][:6] == ["9", "1", "0", "0", "0", "0.9"]
        assert not set("▁▂▃▄▅▆▇█") & set(out)

    def test_are_lines_on_a_terminal(
        self, carillon: Command, job: Job, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", "80")
        out = carillon("stats", str(job.id)).out
        [firings] = [line for line in out.splitlines() if "█" in line and line.rstrip().endswith(" 10")]
        assert firings.count("█") == 1
        assert firings.count("▁") == 24 - firings.count("▂")
        assert "p50" in out

    def test_of_a_long_window_fit_into_a_narrow_terminal(
        self, carillon: Command, job: Job, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", "60")
        lines = carillon("stats", "nightly", "--window", "90d").out.splitlines()
        # The two hours may lie in two days.
        [firings] = [line for line in lines if "█" in line and line.rstrip().endswith((" 10", " 11"))]
        assert 22 < sum(firings.count(bar) for bar in "▁▂▃▄▅▆▇█") <= 38

    def test_of_a_window_there_is_not_are_refused(self, carillon: Command, job: Job) -> None:
        ended = carillon("stats", "nightly", "--window", "1y")
        assert (ended.code, ended.out) == (1, "")
        assert "window" in ended.err
        assert "24h, 7d, 90d" in ended.err

    def test_without_a_job_are_of_all(
        self, carillon: Command, owner: Caller, hour: datetime, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        counts = {"started": 12, "ended_succeeded": 9, "buried_exhausted": 2, "retried": 1, "lag_9": 12}
        ActivityMinute.objects.create(minute=hour, tenant_id=owner.tenant.id, job_type="noop", **counts)
        out = carillon("stats").out
        assert "9 succeeded, 2 dead, 0 skipped, 0 cancelled, 1 retried" in out
        rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line.startswith(" 20")}
        assert rows[f"{hour:%Y-%m-%dT%H:%M:%SZ}"][:6] == ["9", "2", "0", "0", "1", "0.818182"]
        [of_type] = [line.split() for line in out.splitlines() if line.startswith(" noop")]
        assert of_type[1:3] == ["9", "2"]
        assert carillon("stats", "-o", "json").json["total"] == owner.get("/stats").json()["total"]
        monkeypatch.setenv("FORCE_COLOR", "1")
        assert "█" in carillon("stats", "--window", "7d").out
        assert "window" in carillon("stats", "--window", "1y").err

    def test_of_no_job_are_not_found(self, carillon: Command) -> None:
        assert carillon("stats", "nobody").code == 3


class TestSparkline:
    def test_has_a_bar_for_each_value_and_a_blank_for_none(self) -> None:
        assert sparkline([0, 1, 4, 8, None, 7.9], top=8) == "▁▂▅█ █"
        assert sparkline([0, 0], top=0) == "▁▁"
        assert sparkline([], top=0) == ""


class TestAttempts:
    @pytest.fixture
    def made(self, owner: Caller, job: Job) -> list[str]:
        """One attempt of the job that succeeded; of another job one that timed out a minute ago and one that failed."""
        other = make_job(owner.tenant, job_type="webhook")
        made = [
            make_attempt(make_trigger(job, "succeeded"), "succeeded"),
            make_attempt(
                make_trigger(other, "dead"), "timed_out", error_code="timeout", started_at=now() - MINUTE
            ),
            make_attempt(make_trigger(other, "dead"), "failed", error_code="http_503", http_status=503),
        ]
        return [str(attempt.id) for attempt in made]

    @pytest.mark.parametrize(
        ("options", "numbers"),
        [
            ((), [2, 1]),
            (("--job", "nightly"), [0]),
            (("--job", "nightly", "--state", "succeeded"), [0]),
            (("--job", "nightly", "--state", "failed"), []),
            (("--state", "timed_out"), [1]),
            (("--error-code", "http_503"), [2]),
            (("--http-status", "503"), [2]),
            (("--job-type", "webhook", "--limit", "1"), [2]),
            (("--job-type", "noop"), []),
        ],
    )
    def test_are_filtered(
        self, carillon: Command, made: list[str], options: tuple[str, ...], numbers: list[int]
    ) -> None:
        rows = carillon("attempts", *options, "-o", "json").json
        assert [row["id"] for row in rows] == [made[number] for number in numbers]

    def test_are_found_by_their_time(self, carillon: Command, made: list[str]) -> None:
        instant = (now() - timedelta(seconds=30)).isoformat()
        found = {
            option: [row["id"] for row in carillon("attempts", option, instant, "-o", "json").json]
            for option in ("--before", "--after")
        }
        assert found == {"--before": [made[1]], "--after": [made[2]]}

    def test_are_a_table_for_people(self, carillon: Command, made: list[str]) -> None:
        out = carillon("attempts").out
        assert "timed_out" in out
        assert "http_503" in out

    def test_that_cannot_be_asked_for_are_refused(self, carillon: Command, api: ApiAdapter) -> None:
        refused = carillon("attempts", "--state", "succeeded")
        assert refused.code == 1
        assert "Name a job, too" in refused.err
        assert "http_status" in carillon("attempts", "--http-status", "5xx").err


class TestOutput:
    @pytest.fixture
    def spoke(self, job: Job) -> str:
        """A trigger whose second attempt printed something, and whose third printed nothing."""
        trigger = make_trigger(job, "dead")
        for number, output in ((1, "first\n"), (2, "second\x9b2J\u202e\n"), (3, None)):
            make_attempt(trigger, "failed", number=number, error_code="exception", output=output)
        return str(trigger.id)

    def test_is_what_the_latest_attempt_that_spoke_printed(self, carillon: Command, spoke: str) -> None:
        assert carillon("output", spoke).out == "second\\u009b2J\\u202e\n"
        assert carillon("output", spoke, "--number", "1").out == "first\n"

    def test_of_the_silent_is_nothing(self, carillon: Command, job: Job) -> None:
        ended = carillon("output", str(make_trigger(job, "dead").id))
        assert (ended.code, ended.out) == (0, "")
        assert "No output was kept" in ended.err

    def test_of_what_there_is_not_is_refused(self, carillon: Command, spoke: str) -> None:
        assert "no attempt 9" in carillon("output", spoke, "--number", "9").err
        assert carillon("output", "018f0000-0000-7000-8000-000000000000").code == 3
        assert carillon("output", "nightly").code == 2
