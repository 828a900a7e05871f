"""A worker without Celery: the outcome of each way a handler can end."""

import contextlib
import threading
from datetime import timedelta
from typing import Any

import pytest

from jobs.actions.jobs import update_job
from jobs.core.errors import InvalidInput
from jobs.handlers import Context, Permanent, Response, RetryAfter, outcome
from jobs.models import Job, Trigger
from tests import factories
from tests.engine.conftest import Beat, Perform, queued
from tests.engine.worker.conftest import Register, ended
from tests.factories import attempts, row, state_of

pytestmark = pytest.mark.django_db(transaction=True)


class TestOutcomes:
    @pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
    def test_that_cannot_be_written_cost_no_others(
        self, perform: Perform, handler: Register, monkeypatch: pytest.MonkeyPatch, delivery: str
    ) -> None:
        """If any earlier check of a bound is missed, the table refuses the row, and with it the whole statement."""
        monkeypatch.setattr(outcome, "MAX_EXCERPT_BYTES", 100_000)

        async def answer(ctx: Context, payload: dict[str, Any]) -> Response:
            return Response({"n": payload["n"]}, http_status=200, response_excerpt="x" * payload["n"])

        name = handler(answer, batch_size=5)
        good = [queued(name, payload={"n": n}) for n in range(4)]
        bad = queued(name, payload={"n": 20_000}, delivery=delivery)
        end = "dead" if delivery == "at_most_once" else "retrying"
        assert perform(*good[:2], bad, *good[2:]) == {"succeeded": 4, end: 1}
        assert [row(trigger)["result"] for trigger in good] == [{"n": n} for n in range(4)]
        [attempt] = attempts(bad)
        assert ended(bad) == (end, "failed", "unwritable_outcome")
        assert "jobs_attempt_response_excerpt_check" in attempt.error_message

    def test_keep_what_the_handler_returned(self, perform: Perform, handler: Register) -> None:
        trigger = queued(handler(lambda ctx, payload: {"got": payload["n"]}), payload={"n": 3})
        assert perform(trigger) == {"succeeded": 1}
        assert (ended(trigger), row(trigger)["result"]) == (("succeeded", "succeeded", ""), {"got": 3})

    def test_keep_a_remote_answer(self, perform: Perform, handler: Register) -> None:
        trigger = queued(handler(lambda ctx, payload: Response(None, http_status=202, response_excerpt="ok")))
        perform(trigger)
        [attempt] = attempts(trigger)
        assert (attempt.http_status, attempt.response_excerpt, row(trigger)["result"]) == (202, "ok", None)

    def test_retry_what_raised_and_say_why(self, perform: Perform, handler: Register) -> None:
        def boom(ctx: Context, payload: dict[str, Any]) -> None:
            raise ValueError("wires\0crossed")

        trigger = queued(handler(boom), retry_policy={"backoff": "fixed", "initial_delay_seconds": 40})
        assert perform(trigger) == {"retrying": 1}
        [attempt] = attempts(trigger)
        assert ended(trigger) == ("retrying", "failed", "exception")
        assert (attempt.error_class, attempt.error_message) == ("ValueError", "wires\ufffdcrossed")
        assert "boom" in attempt.traceback
        assert 35 < (row(trigger)["due_at"] - factories.now()).total_seconds() <= 48

    def test_bury_what_has_used_up_its_budget(self, perform: Perform, handler: Register) -> None:
        trigger = queued(handler(lambda ctx, payload: 1 / 0), retry_policy={"max_attempts": 1})
        perform(trigger)
        assert state_of(trigger) == ("dead", "exhausted")

    @pytest.mark.parametrize(
        "value",
        [
            object(),
            {1, 2},
            float("nan"),
            {"a": b"x"},
            2**60,
            "\0",
            {"a\0": 1},
            "\ud800",
            "x" * 70_000,
            [[]] * 70_000,
        ],
        ids=lambda value: f"{value!r:.20}",
    )
    def test_fail_a_result_that_cannot_be_stored(
        self, perform: Perform, handler: Register, value: Any
    ) -> None:
        trigger = queued(handler(lambda ctx, payload: value))
        perform(trigger)
        assert ended(trigger) == ("retrying", "failed", "bad_result")
        assert row(trigger)["result"] is None

    @pytest.mark.parametrize("asynchronous", [False, True])
    @pytest.mark.parametrize(
        "state",
        [
            {"a": object()},
            {"a": "\0"},
            {"a\0": 1},
            {"a": float("inf")},
            {"a": "x" * 70_000},
            [1],
            None,
            {7: 1},
        ],
        ids=lambda state: f"{state!r:.20}",
    )
    def test_fail_for_a_checkpoint_that_cannot_be_kept_and_keep_the_one_before(
        self, perform: Perform, handler: Register, state: Any, asynchronous: bool
    ) -> None:
        def report(ctx: Context, payload: dict[str, Any]) -> str:
            ctx.checkpoint({"page": 7})
            if payload:
                ctx.checkpoint(state)
            return "done"

        async def report_async(ctx: Context, payload: dict[str, Any]) -> str:
            return report(ctx, payload)

        name = handler(report_async if asynchronous else report, batch_size=2)
        bad, good = queued(name, payload={"bad": True}), queued(name)
        assert perform(bad, good) == {"retrying": 1, "succeeded": 1}
        assert ended(bad) == ("retrying", "failed", "bad_checkpoint")
        assert "checkpoint" in attempts(bad)[0].error_message
        assert row(bad)["checkpoint"] == row(good)["checkpoint"] == {"page": 7}

    def test_fail_for_progress_that_is_none(self, perform: Perform, handler: Register) -> None:
        trigger = queued(handler(lambda ctx, payload: ctx.progress(2)))
        perform(trigger)
        assert ended(trigger) == ("retrying", "failed", "bad_progress")

    def test_succeed_when_the_handler_caught_the_refusal(self, perform: Perform, handler: Register) -> None:
        def careful(ctx: Context, payload: dict[str, Any]) -> None:
            with contextlib.suppress(InvalidInput):
                ctx.checkpoint({"a": "\0"})

        assert perform(queued(handler(careful))) == {"succeeded": 1}

    def test_bury_what_is_permanent_and_pause_the_job_when_told(
        self, perform: Perform, handler: Register
    ) -> None:
        def gone(ctx: Context, payload: dict[str, Any]) -> None:
            raise Permanent("Gone", http_status=410, pause_job=True)

        trigger = queued(handler(gone))
        perform(trigger)
        assert state_of(trigger) == ("dead", "permanent")
        assert Job.objects.get(id=trigger.job_id).status == "paused"

    def test_do_not_pause_a_job_for_what_an_edit_has_mended(
        self, perform: Perform, handler: Register
    ) -> None:
        def gone(ctx: Context, payload: dict[str, Any]) -> None:
            job = Job.objects.get(id=ctx.job_id)
            update_job(tenant=job.tenant, job_id=job.id, changes={"payload": {"sleep_ms": 1}})
            raise Permanent("Gone", http_status=410, pause_job=True)

        trigger = queued(handler(gone))
        perform(trigger)
        assert state_of(trigger) == ("dead", "permanent")
        assert Job.objects.get(id=trigger.job_id).status == "active"

    def test_honour_retry_after(self, perform: Perform, handler: Register) -> None:
        def busy(ctx: Context, payload: dict[str, Any]) -> None:
            raise RetryAfter(timedelta(hours=3))

        trigger = queued(handler(busy))
        perform(trigger)
        assert row(trigger)["due_at"] - factories.now() > timedelta(hours=2, minutes=59)

    def test_interrupt_a_handler_at_its_timeout(self, perform: Perform, handler: Register) -> None:
        stuck = handler(lambda ctx, payload: threading.Event().wait(30))
        trigger = queued(stuck, timeout=timedelta(milliseconds=100))
        perform(trigger)
        assert ended(trigger) == ("retrying", "timed_out", "timeout")

    @pytest.mark.parametrize("status", [99_999, -1, "teapot", True])
    def test_survive_a_status_that_is_none(self, perform: Perform, handler: Register, status: Any) -> None:
        def odd(ctx: Context, payload: dict[str, Any]) -> None:
            raise Permanent("odd", http_status=status)

        trigger = queued(handler(odd))
        assert perform(trigger) == {"dead": 1}
        assert attempts(trigger)[0].http_status is None

    def test_fall_back_to_the_default_when_the_stored_policy_is_broken(
        self, perform: Perform, handler: Register
    ) -> None:
        trigger = queued(handler(lambda ctx, payload: 1 / 0), retry_policy={"max_attempts": "many"})
        assert perform(trigger) == {"retrying": 1}

    def test_pause_nothing_for_an_outcome_that_came_too_late(
        self, perform: Perform, handler: Register
    ) -> None:
        def gone(ctx: Context, payload: dict[str, Any]) -> None:
            Trigger.objects.filter(id=ctx.trigger_id).update(fence=9)
            raise Permanent("Gone", pause_job=True)

        trigger = queued(handler(gone))
        assert perform(trigger) == {"stale": 1}
        assert Job.objects.get(id=trigger.job_id).status == "active"

    def test_of_one_trigger_leave_its_batch_unharmed(self, perform: Perform, handler: Register) -> None:
        def picky(ctx: Context, payload: dict[str, Any]) -> None:
            if payload.get("bad"):
                raise SystemExit(3)

        name = handler(picky, batch_size=3)
        good, bad, late = queued(name), queued(name, payload={"bad": True}), queued(name)
        assert perform(good, bad, late) == {"succeeded": 2, "retrying": 1}
        assert ended(bad)[2] == "system_exit"


class TestAtMostOnce:
    def test_is_not_tried_again_when_it_failed(self, perform: Perform, handler: Register) -> None:
        trigger = queued(handler(lambda ctx, payload: 1 / 0), delivery="at_most_once")
        assert perform(trigger) == {"dead": 1}
        assert state_of(trigger) == ("dead", "exhausted")

    def test_is_lost_with_its_lease_and_no_beat_starts_it_again(
        self, perform: Perform, handler: Register, beat: Beat, clock: Any
    ) -> None:
        starts = []

        def freezes(ctx: Context, payload: dict[str, Any]) -> str:
            starts.append(ctx.fence)
            clock(2 * factories.MINUTE)
            beat.step()
            return "late"

        trigger = queued(handler(freezes), delivery="at_most_once")
        assert perform(trigger) == {"stale": 1}
        assert state_of(trigger) == ("dead", "lost")
        clock(4 * factories.MINUTE)
        beat.step()
        assert (starts, beat.broker.tokens, attempts(trigger)[0].state) == ([1], [], "stale")
