"""Heartbeat and complete: each proves its fence, and may be repeated."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from jobs.engine import endings
from jobs.models import Attempt, Job
from jobs.telemetry.output import MAX_BYTES
from tests.factories import HOUR, LEASE, MINUTE, SECOND, attempts, make_tenant, row, state_of
from tests.interfaces.api.caller import Caller, faulty_fields
from tests.pull.conftest import claim, claim_token, declare, pull_job, queued

pytestmark = pytest.mark.django_db
Clock = Callable[[Any], None]
Turn = Callable[[], float]


@pytest.fixture
def work(tenant: Any, worker: Caller) -> dict[str, Any]:
    """A claimed trigger, as the worker knows it."""
    queued(pull_job(tenant, retry_policy={"max_attempts": 3}, timeout=10 * MINUTE))
    return claim(worker)[0]


def stored(work: dict[str, Any]) -> dict[str, Any]:
    return row(UUID(work["trigger_id"]))


def complete(worker: Caller, work: dict[str, Any], outcome: str = "succeeded", **more: Any) -> Any:
    return worker.post("/worker/complete", claim_token(work) | {"outcome": outcome} | more)


def beat(worker: Caller, work: dict[str, Any], **more: Any) -> str:
    response = worker.post("/worker/heartbeat", {"triggers": [claim_token(work) | more]})
    assert response.status_code == 200, response.content
    [answer] = response.json()["triggers"]
    assert answer["trigger_id"] == work["trigger_id"]
    return answer["status"]


class TestComplete:
    def test_keeps_the_result(self, worker: Caller, work: dict[str, Any]) -> None:
        response = complete(worker, work, result={"pages": 3})
        assert response.status_code == 200, response.content
        assert response.json() == {
            **claim_token(work),
            "attempt_id": work["attempt_id"],
            "attempt_number": 1,
            "attempt_state": "succeeded",
        }
        assert (stored(work)["state"], stored(work)["result"]) == ("succeeded", {"pages": 3})

    def test_is_a_line_in_the_log(
        self, worker: Caller, work: dict[str, Any], caplog: pytest.LogCaptureFixture
    ) -> None:
        endings._sampled.cache_clear()
        for _ in range(2):
            complete(worker, work, "failed", error={"message": "Canary", "code": "printer_busy"})
        [line] = [record.msg for record in caplog.records if record.msg["event"] == "retry"]
        assert (line["job_type"], line["outcome"], line["error"]) == (
            stored(work)["job_type"],
            "failed",
            "printer_busy",
        )
        assert line["duration_seconds"] >= 0 <= line["lag_seconds"]
        assert "Canary" not in str(line)

    def test_is_answered_alike_when_repeated(
        self, worker: Caller, work: dict[str, Any], turn: Turn, clock: Clock
    ) -> None:
        first = complete(worker, work, "failed", error={"message": "busy"})
        assert complete(worker, work, "failed").json() == first.json()
        assert stored(work)["state"] == "retrying"
        clock(HOUR)
        turn()
        assert stored(work)["fence"] == work["fence"] + 1
        before = stored(work)
        assert complete(worker, work, "failed").json() == first.json()
        assert stored(work) == before

    def test_refuses_to_be_told_otherwise(self, worker: Caller, work: dict[str, Any]) -> None:
        complete(worker, work)
        assert complete(worker, work, "failed").status_code == 409
        assert stored(work)["state"] == "succeeded"

    def test_retries_a_failure_with_what_was_told_of_it(self, worker: Caller, work: dict[str, Any]) -> None:
        error = {"message": "busy", "code": "printer_busy", "kind": "Busy", "traceback": "line 1"}
        complete(worker, work, "failed", error=error, retry_after_seconds=3600)
        assert stored(work)["state"] == "retrying"
        assert stored(work)["due_at"] - stored(work)["started_at"] >= HOUR
        [attempt] = attempts(UUID(work["trigger_id"]))
        assert (attempt.error_message, attempt.error_code) == ("busy", "printer_busy")
        assert (attempt.error_class, attempt.traceback) == ("Busy", "line 1")

    def test_buries_a_permanent_failure_and_pauses_on_request(
        self, worker: Caller, work: dict[str, Any]
    ) -> None:
        complete(worker, work, "failed", permanent=True, pause_job=True)
        assert (stored(work)["state"], stored(work)["reason"]) == ("dead", "permanent")
        assert Job.objects.get().status == "paused"

    def test_takes_a_cancel_only_where_one_was_asked_for(
        self, worker: Caller, service: Caller, work: dict[str, Any]
    ) -> None:
        assert complete(worker, work, "cancelled").status_code == 409
        service.post(f"/triggers/{work['trigger_id']}/cancel")
        assert beat(worker, work) == "cancel"
        assert complete(worker, work, "cancelled").status_code == 200
        assert state_of(UUID(work["trigger_id"])) == ("cancelled", "requested")

    def test_under_a_stale_fence_changes_nothing_but_its_own_attempt(
        self, worker: Caller, work: dict[str, Any], turn: Turn, clock: Clock
    ) -> None:
        clock(LEASE + SECOND)
        turn()
        before = stored(work)
        assert before["state"] != "running"
        for _ in range(2):
            response = complete(worker, work, result={"late": True})
            assert response.status_code == 409
            assert response.json()["type"] == "urn:carillon:problem:stale-fence"
        assert stored(work) == before
        assert [attempt.state for attempt in attempts(UUID(work["trigger_id"]))] == ["stale"]

    def test_under_a_fence_that_never_was_changes_nothing(self, worker: Caller, work: dict[str, Any]) -> None:
        before = stored(work)
        assert complete(worker, work | {"fence": 99}).status_code == 409
        assert stored(work) == before

    def test_shows_an_outsider_nothing(self, work: dict[str, Any]) -> None:
        outsider = Caller(make_tenant(), scopes=("worker",))
        before = stored(work)
        missing = work | {"trigger_id": "018f0000-0000-7000-8000-000000000000"}
        answers = [complete(outsider, it) for it in (work, missing)]
        assert [answer.status_code for answer in answers] == [404, 404]
        assert answers[0].json() == answers[1].json()
        assert beat(outsider, work) == beat(outsider, missing) == "lost"
        assert stored(work) == before

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({"trigger_id": "x"}, "trigger_id"),
            ({"fence": -1}, "fence"),
            ({"fence": 2**31}, "fence"),
            ({"outcome": "done"}, "outcome"),
            ({"outcome": None}, "outcome"),
            ({"permanent": True}, "permanent"),
            ({"outcome": "failed", "permanent": "yes"}, "permanent"),
            ({"outcome": "failed", "pause_job": True}, "pause_job"),
            ({"outcome": "failed", "retry_after_seconds": 1e9}, "retry_after_seconds"),
            ({"outcome": "failed", "error": "busy"}, "error"),
            ({"outcome": "failed", "error": {"text": "busy"}}, "error.text"),
            ({"outcome": "failed", "error": {"message": 5}}, "error.message"),
            ({"outcome": "failed", "result": 1}, "result"),
            ({"result": "a\x00"}, "result"),
            ({"bogus": 1}, "bogus"),
        ],
    )
    def test_refuses_what_cannot_be_kept(
        self, worker: Caller, work: dict[str, Any], body: Any, field: str
    ) -> None:
        before = stored(work)
        response = worker.post("/worker/complete", claim_token(work) | {"outcome": "succeeded"} | body)
        assert faulty_fields(response) == {field}
        assert stored(work) == before


class TestHeartbeat:
    def test_prolongs_the_lease_and_keeps_progress_and_checkpoint(
        self, worker: Caller, work: dict[str, Any], clock: Clock
    ) -> None:
        before = stored(work)["lease_expires_at"]
        clock(10 * SECOND)
        more = {"progress": {"fraction": 0.5, "stage": "half"}, "checkpoint": {"page": 3}}
        assert beat(worker, work, **more) == "held"
        after = stored(work)
        assert after["lease_expires_at"] >= before + 10 * SECOND
        assert (after["progress"], after["checkpoint"]) == ({"fraction": 0.5, "stage": "half"}, {"page": 3})

    def test_ends_what_has_had_its_time(self, worker: Caller, tenant: Any, clock: Clock) -> None:
        queued(pull_job(tenant, timeout=5 * SECOND))
        [work] = claim(worker)
        clock(6 * SECOND)
        assert beat(worker, work) == "timed_out"
        assert stored(work)["state"] == "retrying"
        assert [attempt.state for attempt in attempts(UUID(work["trigger_id"]))] == ["timed_out"]
        assert beat(worker, work) == "lost"
        assert complete(worker, work).status_code == 409

    def test_tells_of_a_lost_lease_and_changes_nothing(
        self, worker: Caller, work: dict[str, Any], turn: Turn, clock: Clock
    ) -> None:
        clock(LEASE + SECOND)
        turn()
        before = stored(work)
        assert beat(worker, work, checkpoint={"page": 9}) == "lost"
        assert stored(work) == before

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({"triggers": []}, "triggers"),
            ({"triggers": [5]}, "triggers[0]"),
            ({"triggers": [{"trigger_id": "x", "fence": 1}]}, "triggers[0].trigger_id"),
        ],
    )
    def test_refuses_what_it_cannot_read(self, worker: Caller, body: Any, field: str) -> None:
        assert faulty_fields(worker.post("/worker/heartbeat", body)) == {field}

    @pytest.mark.parametrize(
        ("report", "field"),
        [
            ({"progress": {"fraction": 2}}, "progress.fraction"),
            ({"progress": {"stage": "x"}}, "progress.fraction"),
            ({"progress": 0.5}, "progress"),
            ({"checkpoint": [1]}, "checkpoint"),
            ({"checkpoint": {"a": "\x00"}}, "checkpoint.a"),
            ({"checkpoint": {"a": "x" * 70_000}}, "checkpoint"),
        ],
    )
    def test_refuses_a_report_that_cannot_be_kept(
        self, worker: Caller, work: dict[str, Any], report: Any, field: str
    ) -> None:
        response = worker.post("/worker/heartbeat", {"triggers": [claim_token(work) | report]})
        assert faulty_fields(response) == {f"triggers[0].{field}"}


class TestAWorkerThatIsKilled:
    def test_loses_its_trigger_to_the_next_one_after_its_lease(
        self, worker: Caller, work: dict[str, Any], turn: Turn, clock: Clock
    ) -> None:
        clock(LEASE - SECOND)
        turn()
        assert stored(work)["state"] == "running"
        clock(LEASE + SECOND)
        turn()
        assert (stored(work)["state"], stored(work)["crash_count"]) == ("retrying", 1)
        clock(HOUR)
        turn()
        [again] = claim(worker, capacity=1)
        assert again["trigger_id"] == work["trigger_id"]
        assert (again["fence"], again["attempt_number"]) == (work["fence"] + 2, 2)
        assert again["idempotency_key"] == work["idempotency_key"]
        assert complete(worker, again).status_code == 200
        assert complete(worker, work).status_code == 409

    def test_is_not_charged_for_what_it_held_beside_others(
        self, tenant: Any, worker: Caller, turn: Turn, clock: Clock
    ) -> None:
        declare(tenant)
        held = [queued(pull_job(tenant)) for _ in range(2)]
        assert len(claim(worker)) == 2
        clock(LEASE + SECOND)
        turn()
        assert [row(trigger)["crash_count"] for trigger in held] == [0, 0]


class TestOutput:
    @staticmethod
    def kept(work: dict[str, Any]) -> str | None:
        return Attempt.objects.get(id=work["attempt_id"]).output

    def test_is_what_a_heartbeat_said_last_and_then_the_completion(
        self, worker: Caller, work: dict[str, Any]
    ) -> None:
        for output, expected in (
            ("one\n", "one\n"),
            ("one\ntwo\n", "one\ntwo\n"),
            (None, "one\ntwo\n"),
            ("", "one\ntwo\n"),
        ):
            assert beat(worker, work, output=output) == "held"
            assert self.kept(work) == expected
        assert complete(worker, work, output="one\ntwo\nthree\n").status_code == 200
        assert self.kept(work) == "one\ntwo\nthree\n"
        assert complete(worker, work, output="other").status_code == 200
        assert self.kept(work) == "one\ntwo\nthree\n"

    @pytest.mark.parametrize(
        ("outcome", "more"), [("succeeded", {}), ("failed", {"error": {"message": "no"}}), ("cancelled", {})]
    )
    def test_of_a_heartbeat_outlives_a_completion_without_any(
        self, service: Caller, worker: Caller, work: dict[str, Any], outcome: str, more: dict[str, Any]
    ) -> None:
        beat(worker, work, output="said")
        service.post(f"/triggers/{work['trigger_id']}/cancel")
        assert complete(worker, work, outcome, **more).status_code == 200
        assert self.kept(work) == "said"

    def test_of_a_worker_that_died_is_what_it_said_last(
        self, worker: Caller, work: dict[str, Any], clock: Clock, turn: Turn
    ) -> None:
        beat(worker, work, output="last words")
        clock(2 * LEASE)
        turn()
        assert Attempt.objects.get(id=work["attempt_id"]).state == "lost"
        assert self.kept(work) == "last words"
        assert beat(worker, work, output="too late") == "lost"
        assert self.kept(work) == "last words"
        assert complete(worker, work, output="the end").status_code == 409
        assert self.kept(work) == "the end"

    def test_of_what_has_had_its_time_is_kept(
        self, worker: Caller, work: dict[str, Any], clock: Clock
    ) -> None:
        clock(11 * MINUTE)
        assert beat(worker, work, output="at the end") == "timed_out"
        assert self.kept(work) == "at the end"

    def test_is_cut_and_cleaned_as_of_a_handler(self, worker: Caller, work: dict[str, Any]) -> None:
        beat(worker, work, output="\x1b[31mred\x1b[0m\r\n" + "é" * 100_000 + "end")
        kept = self.kept(work) or ""
        assert len(kept.encode()) <= MAX_BYTES
        assert kept.startswith("red\né")
        assert kept.endswith("éend")
        assert "bytes left out" in kept

    @pytest.mark.parametrize("output", [7, ["a"], {"a": 1}, True])
    def test_that_is_no_text_is_refused_by_its_name(
        self, worker: Caller, work: dict[str, Any], output: object
    ) -> None:
        answer = worker.post("/worker/heartbeat", {"triggers": [claim_token(work) | {"output": output}]})
        assert faulty_fields(answer) == {"triggers[0].output"}
        assert faulty_fields(complete(worker, work, output=output)) == {"output"}
        assert self.kept(work) is None

    def test_is_no_other_tenants_to_write(self, work: dict[str, Any]) -> None:
        stranger = Caller(make_tenant(), scopes=("worker",))
        assert beat(stranger, work, output="mine") == "lost"
        assert complete(stranger, work, output="mine").status_code == 404
        assert self.kept(work) is None

    def test_of_many_is_each_ones_own(self, tenant: Any, worker: Caller) -> None:
        job = pull_job(tenant)
        for _ in range(3):
            queued(job)
        works = claim(worker, capacity=3)
        reports = [claim_token(work) | {"output": work["trigger_id"]} for work in works]
        reports[1] |= {"fence": 9}
        assert worker.post("/worker/heartbeat", {"triggers": reports}).status_code == 200
        assert [self.kept(work) for work in works] == [
            works[0]["trigger_id"], None, works[2]["trigger_id"]
        ]  # fmt: skip
