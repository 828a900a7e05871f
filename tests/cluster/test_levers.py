"""Levers under full load, with two beats that both dispatch: each acts within a second of its answer."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import pytest

from stage.waiting import wait_until
from tests.cluster.receiver import Receiver
from tests.cluster.stage import Stage

pytestmark = pytest.mark.cluster
#: Counted from its answer. An attempt that started later than that was not stopped; a busy machine may take longer to
#: start again.
STOPS_WITHIN_SECONDS, STARTS_WITHIN_SECONDS = 1.0, 10.0
#: As many as two workers do in some seconds.
BACKLOG, AT_ONCE = 8_000, 1_000
#: Calls of one target, how many of them a second its rule allows, and how long the test watches that.
CALLS, RATE, WATCH_SECONDS = 3_000, 20, 3.0


class Levers:
    """A stage with a backlog of ``noop``, and a key of the installation."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._key = str(json.loads(stage.manage("create_operator_key", "tests", "--json"))["api_key"])
        self._tenant = stage.create_tenant("acme", "--max-jobs", "1000000", "--max-in-flight", "10000")

    def pull(self, path: str = "", **changes: Any) -> datetime:
        """Change a lever. Returns when the answer came, by the database's clock."""
        self.stage.call("PATCH", f"/installation{path}", key=self._key, body=changes)
        [(answered_at,)] = self.stage.query("SELECT clock_timestamp()")
        return answered_at

    def add(self, count: int, job_type: str = "noop", **payload: Any) -> None:
        """Add ``count`` more triggers that are due at once."""
        job = {"job_type": job_type, "schedule": {"type": "immediate"}, "payload": payload}
        for _ in range(count // AT_ONCE):
            made = self.stage.call(
                "POST", "/jobs/bulk", key=self._tenant, body={"jobs": [job] * AT_ONCE, "all_or_nothing": True}
            )
            assert len(made["results"]) == AT_ONCE

    def count(self, where: str) -> int:
        [(count,)] = self.stage.query(f"SELECT count(*) FROM jobs_trigger WHERE {where}")
        return int(count)

    def is_drained(self) -> bool:
        return not self.count("phase = 'in_flight'")

    def seconds_of_starts_after(self, moment: datetime) -> float:
        """How long after ``moment`` the last attempt started; 0 when none did."""
        [(seconds,)] = self.stage.query(
            f"SELECT coalesce(extract(epoch FROM max(started_at) - '{moment.isoformat()}'), 0)::float "
            f"FROM jobs_attempt WHERE started_at > '{moment.isoformat()}'"
        )
        return float(seconds)

    def seconds_to_next_start(self, moment: datetime) -> float:
        [(seconds,)] = wait_until(
            lambda: (
                (
                    rows := self.stage.query(
                        f"SELECT extract(epoch FROM min(started_at) - '{moment.isoformat()}')::float "
                        f"FROM jobs_attempt WHERE started_at > '{moment.isoformat()}' HAVING count(*) > 0"
                    )
                )
                and rows
            ),
            what="something starts again",
        )
        return float(seconds)

    def wait_for_load(self, *, more: int = 500) -> None:
        """Wait until the workers are at work on the load."""
        done = self.count("phase = 'ended'")
        wait_until(lambda: self.count("phase = 'ended'") > done + more, what="the workers are at it")


@pytest.fixture(scope="module")
def levers() -> Iterator[Levers]:
    with Stage(
        beats=2, workers=2, CARILLON_LEADER_ELECTION="false", CARILLON_API_RATE_PER_SECOND="0"
    ) as stage:
        yield Levers(stage)


class TestLevers:
    def test_act_within_a_second_at_full_load(self, levers: Levers) -> None:
        levers.pull("/job-types/noop", paused=True, reason="Until there is a backlog.")
        levers.add(BACKLOG)
        assert levers.count("state <> 'pending'") == 0
        resumed_at = levers.pull("/job-types/noop", paused=False)
        figures = {"resume": levers.seconds_to_next_start(resumed_at)}

        levers.wait_for_load()
        stopped_at = levers.pull(dispatch="stopped", reason="Incident 42.")
        wait_until(levers.is_drained, what="what ran has ended, what was queued is handed back")
        left = levers.count("state = 'pending'")
        figures["stop"] = levers.seconds_of_starts_after(stopped_at)
        started_at = levers.pull(dispatch="running")
        assert left > 0
        figures["start"] = levers.seconds_to_next_start(started_at)

        levers.wait_for_load()
        paused_at = levers.pull("/job-types/noop", paused=True, reason="Bad deploy.")
        wait_until(levers.is_drained, what="what ran has ended, what was queued is handed back")
        figures["pause"] = levers.seconds_of_starts_after(paused_at)

        levers.pull("/job-types/noop", max_in_flight=3)
        levers.pull("/job-types/noop", paused=False)
        levers.wait_for_load(more=50)
        assert max(levers.count("phase = 'in_flight'") for _ in range(20)) <= 3
        levers.pull("/job-types/noop", max_in_flight=None)
        wait_until(lambda: levers.count("phase = 'in_flight'") > 3, what="the cap is lifted")
        assert max(figures["stop"], figures["pause"]) < STOPS_WITHIN_SECONDS, figures
        assert max(figures["resume"], figures["start"]) < STARTS_WITHIN_SECONDS, figures

    def test_lose_and_double_nothing(self, levers: Levers) -> None:
        wait_until(lambda: levers.count("phase <> 'ended'") == 0, timeout=120, what="all have run")
        assert levers.count("state = 'succeeded'") == BACKLOG
        [(attempts,)] = levers.stage.query("SELECT count(*) FROM jobs_attempt")
        assert attempts == BACKLOG


class TestTargets:
    def test_are_paused_capped_and_slowed_within_a_second_at_full_load(
        self, levers: Levers, receiver: Receiver
    ) -> None:
        target = f"/targets/{urlsplit(receiver.url).netloc}"
        levers.pull(target, paused=True, reason="Until there is a backlog.")
        levers.add(CALLS, "webhook", url=receiver.url)
        assert not receiver.started
        resumed_at = levers.pull(target, paused=False)
        figures = {"resume": levers.seconds_to_next_start(resumed_at)}

        levers.wait_for_load(more=200)
        paused_at = levers.pull(target, paused=True, reason="It is down.")
        wait_until(levers.is_drained, what="what was called has answered, what was queued is handed back")
        figures["pause"] = levers.seconds_of_starts_after(paused_at)

        levers.pull(target, paused=False, max_in_flight=3)
        levers.wait_for_load(more=50)
        assert max(levers.count("phase = 'in_flight'") for _ in range(20)) <= 3

        slowed_at = levers.pull(target, max_in_flight=None, rate_per_second=RATE)
        since = f"'{slowed_at.isoformat()}'::timestamptz + interval '{STOPS_WITHIN_SECONDS} s'"
        until = f"{since} + interval '{WATCH_SECONDS} s'"
        wait_until(
            lambda: levers.stage.query(f"SELECT 1 WHERE clock_timestamp() > {until}"), what="some seconds"
        )
        # A worker that is slow to start its triggers makes the starts uneven.
        handed_out = levers.count(f"queued_at BETWEEN {since} AND {until}")
        # A second's worth of calls may have been saved up.
        assert 0 < handed_out <= RATE * (WATCH_SECONDS + 1), handed_out
        figures["slow"] = handed_out / WATCH_SECONDS
        lifted_at = levers.pull(target, rate_per_second=None)
        figures["lift"] = levers.seconds_to_next_start(lifted_at)
        print({name: round(figure, 3) for name, figure in figures.items()})
        assert figures["pause"] < STOPS_WITHIN_SECONDS, figures
        assert max(figures["resume"], figures["lift"]) < STARTS_WITHIN_SECONDS, figures

    def test_lose_and_double_nothing(self, levers: Levers, receiver: Receiver) -> None:
        wait_until(lambda: levers.count("phase <> 'ended'") == 0, timeout=120, what="all have run")
        assert len({delivery.execution_id for delivery in receiver.started}) == CALLS
        assert len(receiver.started) == CALLS
